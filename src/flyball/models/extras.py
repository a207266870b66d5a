"""Which optional packages are installed, and what to install for the others."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec

from flyball.core.errors import DataAbsent

INSTALL = "pip install 'flyball[models]'"
PACKAGES = {
    "torch": "torch",
    "onnx": "onnx",
    "onnxscript": "onnxscript",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
}
"""Distribution of each module that the extra `models` installs."""


def missing(modules: tuple[str, ...]) -> list[str]:
    """Return those of the modules that are not installed."""
    return [module for module in modules if find_spec(module) is None]


def require(*modules: str) -> None:
    """Check that modules are installed.

    Raises:
        DataAbsent: one is not; says what to install.
    """
    absent = missing(modules)
    if absent:
        names = " and ".join(absent)
        verb = "is" if len(absent) == 1 else "are"
        raise DataAbsent(f"{names} {verb} not installed", INSTALL)


def versions() -> dict[str, str]:
    """Return the installed version of each optional package."""
    return {
        module: metadata.version(name)
        for module, name in PACKAGES.items()
        if find_spec(module) is not None
    }
