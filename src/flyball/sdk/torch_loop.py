"""`flyball.TorchCallback`: reports, checkpoints and sizes for a plain PyTorch loop.

    with flyball.TorchCallback(model, optimizer, every=500) as run:
        for step in range(run.first, steps):
            loss = train(batch_of(step))
            run.step(loss=loss.item())

`run.first` is 0, or the step after the last checkpoint: model, optimiser, scheduler and random
numbers are then restored. `run.step` ends a step: it reports, saves if that is due or requested,
and follows the number of cores it is given. A checkpoint is a folder that is created atomically;
weights are in safetensors format if that is installed, and nothing in it is code.
"""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from flyball.sdk.elastic import Elastic, set_threads
from flyball.sdk.reporting import flush, report

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("flyball.sdk")

NAME = re.compile(r"step-([0-9]{12})")
WEIGHTS, STATE = "model.safetensors", "state.pt"
STOPPED = 143
"""Exit code of a program that ends on request (128 + SIGTERM)."""


class TorchCallback:
    """Connects a training loop to Flyball; outside Flyball it only saves and resumes.

    Args:
        model, optimizer, scheduler: objects with `state_dict` and `load_state_dict`.
        folder: of checkpoints; default `FLYBALL_CHECKPOINT_DIR`. Without either none is saved.
        every: steps between two checkpoints, 0 = only on request.
        keep: number of checkpoints to keep.

    Attributes:
        first: the step to begin with.
        elastic: the devices of the job, and the orders it has received.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Any = None,
        scheduler: Any = None,
        folder: str | os.PathLike[str] | None = None,
        every: int = 0,
        keep: int = 2,
    ) -> None:
        named = folder or os.environ.get("FLYBALL_CHECKPOINT_DIR", "")
        self._folder = Path(named) if named else None
        self._model = model
        self._parts = {"optimizer": optimizer, "scheduler": scheduler}
        self._every, self._keep = every, keep
        self.elastic = Elastic()
        self.first = self._next = self._resume()
        self._saved = self.first
        set_threads(self.elastic.devices, self._on_gpu())

    def __enter__(self) -> Self:
        self.elastic.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.elastic.__exit__(kind, error, trace)

    def step(self, loss: float | None = None, **values: float) -> None:
        """End a step: report it, follow orders, save a checkpoint if that is due.

        Raises:
            SystemExit: the job was asked to end, and its checkpoint is saved.
        """
        done = self._next
        self._next += 1
        report(step=done, loss=loss, devices=self.elastic.devices, **values)
        if self.elastic.poll():
            set_threads(self.elastic.devices, self._on_gpu())
        due = self._every and self._next - self._saved >= self._every
        if due or self.elastic.should_checkpoint:
            self.save()
        if self.elastic.should_stop:
            flush()
            raise SystemExit(STOPPED)

    def save(self) -> Path | None:
        """Save a checkpoint of all steps so far; return its path, None = no folder was given."""
        self.elastic.saved()
        if self._folder is None:
            return None
        name = f"step-{self._next:012}"
        final, partial = self._folder / name, self._folder / f".{name}.new"
        shutil.rmtree(partial, ignore_errors=True)
        if not final.exists():
            partial.mkdir(mode=0o700, parents=True)
            self._write(partial)
            for path in (*partial.iterdir(), partial):
                _sync(path)
            os.rename(partial, final)
            _sync(self._folder)
        self._saved = self._next
        for old in _checkpoints(self._folder)[: -self._keep]:
            shutil.rmtree(old, ignore_errors=True)
        report(checkpoint_step=self._next, checkpoint_order=self.elastic.order)
        return final

    def _write(self, folder: Path) -> None:
        import torch

        state: dict[str, Any] = {"step": self._next, "random": _random_state()}
        state |= {name: part.state_dict() for name, part in self._parts.items() if part is not None}
        try:
            from safetensors.torch import save_model
        except ImportError:
            state["model"] = self._model.state_dict()
        else:
            save_model(self._model, str(folder / WEIGHTS))
        torch.save(state, folder / STATE)

    def _resume(self) -> int:
        """Load the newest checkpoint that can be read; return the step to go on with.

        One that can be read but does not fit the model is an error: starting over would hide it.
        """
        for folder in reversed(_checkpoints(self._folder) if self._folder else []):
            state = _read(folder)
            if state is not None:
                return self._load(folder, state)
        return 0

    def _load(self, folder: Path, state: dict[str, Any]) -> int:
        if "model" in state:
            self._model.load_state_dict(state["model"])
        else:
            from safetensors.torch import load_model

            load_model(self._model, str(folder / WEIGHTS))
        for name, part in self._parts.items():
            if part is not None:
                part.load_state_dict(state[name])
        _set_random_state(state["random"])
        return int(state["step"])

    def _on_gpu(self) -> bool:
        return any(parameter.is_cuda for parameter in self._model.parameters())


def _checkpoints(folder: Path) -> list[Path]:
    """Return the complete checkpoints, the oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))


def _read(folder: Path) -> dict[str, Any] | None:
    """Return the saved state, None if the folder is damaged. No code is ever loaded."""
    import torch

    try:
        state = torch.load(folder / STATE, map_location="cpu", weights_only=True)
        if "model" not in state:
            from safetensors import safe_open

            with safe_open(str(folder / WEIGHTS), "pt"):
                pass  # this checks its length and its header
    except Exception as error:
        logger.warning("checkpoint %s cannot be read: %s", folder, error)
        return None
    return dict(state)


def _random_state() -> dict[str, Any]:
    """Return the state of every random number generator, as plain numbers and tensors."""
    import torch

    state: dict[str, Any] = {"python": list(random.getstate()[1]), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if numpy := sys.modules.get("numpy"):
        kind, keys, *rest = numpy.random.get_state()
        state["numpy"] = [kind, keys.tolist(), *rest]
    return state


def _set_random_state(state: dict[str, Any]) -> None:
    import torch

    random.setstate((3, tuple(state["python"]), None))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    if "numpy" in state and (numpy := sys.modules.get("numpy")):
        numpy.random.set_state(tuple(state["numpy"]))


def _sync(path: Path) -> None:
    """Flush a file or a folder to disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
