"""Calls a policy in plain Python; an error in it names the file and the line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flyball.core.errors import BadInput
from flyball.core.protocols import Allocator
from flyball.core.records import Records
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.experiments.own_policy.failure import failure
from flyball.experiments.own_policy.source import Source, load

FORM = "a policy is a function (state, outlook), or an object with decide(state, outlook)"


class OwnPolicy:
    """Decides by a user's code.

    Attributes:
        place: the file and the line of the code, or the policy's name in a notebook.
    """

    def __init__(self, name: str, value: Any, source: Source | None = None) -> None:
        """
        Args:
            name: for messages.
            value: a class, an instance or a function.
            source: where to load it from in another process.

        Raises:
            BadInput: it is not a policy.
            PolicyFailed: its constructor raised an error.
        """
        self.name, self.source = name, source
        self._file = source.place if source is not None else name
        self._decide = self._callable(value)
        self.place = self._place()

    def _callable(self, value: Any) -> Callable[[State, Any], Any]:
        if inspect.isclass(value):
            value = self._instance(value)
        decide = getattr(value, "decide", value)
        if not callable(decide):
            raise BadInput(f"{self.name} is a {type(value).__name__}, not a policy", FORM)
        try:
            inspect.signature(decide).bind(None, None)
        except TypeError as error:
            raise BadInput(
                f"{self.name} cannot be called with two arguments: {error}", FORM
            ) from None
        except ValueError:
            pass  # compiled code may have no signature
        checked: Callable[[State, Any], Any] = decide
        return checked

    def _instance(self, kind: type) -> Any:
        if not callable(getattr(kind, "decide", None)):
            raise BadInput(f"class {kind.__name__} has no decide(state, outlook)", FORM)
        try:
            inspect.signature(kind).bind()
        except TypeError as error:
            remedy = f"give an instance: {kind.__name__}(...), in a file as POLICY"
            raise BadInput(f"{kind.__name__}() does not work: {error}", remedy) from None
        try:
            return kind()
        except Exception as error:
            raise failure(self._file, error, "failed") from error

    def _place(self) -> str:
        try:
            file = inspect.getsourcefile(self._decide)
            line = inspect.getsourcelines(self._decide)[1]
        except (OSError, TypeError):
            return self._file
        is_files = self.source is not None and file is not None and Path(file).exists()
        return f"{self._file} line {line}" if is_files else self._file

    def decide(self, state: State, outlook: Any = None) -> Records:
        """Return what the user's code decides; the twin checks it.

        Raises:
            PolicyFailed: it raised an error.
        """
        try:
            plan: Records = self._decide(state, outlook)
        except Exception as error:
            raise failure(self._file, error, "failed") from error
        return plan

    @property
    def can_travel(self) -> bool:
        """Return whether another process can load it."""
        return self.source is not None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.source is None:
            raise BadInput(
                f"policy {self.name} is defined here and cannot be sent to other processes",
                "put it into a file and name that, or use --workers 1",
            )
        return _load_policy, (self.name, self.source)


class OwnAllocator:
    """Sets target shares by a user's code (`Preset.allocator` in a file)."""

    def __init__(self, allocator: Allocator, source: Source) -> None:
        self._allocator, self._source = allocator, source

    def targets(self, state: State) -> Floats:
        """Return what the user's code sets.

        Raises:
            PolicyFailed: it raised an error.
        """
        try:
            return self._allocator.targets(state)
        except Exception as error:
            raise failure(self._source.place, error, "failed") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return _load_allocator, (self._source,)


def _load_policy(name: str, source: Source) -> OwnPolicy:
    return OwnPolicy(name, load(source).value, source)


def _load_allocator(source: Source) -> OwnAllocator:
    return OwnAllocator(load(source).value.allocator, source)
