"""The journal's schema: created by the revisions, upgraded after a backup, never guessed."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from tests.control.journal.cases import Kept, decided, every_job, everything, intended, submitted

from flyball.control.journal import schema
from flyball.control.journal.history import History
from flyball.control.journal.migrations import upgrade
from flyball.control.journal.sqlite import open_engine
from flyball.control.journal.store import Journal
from flyball.core.errors import BadInput

SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("site", sa.Text, nullable=False, server_default="here"))
    op.execute("{and_then}")
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A journal at the first revision, with something in it."""
    path = tmp_path / "journal.db"
    kept = Kept(path)
    kept.journal.append([submitted(1), decided(1), intended(1)], "k", [1]).wait()
    kept.journal.close()
    return path


def newer_folder(tmp_path: Path, and_then: str) -> Path:
    """The revisions with one more."""
    folder = tmp_path / "100% newer"
    shutil.copytree(upgrade.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "r0002_site.py").write_text(SECOND.replace("{and_then}", and_then))
    return folder


def bring_up(path: Path, folder: Path) -> None:
    engine = open_engine(path, writes=True)
    try:
        upgrade.bring_up(engine, path, folder, "0002")
    finally:
        engine.dispose()


def revision_of(path: Path) -> str:
    engine = open_engine(path, writes=False)
    try:
        return upgrade.revision(engine, path)
    finally:
        engine.dispose()


def test_head_is_the_last_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(upgrade.FOLDER))
    assert ScriptDirectory.from_config(config).get_heads() == [upgrade.HEAD]


def test_revisions_make_the_tables_that_the_code_expects(old: Path) -> None:
    engine = open_engine(old, writes=False)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.schema) == []
    engine.dispose()


def test_a_file_at_the_first_revision_is_read_whole(old: Path) -> None:
    with Journal(old, lambda events: {}, inline=True) as journal:
        assert journal.last().seq == 3
        assert [event.kind for _, event in everything(journal)] == [
            "submitted",
            "decided",
            "intended",
        ]
        assert every_job(journal)[1].attempt == 1
        assert journal.answer("k") == ([1], 3)
    assert list(old.parent.glob("*.before-*")) == []


def test_an_upgrade_keeps_everything_and_a_backup(old: Path, tmp_path: Path) -> None:
    bring_up(old, newer_folder(tmp_path, "UPDATE jobs SET site = 'there'"))
    assert revision_of(old) == "0002"
    plain = sqlite3.connect(old)
    assert plain.execute("SELECT id, site FROM jobs").fetchall() == [(1, "there")]
    assert plain.execute("SELECT count(*) FROM events").fetchall() == [(2,)]
    plain.close()
    backup = upgrade.backup_path(old, "0002")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with History(backup) as before:
        assert before.last().seq == 3
    assert {file.name for file in tmp_path.iterdir() if file.is_file()} <= {
        *(f"{backup.name}{end}" for end in ("", "-shm", "-wal")),
        *(f"journal.db{end}" for end in ("", "-shm", "-wal")),
    }


def test_an_upgrade_that_fails_changes_nothing(old: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no such table"):
        bring_up(old, newer_folder(tmp_path, "UPDATE absent SET site = 'there'"))
    assert revision_of(old) == "0001"
    kept = Kept(old)
    assert set(kept.live_state.jobs) == {1}
    assert kept.journal.append([submitted(2)]).wait() == 4
    kept.journal.close()


def test_a_newer_file_is_refused(old: Path, tmp_path: Path) -> None:
    bring_up(old, newer_folder(tmp_path, "SELECT 1"))
    newer = r"newer Flyball \(schema 0002, this one .* 0001\); use"
    with pytest.raises(BadInput, match=newer):
        Journal(old, lambda events: {})
    with pytest.raises(BadInput, match=newer):
        History(old)


def test_readers_do_not_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.touch()
    with pytest.raises(BadInput, match=r"has the schema \(none\).*flyball up"):
        History(path)
    assert path.stat().st_size == 0


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE recipes(name)")
    other.close()
    with pytest.raises(BadInput, match=r"not a journal .*'recipes'.*name another file"):
        Journal(path, lambda events: {})


def test_a_start_without_an_upgrade_needs_no_alembic(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [module for module in sys.modules if module.split(".")[0] == "alembic"]:
        monkeypatch.delitem(sys.modules, name)
    with Journal(old, lambda events: {}, inline=True):
        assert not [module for module in sys.modules if module.split(".")[0] == "alembic"]
