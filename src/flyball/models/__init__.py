"""Users' models: a graph optimiser that never loses.

`optimize` returns the fastest equal form of a module, `optimize_training` that of a training step,
`load` what `flyball optimize` wrote. They need the extra `models`; names are imported when used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.models.artifact import load as load
    from flyball.models.search import optimize as optimize
    from flyball.models.training.search import optimize_training as optimize_training

_PLACES = {
    "load": "flyball.models.artifact",
    "optimize": "flyball.models.search",
    "optimize_training": "flyball.models.training.search",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flyball.models.extras import require

    require("torch")
    return getattr(import_module(_PLACES[name]), name)
