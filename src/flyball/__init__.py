"""Flyball: which job runs where, when, on how many devices and at what power.

Importing this package loads nothing heavy and compiles nothing; the parts are imported
where they are used (`flyball.twin.twin`, `flyball.schedule.policies`, ...).

    client = flyball.Client()           talk to a control plane, from anywhere
    flyball.report(step=10, loss=0.3)   report progress, from inside a job
    flyball.elastic()                   how many devices the job has now, from inside it
    flyball.TorchCallback(model, ...)   all of that for a plain PyTorch loop
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.sdk.client import Client
    from flyball.sdk.elastic import elastic
    from flyball.sdk.reporting import report
    from flyball.sdk.torch_loop import TorchCallback

__all__ = ["Client", "TorchCallback", "__version__", "elastic", "report"]
__version__ = "0.1.0"

_LAZY = {
    "Client": "flyball.sdk.client",
    "TorchCallback": "flyball.sdk.torch_loop",
    "elastic": "flyball.sdk.elastic",
    "report": "flyball.sdk.reporting",
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
