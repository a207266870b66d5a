"""How much slower jobs run because of other work on the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flyball.monitor.contention import MOST, Contention


def account(proc: Path, *threads: tuple[float, float]) -> None:
    """Write the kernel's account of threads: seconds that each ran and waited."""
    for number, (run_s, wait_s) in enumerate(threads):
        folder = proc / "7" / "task" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{run_s * 1e9:.0f} {wait_s * 1e9:.0f} 12\n")


@pytest.mark.parametrize(
    ("threads", "factor"),
    [
        ([(2.0, 0.0)], 1.0),
        ([(2.0, 2.0)], 2.0),
        ([(1.0, 0.0), (1.0, 1.0)], 1.5),  # threads together
        ([(0.1, 5.0)], 1.0),  # too little to say
        ([(1.0, 1000.0)], MOST),
        ([], 1.0),
    ],
)
def test_slowdown_is_waiting_over_running(
    tmp_path: Path, threads: list[tuple[float, float]], factor: float
) -> None:
    account(tmp_path, *threads)
    assert Contention(7, tmp_path).slowdown() == pytest.approx(factor)


def test_only_what_happened_since_the_last_ratio_counts(tmp_path: Path) -> None:
    contention = Contention(7, tmp_path)
    account(tmp_path, (2.0, 4.0))
    assert contention.slowdown() == pytest.approx(3.0)
    account(tmp_path, (2.2, 9.0))
    assert contention.slowdown() == pytest.approx(3.0), "too little CPU time since"
    account(tmp_path, (3.0, 4.5))
    assert contention.slowdown() == pytest.approx(1.5)


def test_garbled_account_means_no_slowdown(tmp_path: Path) -> None:
    account(tmp_path, (2.0, 4.0))
    (tmp_path / "7" / "task" / "0" / "schedstat").write_text("a b c")
    assert Contention(7, tmp_path).slowdown() == 1.0


def test_this_process_has_a_ratio() -> None:
    assert 1.0 <= Contention(os.getpid()).slowdown() <= MOST
