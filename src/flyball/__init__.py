"""Flyball: which job runs where, when, on how many devices and at what power.

Importing this package loads nothing heavy and compiles nothing; each name is imported when it
is first used.

    flyball.replay(trace, cluster, policies)   compare policies on a trace, in a notebook
    flyball.generate("mixed", seed=0)          a synthetic trace
    flyball.read_trace(path)                   a trace from a file
    flyball.load_cluster("five-mixed")         a cluster, by name or from a file
    flyball.Twin(cluster, workload, knobs)     one simulation, step by step
    flyball.starts(state, chosen)              the plan of a policy in plain Python

    client = flyball.Client()           talk to a control plane, from anywhere
    flyball.report(step=10, loss=0.3)   report progress, from inside a job
    flyball.elastic()                   how many devices the job has now, from inside it
    flyball.TorchCallback(model, ...)   all of that for a plain PyTorch loop
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.core.errors import FlyballError
    from flyball.core.knobs import Knobs
    from flyball.core.plans import can_run, free_devices, pending_jobs, starts
    from flyball.notebook.replay import replay
    from flyball.sdk.client import Client
    from flyball.sdk.elastic import elastic
    from flyball.sdk.reporting import report
    from flyball.sdk.torch_loop import TorchCallback
    from flyball.twin.generate import generate
    from flyball.twin.inputs.cluster_file import load_cluster
    from flyball.twin.inputs.traces import read_trace
    from flyball.twin.twin import Twin

__all__ = [
    "Client",
    "FlyballError",
    "Knobs",
    "TorchCallback",
    "Twin",
    "__version__",
    "can_run",
    "elastic",
    "free_devices",
    "generate",
    "load_cluster",
    "pending_jobs",
    "read_trace",
    "replay",
    "report",
    "starts",
]
__version__ = "0.1.0"

_LAZY = {
    "Client": "flyball.sdk.client",
    "FlyballError": "flyball.core.errors",
    "Knobs": "flyball.core.knobs",
    "TorchCallback": "flyball.sdk.torch_loop",
    "Twin": "flyball.twin.twin",
    "can_run": "flyball.core.plans",
    "elastic": "flyball.sdk.elastic",
    "free_devices": "flyball.core.plans",
    "generate": "flyball.twin.generate",
    "load_cluster": "flyball.twin.inputs.cluster_file",
    "pending_jobs": "flyball.core.plans",
    "read_trace": "flyball.twin.inputs.traces",
    "replay": "flyball.notebook.replay",
    "report": "flyball.sdk.reporting",
    "starts": "flyball.core.plans",
}


def __dir__() -> list[str]:
    """List the public names without importing them."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'flyball' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
