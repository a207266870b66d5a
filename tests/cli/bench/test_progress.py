"""Long benchmarks show how far they are: as many steps as they announce."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from flyball.bench import parts as bench_parts
from flyball.bench import shares as bench_shares
from flyball.bench import twin as bench_twin
from flyball.cli.bench import fairness, parts, shares, twin
from flyball.cli.main import run
from flyball.experiments import fairness as experiment

Run = Callable[..., Any]
CASES: list[tuple[str, ModuleType, ModuleType, int]] = [
    ("twin", twin, bench_twin, bench_twin.STEPS),
    ("shares --policy max-min", shares, bench_shares, 3),
    ("fairness --policies fifo,easy --seeds 2", fairness, experiment, 6),
    ("parts --only batch --only read", parts, bench_parts, 2),
]


@pytest.mark.parametrize(("command", "cli", "bench", "steps"), CASES)
def test_progress(
    monkeypatch: pytest.MonkeyPatch, command: str, cli: ModuleType, bench: ModuleType, steps: int
) -> None:
    totals: list[int] = []
    advances: list[Callable[[str], None]] = []

    @contextlib.contextmanager
    def progress(label: str, total: int, quiet: bool) -> Iterator[Callable[[str], None]]:
        assert quiet, "nothing is shown with --json"
        totals.append(total)
        yield print

    def measure(*arguments: Any, done: Callable[[str], None] | None = None) -> dict[str, Any]:
        advances.append(done or arguments[-1])
        return {}

    monkeypatch.setattr(cli, "progress", progress)
    monkeypatch.setattr(bench, "run", measure)
    assert run(["bench", *command.split(), "--json"]) == 0
    assert totals == [steps]
    assert advances == [print]
