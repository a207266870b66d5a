"""`flyball backup` and `flyball restore`, on journals in use and not."""

from __future__ import annotations

import json
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.control.journal.cases import Kept, submitted

from flyball.api.state_folder import locked
from flyball.cli.main import run
from flyball.control.journal.history import History
from flyball.control.journal.job_numbers import JobNumbers


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    """Yield a journal with one job, open for writing."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    kept_journal = Kept(state / "journal.db")
    kept_journal.journal.append([submitted(1)]).wait()
    yield kept_journal
    kept_journal.journal.close()


def flyball(command: str, file: Path, *options: str) -> int:
    return run([command, str(file), "--state", str(file.parent / "state"), *options])


def jobs_in(journal: Path) -> list[int]:
    with closing(sqlite3.connect(journal)) as database:
        return [job for (job,) in database.execute("SELECT id FROM jobs ORDER BY id")]


def test_backup_of_a_journal_in_use(
    kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "copy.db"
    assert flyball("backup", out, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["jobs"], said["events"], said["bytes"]) == (1, 1, out.stat().st_size)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert jobs_in(out) == [1]
    kept.journal.append([submitted(2)]).wait()
    # It is not replaced unless that is asked for.
    assert flyball("backup", out) == 2
    assert "--force" in capsys.readouterr().err
    assert jobs_in(out) == [1]
    assert flyball("backup", out, "--force") == 0
    assert jobs_in(out) == [1, 2]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["copy.db"]


def test_backup_refuses_what_is_no_place_or_no_journal(
    kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ["--state", str(tmp_path / "state")]
    assert run(["backup", str(tmp_path / "no" / "copy.db"), *state]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert run(["backup", str(tmp_path / "state" / "journal.db"), "--force", *state]) == 2
    assert "the journal itself" in capsys.readouterr().err
    assert run(["backup", str(tmp_path / "copy.db"), "--state", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_restore_keeps_the_journal_that_was_there(
    kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, out = tmp_path / "state", tmp_path / "copy.db"
    assert flyball("backup", out) == 0
    kept.journal.append([submitted(2), submitted(3)]).wait()
    with locked(state):
        assert flyball("restore", out) == 75
    assert "another control plane uses" in capsys.readouterr().err
    kept.journal.close()
    assert flyball("restore", out, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["jobs"] == 1
    assert jobs_in(Path(said["kept"])) == [1, 2, 3]
    with History(state / "journal.db") as history:
        assert history.last().next_job == 2
    # The numbers of jobs 2 and 3 are not given again.
    assert JobNumbers(state, 2).take(1) == 4


def test_restore_in_place_of_a_damaged_journal(
    kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, out = tmp_path / "state", tmp_path / "copy.db"
    assert flyball("backup", out) == 0
    kept.journal.close()
    (state / "journal.db").write_bytes(b"nothing that SQLite knows")
    assert flyball("backup", tmp_path / "second.db") == 2
    assert "is damaged" in capsys.readouterr().err
    assert flyball("restore", out) == 0
    assert jobs_in(state / "journal.db") == [1]


def test_restore_refuses_damaged_and_newer_backups(
    kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "copy.db"
    assert flyball("restore", out) == 2
    assert "does not exist" in capsys.readouterr().err
    assert flyball("backup", out) == 0
    kept.journal.close()
    with closing(sqlite3.connect(out)) as database:
        database.execute("UPDATE alembic_version SET version_num = '0099'")
        database.commit()
    capsys.readouterr()
    assert flyball("restore", out) == 2
    assert "newer Flyball" in capsys.readouterr().err
    out.write_bytes(out.read_bytes()[:5000])
    assert flyball("restore", out) == 2
    assert "is damaged" in capsys.readouterr().err
    out.write_bytes(b"")
    assert flyball("restore", out) == 2
    assert "is not a journal" in capsys.readouterr().err
    assert jobs_in(tmp_path / "state" / "journal.db") == [1]
