"""Measures the memory of tensors while something runs: the most that is alive at any time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Peak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows every tensor that an operation makes, until nothing refers to its memory any more.

    What kernels allocate for themselves while they run is not seen.

    Args:
        existing: tensors that are alive before, such as parameters; they count from the start.
    """

    def __init__(self, existing: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive_bytes = self.peak_bytes = 0
        self._known: set[int] = set()
        for tensor in existing:
            self._follow(tensor)

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation and follow its results."""
        results = func(*args, **(kwargs or {}))
        for result in tree_leaves(results):
            if isinstance(result, Tensor):
                self._follow(result)
        return results

    def _follow(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        place, size = storage._cdata, storage.nbytes()
        if place in self._known or not size:
            return
        self._known.add(place)
        self.alive_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.alive_bytes)
        weakref.finalize(storage, self._release, place, size)

    def _release(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.alive_bytes -= size
