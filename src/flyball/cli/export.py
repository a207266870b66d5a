"""`flyball trace export`: a live system's own history, as a trace to be replayed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.live_options import State
from flyball.cli.output import check_writable, note

EXAMPLES = """\b
Examples:
  flyball trace export history.jsonl
  flyball trace export history.jsonl.gz --state /srv/flyball
  flyball replay history.jsonl --cluster history.cluster.yaml --policy fifo,easy
"""


def export(
    out: Annotated[Path, typer.Argument(help="File to write; .gz is compressed.")],
    state: State = None,
) -> None:
    """Write the jobs that ran here as a trace. Reads the journal only; the server may run."""
    cluster = out.with_name(f"{out.name.split('.')[0]}.cluster.yaml")
    check_writable(out)
    check_writable(cluster)
    import yaml

    from flyball.control.demand import cluster_of
    from flyball.control.history import History
    from flyball.control.plane import JOURNAL
    from flyball.sdk.endpoint import state_folder

    with History(state_folder(state) / JOURNAL) as history:
        for each in history.export(out):
            note(f"note: {each}")
        groups = cluster_of(history.nodes(), "own").groups
    cluster.write_text(yaml.safe_dump({"nodes": [asdict(each) for each in groups]}), "utf-8")
    note(f"wrote {out} and {cluster}; flyball replay {out} --cluster {cluster}")
