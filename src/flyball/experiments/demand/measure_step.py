"""One measured row: a process of its own builds a net, trains it a few steps and reports.

Memory is the highest resident size (VmHWM) less the resident size before the net was built. The
kernel's mark is reset at that point, after a tiny net of the same type has run: its pages of code
and the workspaces of the libraries belong to the floor, as a CUDA context would.

A step takes one thread and never waits, so its time is that of the core it ran on
(CLOCK_PROCESS_CPUTIME_ID): what it would take by the clock with a core to itself. The time by the
clock is reported too; where other processes want the core it is longer.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo  # the first optimiser would load it: seconds, in every process anew
from torch.utils.flop_counter import FlopCounterMode

from flyball.experiments.demand.measure_nets import stepper
from flyball.predict.demand.measure_shapes import Shape, smallest

ISA = "AVX512_CORE_BF16"
"""Most that oneDNN may use: virtual machines announce AMX and then refuse it."""
WARM_STEPS, LEAST_STEPS, MOST_STEPS = 2, 3, 20
BUDGET_S = 0.2
"""Of timed steps."""


def measured(shape: Shape, seed: int) -> dict[str, Any]:
    """Run a net in this process, which should be a fresh one, and report a row."""
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", ISA)
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    _warm(smallest(shape))
    floor_kib = _reset_peak()
    net, step = stepper(shape)
    for _ in range(WARM_STEPS):
        step()
    wall_s, core_s = _timed(step)
    peak_kib = _status("VmHWM")
    return {
        "model_type": shape.type,
        "parameters": sum(each.numel() for each in net.parameters()),
        "batch_size": shape.batch,
        "input_size": shape.size,
        "layers": _layers(net),
        "iterations": shape.iterations,
        "precision": shape.precision,
        "optimizer": shape.optimizer,
        "regularization": shape.regularization,
        "augmentation": shape.augmentation,
        "learning_rate": shape.learning_rate,
        "flops": counted(step),
        "step_s": round(min(core_s), 7),
        "step_median_s": round(float(np.median(core_s)), 7),
        "wall_s": round(min(wall_s), 7),
        "memory_mib": round((peak_kib - floor_kib) / 1024.0, 3),
        "steps": len(wall_s),
    }


def counted(step: Any) -> int:
    """Operations of one step, counted operator by operator.

    The counter does not know oneDNN's fused LSTM; its formula is added here.
    """
    fused = torch.ops.aten
    extra = {
        fused.mkldnn_rnn_layer: _fused_lstm,
        fused.mkldnn_rnn_layer_backward: _fused_lstm_backward,
    }
    with FlopCounterMode(display=False, custom_mapping=extra) as counter:
        step()
    return int(counter.get_total_flops())


def _fused_lstm(given: Any, first: Any, second: Any, *_rest: Any, **_named: Any) -> int:
    """Two products for each time and sample: of the input and of the state with the gates."""
    samples = int(np.prod(given[:-1]))
    return 2 * samples * (int(np.prod(first)) + int(np.prod(second)))


def _fused_lstm_backward(given: Any, first: Any, second: Any, *_rest: Any, **_named: Any) -> int:
    return 2 * _fused_lstm(given, first, second)


def _layers(net: torch.nn.Module) -> int:
    """Modules with a matrix of weights, each layer of a recurrent one counted."""
    total = 0
    for each in net.modules():
        if isinstance(each, torch.nn.RNNBase):
            total += each.num_layers
        elif isinstance(each, torch.nn.Linear | torch.nn.Conv2d):
            total += 1
    return total


def _warm(shape: Shape) -> None:
    _net, step = stepper(shape)
    for _ in range(WARM_STEPS):
        step()


def _timed(step: Any) -> tuple[list[float], list[float]]:
    """Seconds of each step by the clock, and of the core that ran it."""
    wall_s: list[float] = []
    core_s: list[float] = []
    while len(wall_s) < LEAST_STEPS or (sum(core_s) < BUDGET_S and len(wall_s) < MOST_STEPS):
        start, core = time.perf_counter(), time.process_time()
        step()
        core_s.append(time.process_time() - core)
        wall_s.append(time.perf_counter() - start)
    return wall_s, core_s


def _reset_peak() -> int:
    """Give back what is free, set the mark to what is held; KiB held."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", "utf-8")
    return _status("VmRSS")


def _status(field: str) -> int:
    """KiB of a field of the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        name, _colon, value = line.partition(":")
        if name == field:
            return int(value.split()[0])
    raise AssertionError(f"no {field}")
