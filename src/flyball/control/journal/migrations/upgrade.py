"""Brings a journal's schema up to date, and keeps a copy of the old file in the same folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine, inspect

from flyball.control.journal.sqlite import back_up
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = Path(__file__).parent
HEAD = "0001"
"""The last revision. Alembic is imported only where a file is not at this one."""


def bring_up(engine: Engine, path: Path, folder: Path = FOLDER, head: str = HEAD) -> None:
    """Create the tables of a new file; upgrade those of an older one, after a backup.

    Args:
        engine: connects to the file for writing.
        path: the file.
        folder: the folder of the revisions.
        head: the last revision.

    Raises:
        BadInput: the file was written by a newer Flyball, or is not a journal.
    """
    stated = revision(engine, path)
    if stated == head:
        return
    revisions = _revisions(folder)
    if stated and stated not in revisions:
        raise newer(path, stated, head)
    if stated:
        back_up(engine, backup_path(path, head))
    from alembic import command

    with engine.begin() as connection:
        config = _config(folder)
        config.attributes["connection"] = connection
        command.upgrade(config, head)


def check(engine: Engine, path: Path, head: str = HEAD) -> None:
    """Refuse a file that is not at the last revision: readers do not upgrade.

    Raises:
        BadInput: it is older, newer or not a journal.
    """
    stated = revision(engine, path)
    if not stated or stated < head:
        raise BadInput(
            f"{path} has the schema {stated or '(none)'}, this Flyball reads {head}",
            "start `flyball up` on it once: it makes a backup and upgrades it",
        )
    if stated > head:
        raise newer(path, stated, head)


def revision(engine: Engine, path: Path) -> str:
    """Return the revision of a file, "" = it has no tables.

    Raises:
        BadInput: it has tables, but not a journal's.
    """
    with engine.connect() as connection:
        if inspect(connection).has_table("alembic_version"):
            stated = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
            if (version := stated.scalars().first()) is None:
                why = f"{path} is damaged (its table alembic_version is empty)"
                raise BadInput(why, "restore a backup: `flyball restore FILE`")
            return str(version)
        if names := inspect(connection).get_table_names():
            why = f"{path} is a database, but not a journal (it has a table {names[0]!r})"
            raise BadInput(why, "name another file")
    return ""


def backup_path(path: Path, head: str) -> Path:
    """Return the path of the copy made before an upgrade to `head`."""
    return path.with_name(f"{path.name}.before-{head}")


def newer(path: Path, stated: str, head: str = HEAD) -> BadInput:
    """Return the error for a file that a newer Flyball wrote."""
    return BadInput(
        f"{path} was written by a newer Flyball (schema {stated}, this one knows up to {head})",
        "use that version, or another state folder",
    )


def _config(folder: Path) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config


def _revisions(folder: Path) -> set[str]:
    from alembic.script import ScriptDirectory

    return {
        script.revision for script in ScriptDirectory.from_config(_config(folder)).walk_revisions()
    }
