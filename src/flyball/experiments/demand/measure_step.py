"""Measures one row: a fresh process builds a net, trains it for a few steps and reports.

Memory is the highest resident size (VmHWM) minus the resident size before the net was built. The
kernel's high-water mark is reset at that point, after a tiny net of the same type has run: its code
pages and the workspaces of the libraries belong to the floor, as a CUDA context would.

A step uses one thread and never waits, so its time is that of the core it ran on
(CLOCK_PROCESS_CPUTIME_ID): the wall time with a core to itself. The wall time is reported too; it
is longer if other processes use the core.
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
import torch._dynamo  # else the first optimiser loads it, which takes seconds in every process
from torch.utils.flop_counter import FlopCounterMode

from flyball.experiments.demand.measure_nets import stepper
from flyball.predict.demand.measure_shapes import Shape, smallest

ISA = "AVX512_CORE_BF16"
"""Highest instruction set for oneDNN: virtual machines report AMX and then refuse it."""
WARM_STEPS, LEAST_STEPS, MOST_STEPS = 2, 3, 20
BUDGET_S = 0.2
"""Core time of the timed steps."""


def measured(shape: Shape, seed: int) -> dict[str, Any]:
    """Run a net in this process, which should be a fresh one, and return a row."""
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
        "parameters": sum(weights.numel() for weights in net.parameters()),
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
    """Return the operations of one step, counted operator by operator.

    The counter lacks oneDNN's fused LSTM; its formula is added here.
    """
    fused = torch.ops.aten
    extra = {
        fused.mkldnn_rnn_layer: _fused_lstm,
        fused.mkldnn_rnn_layer_backward: _fused_lstm_backward,
    }
    with FlopCounterMode(display=False, custom_mapping=extra) as counter:
        step()
    return int(counter.get_total_flops())


def _fused_lstm(inputs: Any, first: Any, second: Any, *_rest: Any, **_named: Any) -> int:
    """Return the operations of two products per time and sample: input and state with the gates."""
    samples = int(np.prod(inputs[:-1]))
    return 2 * samples * (int(np.prod(first)) + int(np.prod(second)))


def _fused_lstm_backward(inputs: Any, first: Any, second: Any, *_rest: Any, **_named: Any) -> int:
    return 2 * _fused_lstm(inputs, first, second)


def _layers(net: torch.nn.Module) -> int:
    """Count the modules with a weight matrix, and each layer of a recurrent one."""
    total = 0
    for module in net.modules():
        if isinstance(module, torch.nn.RNNBase):
            total += module.num_layers
        elif isinstance(module, torch.nn.Linear | torch.nn.Conv2d):
            total += 1
    return total


def _warm(shape: Shape) -> None:
    _net, step = stepper(shape)
    for _ in range(WARM_STEPS):
        step()


def _timed(step: Any) -> tuple[list[float], list[float]]:
    """Return wall time and core time of each step."""
    wall_s: list[float] = []
    core_s: list[float] = []
    while len(wall_s) < LEAST_STEPS or (sum(core_s) < BUDGET_S and len(wall_s) < MOST_STEPS):
        start, core = time.perf_counter(), time.process_time()
        step()
        core_s.append(time.process_time() - core)
        wall_s.append(time.perf_counter() - start)
    return wall_s, core_s


def _reset_peak() -> int:
    """Release free memory and reset the high-water mark; return the KiB held."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", "utf-8")
    return _status("VmRSS")


def _status(field: str) -> int:
    """Return a field, in KiB, of the kernel's status of this process."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        name, _colon, value = line.partition(":")
        if name == field:
            return int(value.split()[0])
    raise AssertionError(f"no {field}")
