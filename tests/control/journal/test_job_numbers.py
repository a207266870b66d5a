"""Job numbers are assigned once, also after the journal was restored from a backup."""

from __future__ import annotations

from pathlib import Path

from flyball.control.journal.job_numbers import JobNumbers, highest_in_use, keep_at_least


def test_number_given_before_a_kill_is_not_given_again(tmp_path: Path) -> None:
    numbers = JobNumbers(tmp_path, 1)
    assert [numbers.take(3), numbers.take(1)] == [1, 4]
    # Nothing is closed: the process was killed. The journal is one from before these jobs.
    assert JobNumbers(tmp_path, 1).take(1) == 5


def test_unused_numbers_are_given_back(tmp_path: Path) -> None:
    numbers = JobNumbers(tmp_path, 1)
    first = numbers.take(3)
    numbers.give_back(first, 3)
    assert numbers.take(1) == 1
    later = numbers.take(2)
    numbers.take(1)
    numbers.give_back(later, 2)
    assert numbers.take(1) == 5
    numbers.close()
    numbers.close()


def test_journal_that_is_ahead_counts(tmp_path: Path) -> None:
    keep_at_least(tmp_path, 7)
    assert JobNumbers(tmp_path, 20).take(1) == 20
    assert JobNumbers(tmp_path, 3).take(1) == 21


def test_files_named_after_jobs_count(tmp_path: Path) -> None:
    for name in ("logs/12.1.out", "checkpoints/31", "engine/8.2", "orders/40.1.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for name in ("logs/100x.out", "engine/spawner.lock", "logs/" + "9" * 30 + ".1.out"):
        (tmp_path / name).touch()
    assert highest_in_use(tmp_path) == 40
    assert JobNumbers(tmp_path, 1).take(1) == 41


def test_garbled_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "next-job").write_bytes(b"\x00\xff many")
    assert JobNumbers(tmp_path, 5).take(1) == 5
    assert JobNumbers(tmp_path, 1).take(1) == 6
