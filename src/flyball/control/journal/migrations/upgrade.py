"""Brings a journal's schema up to date, with a copy of the old file kept beside it."""

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
    """Make the tables of a new file; upgrade those of an older one, after a backup.

    Args:
        engine: writes to the file.
        path: the file.
        folder: where the revisions are.
        head: the last of them.

    Raises:
        BadInput: the file was written by a newer Flyball, or is something else.
    """
    found = revision(engine, path)
    if found == head:
        return
    known = _known(folder)
    if found and found not in known:
        raise newer(path, found, head)
    if found:
        back_up(engine, backup_path(path, head))
    from alembic import command

    with engine.begin() as connection:
        config = _config(folder)
        config.attributes["connection"] = connection
        command.upgrade(config, head)


def check(engine: Engine, path: Path, head: str = HEAD) -> None:
    """Refuse a file that is not at the last revision: those who only read upgrade nothing.

    Raises:
        BadInput: it is older, newer or no journal.
    """
    found = revision(engine, path)
    if not found or found < head:
        raise BadInput(
            f"{path} has the schema {found or 'of nothing'}, this Flyball reads {head}",
            "start `flyball up` on it once: it makes a backup and upgrades it",
        )
    if found > head:
        raise newer(path, found, head)


def revision(engine: Engine, path: Path) -> str:
    """The revision a file is at, "" = it has no tables.

    Raises:
        BadInput: it has tables, but not a journal's.
    """
    with engine.connect() as connection:
        if inspect(connection).has_table("alembic_version"):
            stated = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
            if (version := stated.scalars().first()) is None:
                why = f"{path} is damaged (its table alembic_version is empty)"
                raise BadInput(why, "put back a backup: `flyball restore FILE`")
            return str(version)
        if names := inspect(connection).get_table_names():
            why = f"{path} is a database, but no journal (it has a table {names[0]!r})"
            raise BadInput(why, "name another file")
    return ""


def backup_path(path: Path, head: str) -> Path:
    """Where the copy goes that is made before an upgrade to `head`."""
    return path.with_name(f"{path.name}.before-{head}")


def newer(path: Path, found: str, head: str = HEAD) -> BadInput:
    """The refusal of a file that a newer Flyball wrote."""
    return BadInput(
        f"{path} was written by a newer Flyball (schema {found}, this one knows up to {head})",
        "use that version, or another state folder",
    )


def _config(folder: Path) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config


def _known(folder: Path) -> set[str]:
    from alembic.script import ScriptDirectory

    return {each.revision for each in ScriptDirectory.from_config(_config(folder)).walk_revisions()}
