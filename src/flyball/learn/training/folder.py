"""What is kept of a training run: settings, checkpoint, curve and the best policy so far.

| file | holds |
|---|---|
| `settings.json` | what was asked for; a run is only resumed with the same |
| `checkpoint/` | the trainer's state: `state.json` and `arrays.npz`, plain numbers only |
| `curve.csv` | one row a step; the same for the same seed and steps |
| `times.csv` | seconds since the begin and of the processor, by step |
| `curve.png` | both curves |
| `policy.safetensors`, `policy.json` | the best policy so far by validation, and its card |
| `policy.npz` | instead of them, of a kind that no policy file can hold |
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.learn.training.trainers import Row, Saved

SETTINGS, CURVE, TIMES, FIGURE = "settings.json", "curve.csv", "times.csv", "curve.png"
CHECKPOINT, STATE, ARRAYS = "checkpoint", "state.json", "arrays.npz"
POLICY, KEPT = "policy.safetensors", "policy.npz"


class RunFolder:
    """Reads and writes the files of one training run.

    Attributes:
        path: the folder.
        rows: the curve.
        seconds: when each step was over.
        cpu_s: processor time used until then, of all cores.
        best: validation score of the policy that is kept; None = none is.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Open a folder, or begin one.

        Raises:
            BadInput: it holds another run, or something else.
        """
        self.path = path
        self.rows: list[Row] = []
        self.seconds: list[float] = []
        self.cpu_s: list[float] = []
        self.best: float | None = None
        plain = json.loads(json.dumps(settings))
        if (path / SETTINGS).exists():
            before = json.loads((path / SETTINGS).read_text("utf-8"))
            if before != plain:
                names = sorted(set(before) | set(plain))
                changed = [name for name in names if before.get(name) != plain.get(name)]
                raise BadInput(
                    f"{path} holds a run with other settings ({', '.join(changed)})",
                    "name another --out, or give the settings it began with",
                )
        elif path.exists() and any(path.iterdir()):
            raise BadInput(f"{path} is not empty and holds no training run", "name another --out")
        else:
            path.mkdir(parents=True, exist_ok=True)
            _replace(path / SETTINGS, json.dumps(plain, indent=1) + "\n")

    @property
    def policy(self) -> Path:
        """Where the policy is."""
        return self.path / POLICY

    def load(self) -> Saved | None:
        """Return the trainer's state, and take up the curve; None = nothing was saved yet."""
        folder = self.path / CHECKPOINT
        if not (folder / STATE).exists():
            return None
        try:
            content = json.loads((folder / STATE).read_text("utf-8"))
            with np.load(folder / content["arrays"], allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            self.rows, self.best = content["rows"], content["best"]
            self.seconds, self.cpu_s = content["seconds"], content["cpu_s"]
            return Saved(content["values"], arrays)
        except (OSError, ValueError, KeyError) as error:
            raise BadInput(
                f"{folder} is damaged ({error})", "remove the folder to begin anew"
            ) from None

    def save(self, saved: Saved) -> None:
        """Write the trainer's state and the curve; a killed process leaves the old or the new."""
        folder = self.path / CHECKPOINT
        folder.mkdir(exist_ok=True)
        arrays = f"{len(self.rows)}-{ARRAYS}"
        with (folder / arrays).open("wb") as file:
            np.savez(file, allow_pickle=False, **saved.arrays)
            file.flush()
            os.fsync(file.fileno())
        content = {
            "values": saved.values, "rows": self.rows, "seconds": self.seconds,
            "cpu_s": self.cpu_s, "best": self.best, "arrays": arrays,
        }  # fmt: skip
        _replace(folder / STATE, json.dumps(content))
        for old in folder.glob(f"*-{ARRAYS}"):
            if old.name != arrays:
                old.unlink()
        self._write_curve()

    def keep(self, saved: Saved) -> None:
        """Keep the best policy so far as its trainer's state, where no policy file can hold it."""
        draft = self.path / f"{KEPT}.part"
        with draft.open("wb") as file:
            np.savez(file, allow_pickle=False, **saved.arrays)
        os.replace(draft, self.path / KEPT)

    def _write_curve(self) -> None:
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        curve = [[_text(row.get(name)) for name in names] for row in self.rows]
        ends = zip(self.seconds, self.cpu_s, strict=True)
        times = [[str(step), *(f"{one:.1f}" for one in end)] for step, end in enumerate(ends, 1)]
        for target, header, lines in (
            (CURVE, names, curve),
            (TIMES, ["step", "seconds", "cpu_s"], times),
        ):
            draft = self.path / f"{target}.part"
            with draft.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([header, *lines])
            os.replace(draft, self.path / target)


def read_settings(path: Path) -> dict[str, Any]:
    """Return what a training run was asked for.

    Raises:
        BadInput: the folder holds no training run.
    """
    try:
        content: dict[str, Any] = json.loads((path / SETTINGS).read_text("utf-8"))
    except (OSError, ValueError):
        raise BadInput(f"{path} holds no training run", "name a folder of `learn train`") from None
    return content


def read_curve(path: Path) -> list[Row]:
    """Return the curve of a training run; numbers that a row lacks are left out."""
    with (path / CURVE).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: float(text) for name, text in row.items() if text} for row in rows]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.9g}"


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".part")
    draft.write_text(text, "utf-8")
    os.replace(draft, path)
