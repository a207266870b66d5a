"""Loads a policy from a user's Python file or module, and finds it there.

Loading runs the file, as `python FILE` would; that happens only if the user names it.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Knobs
from flyball.experiments.own_policy.failure import failure
from flyball.schedule.policies.preset import Preset

ENDING = ".py"
OF_FILES = ("tuned", "learned")
"""`tuned:FILE` and `learned:FILE` are policies by name, see `flyball.app.policy_settings`."""
POLICY = "POLICY"
"""The name that is taken if a file has several policies."""


class Source(NamedTuple):
    """Where a policy comes from, as the user wrote it.

    Attributes:
        text: `mypolicy.py`, `mypolicy.py:Widest` or `package.module:Widest`.
        place: the file or the module.
        attribute: a name in it; "" = the only policy there is.
    """

    text: str
    place: str
    attribute: str

    @property
    def is_file(self) -> bool:
        return self.place.endswith(ENDING)

    @classmethod
    def parse(cls, text: str) -> Source | None:
        """Return the source that a text names; None if it is the name of a policy."""
        place, colon, attribute = text.rpartition(":")
        if text.endswith(ENDING):
            return cls(text, text, "")
        if not colon or text.partition(":")[0] in OF_FILES:
            return None
        return cls(text, place, attribute)


class Loaded(NamedTuple):
    """A user's policy, whatever its form, and a digest of the code that it came with."""

    value: Any
    version: str


def load(source: Source) -> Loaded:
    """Run the file or import the module, and return the policy in it.

    Raises:
        FlyballError: it does not load, or it has no policy, or several.
    """
    # A program reads our standard output; what a user's file prints goes to the other stream.
    with contextlib.redirect_stdout(sys.stderr):
        module = _run_file(source) if source.is_file else _import(source)
    value = getattr(module, source.attribute, None) if source.attribute else None
    if value is None:
        value = _only_policy(source, policies_in(module))
    return Loaded(value, _version(module))


def _run_file(source: Source) -> ModuleType:
    path = Path(source.place)
    if not path.is_file():
        stems = [file.stem for file in _siblings(path) if file.suffix == ENDING]
        why = f"policy {source.text}: there is no file {source.place}"
        near = difflib.get_close_matches(path.stem, stems, n=1, cutoff=0.5)
        if near:
            raise BadInput(why, f"did you mean {near[0] + ENDING!r}?")
        raise BadInput(why, "name a file with a policy in it; docs/guide/own-policy.md has one")
    name = f"flyball_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Fresh(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    _make_importable(path.resolve().parent)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise failure(source.place, error, "cannot be loaded") from error
    return module


class _Fresh(SourceFileLoader):
    """Compiles the file as it is now: neither reads nor leaves compiled files beside it."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)


def _import(source: Source) -> ModuleType:
    _make_importable(Path.cwd())
    try:
        return importlib.import_module(source.place)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if source.place == missing or source.place.startswith(f"{missing}."):
            raise BadInput(
                f"policy {source.text}: there is no module {missing!r} here",
                "name a module of this folder or of an installed package, or a file FILE.py",
            ) from None
        raise failure(source.place, error, "cannot be loaded") from error
    except (Exception, SystemExit) as error:
        raise failure(source.place, error, "cannot be loaded") from error


def _siblings(path: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from path.parent.iterdir()


def _make_importable(folder: Path) -> None:
    """Let a user's file import its neighbours; they come last, so none hides a library."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def policies_in(module: ModuleType) -> dict[str, Any]:
    """Return what a module defines that can be a policy, by name, in the order of the file."""
    if hasattr(module, POLICY):
        return {POLICY: getattr(module, POLICY)}
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    candidates = {name: value for name, value in public.items() if _could_decide(value, module)}
    instantiated = {type(value) for value in candidates.values() if not inspect.isclass(value)}
    return {
        name: value
        for name, value in candidates.items()
        if not (inspect.isclass(value) and value in instantiated)
    }


def _could_decide(value: Any, module: ModuleType) -> bool:
    if isinstance(value, Knobs | Preset):
        return True
    if inspect.isclass(value):
        return value.__module__ == module.__name__ and callable(getattr(value, "decide", None))
    if inspect.isfunction(value):
        return value.__module__ == module.__name__ and _takes_a_state(value)
    return type(value).__module__ == module.__name__ and callable(getattr(value, "decide", None))


def _takes_a_state(function: Any) -> bool:
    """Return whether a function is called `(state, outlook)`; others help one that is."""
    names = list(inspect.signature(function).parameters)
    return len(names) == 2 and names[0] == "state"


def _only_policy(source: Source, candidates: dict[str, Any]) -> Any:
    if source.attribute:
        raise UnknownName(f"policy in {source.place}", source.attribute, candidates)
    if not candidates:
        raise BadInput(
            f"{source.place} has no policy",
            "define a class with decide(state, outlook), a function (state, outlook), or POLICY",
        )
    if len(candidates) > 1:
        listed = ", ".join(f"{name}{_line_of(value)}" for name, value in candidates.items())
        raise BadInput(
            f"{source.place} has {len(candidates)} policies: {listed}",
            f"name one, e.g. {source.place}:{next(iter(candidates))}, or call one of them {POLICY}",
        )
    return next(iter(candidates.values()))


def _line_of(value: Any) -> str:
    with contextlib.suppress(OSError, TypeError):
        return f" (line {inspect.getsourcelines(value)[1]})"
    return ""


def _version(module: ModuleType) -> str:
    """Return a digest of a module's file and of the modules beside it that are loaded."""
    file = getattr(module, "__file__", None)
    if file is None:
        return ""
    folder = Path(file).resolve().parent
    paths = {Path(file).resolve()}
    for other in list(sys.modules.values()):
        path = getattr(other, "__file__", None)
        if path and Path(path).suffix == ENDING and Path(path).resolve().parent == folder:
            paths.add(Path(path).resolve())
    digest = hashlib.sha256()
    for path in sorted(paths):
        with contextlib.suppress(OSError):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
