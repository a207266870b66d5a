"""Runs `flyball` with one more revision of the journal: `python upgraded_up.py FOLDER up ...`.

FOLDER gets a copy of the revisions and the new one, as the next version of Flyball would have.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

SECOND = """
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute("INSERT INTO meta (name, value) VALUES ('upgraded', 'yes')")
"""


def main() -> int:
    from flyball.cli.main import run
    from flyball.control.journal.migrations import upgrade

    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    shutil.copytree(upgrade.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "r0002_next.py").write_text(SECOND)
    upgrade.bring_up = partial(upgrade.bring_up, folder=folder, head="0002")
    upgrade.check = partial(upgrade.check, head="0002")
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
