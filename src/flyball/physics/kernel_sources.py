"""Finds the sources of compiled code: modules that use the compiler, and all that they import.

The imports are read as text and not executed, because the result names the cache folder that the
compiled modules need when they are imported. An import inside a function is not followed: compiled
functions cannot import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
COMPILER = "physics/compile.py"
IMPORT = re.compile(
    r"^from flyball\.?([\w.]*) import (\([^)]*\)|.*)$|^import flyball\.([\w.]+)", re.MULTILINE
)
"""Matches a module-level import. Those under `if TYPE_CHECKING:` are indented and not followed."""
COMPILES = re.compile(
    r"^from flyball\.physics\.compile import [^\n]*\b(?:entry|hot|kernel)\b", re.MULTILINE
)
"""Matches in a module that defines compiled functions."""


def kernel_sources(package: Path = PACKAGE) -> list[Path]:
    """Return the sources that compiled code depends on, sorted.

    Args:
        package: the folder of `flyball`.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    pending = [path for path, text in texts.items() if COMPILES.search(text)]
    pending.append(package / COMPILER)
    sources: set[Path] = set()
    while pending:
        path = pending.pop()
        if path not in sources:
            sources.add(path)
            pending += [file for file in imported(texts[path], package) if file in texts]
    return sorted(sources)


def imported(text: str, package: Path) -> Iterator[Path]:
    """Yield the files that the imports of a source may refer to; not all need exist."""
    for origin, names, plain in IMPORT.findall(text):
        folder = package.joinpath(*(plain or origin).split("."))
        yield folder.with_suffix(".py")
        yield folder / "__init__.py"
        for name in re.findall(r"\w+", names):
            yield folder / f"{name}.py"
