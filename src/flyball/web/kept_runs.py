"""Answers to what-if questions, kept in the state folder to be compared."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = "whatif"
MOST = 50
SHOWN = 12


class KeptRuns:
    """A file per answer, `STATE/whatif/NUMBER.json`; the oldest are removed.

    Args:
        state: the state folder; None = nothing is kept.
    """

    def __init__(self, state: Path | None) -> None:
        self._folder = None if state is None else state / FOLDER

    def add(self, question: Mapping[str, Any], result: Mapping[str, Any]) -> int:
        """Keep an answer and return its number."""
        if self._folder is None:
            return 0
        self._folder.mkdir(mode=0o700, exist_ok=True)
        numbers = self._numbers()
        number = (numbers[-1] if numbers else 0) + 1
        run = {"number": number, "time": time.time(), "question": question, "result": result}
        draft = self._folder / f"{number}.new"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(run, file)
        os.replace(draft, self._folder / f"{number}.json")
        for old in numbers[: max(0, len(numbers) + 1 - MOST)]:
            (self._folder / f"{old}.json").unlink(missing_ok=True)
        return number

    def get(self, number: int) -> dict[str, Any] | None:
        """Return a kept answer; None if there is none of that number."""
        if self._folder is None:
            return None
        try:
            run: dict[str, Any] = json.loads((self._folder / f"{number}.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return run

    def remove(self, number: int) -> None:
        """Remove a kept answer, if it is there."""
        if self._folder is not None:
            (self._folder / f"{number}.json").unlink(missing_ok=True)

    def latest(self) -> list[dict[str, Any]]:
        """Return the latest answers, newest first."""
        runs = (self.get(number) for number in reversed(self._numbers()[-SHOWN:]))
        return [run for run in runs if run is not None]

    def _numbers(self) -> list[int]:
        if self._folder is None or not self._folder.is_dir():
            return []
        return sorted(int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdigit())
