"""Measures one model in a process of its own, so that its memory is free for the next.

    python -m flyball.models.trial.one '{"kind": "inference", "model": "resnet50", "threads": 2}'

prints the result as JSON on stdout.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

QUICK = (
    *("passes", "channels-last", "fused", "onnxruntime", "onnxruntime-one-thread", "openvino"),
    "inductor",
)
"""Back ends of the default run, the one that compiles last."""
COMPILES_FOR_MINUTES = ("efficientnet-b7", "lstm")
"""Models of many operations, which inductor compiles with `--full` only."""


def tell(step: str) -> None:
    """Name a finished step on stderr, for the process that started this one."""
    sys.stderr.write(f"step: {step}\n")
    sys.stderr.flush()


def inference(model: str, threads: int, full: bool, time_limit_s: float) -> dict[str, Any]:
    """Return the result of optimising a model of the zoo for inference."""
    from flyball.models.backends.registry import EXACT
    from flyball.models.search import optimize
    from flyball.models.zoo.registry import build

    module, example = build(model)
    quick = QUICK[:-1] if model in COMPILES_FOR_MINUTES else QUICK
    result = optimize(
        module,
        example,
        name=model,
        threads=threads,
        time_limit_s=time_limit_s,
        backends=EXACT if full else quick,
        use_cache=False,
        # One thread does as much work on a busy machine as on an idle one: CPU time shows it.
        clock=time.process_time if threads == 1 else time.perf_counter,
        advance=lambda step: tell(f"{model}: {step}"),
    )
    return result.as_dict()


def training(model: str, threads: int, full: bool, time_limit_s: float) -> dict[str, Any]:
    """Return what a training step of a model gains."""
    from flyball.models.trial.training import measure

    return measure(model, threads, full, time_limit_s)


def memory(model: str, threads: int, full: bool, time_limit_s: float) -> dict[str, Any]:
    """Return the memory that recomputation saves in a training step."""
    from flyball.models.trial.training import measure_memory

    return measure_memory(model, threads)


def layers(model: str, threads: int, full: bool, time_limit_s: float) -> dict[str, Any]:
    """Return what fusing one kind of layer gains."""
    from flyball.models.trial.layers import measure

    return measure(model, threads)


def gemm(model: str, threads: int, full: bool, time_limit_s: float) -> dict[str, Any]:
    """Return the rates of a matrix product by kernel."""
    from flyball.models.machine import gemm_rates

    return {"threads": threads, "gflops": gemm_rates(threads)}


KINDS = {
    "inference": inference,
    "training": training,
    "memory": memory,
    "layers": layers,
    "gemm": gemm,
}


def main(request: str) -> None:
    """Measure what a request names and print the result."""
    values = json.loads(request)
    kind = KINDS[values.pop("kind")]
    result = kind(
        str(values["model"]),
        int(values["threads"]),
        bool(values.get("full", False)),
        float(values.get("time_limit_s", 120.0)),
    )
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
