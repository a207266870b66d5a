"""Reads a user's own history to train and judge policies on: a state folder, or a trace."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from flyball.control.journal.history import History as Journal
from flyball.core.errors import BadInput
from flyball.core.workload import Workload
from flyball.experiments.request import Reading, read_workload
from flyball.learn.training.sources import History
from flyball.twin.inputs.cluster_file import load_cluster

JOURNAL = "journal.db"


def read_history(place: Path, cluster_name: str, note: Callable[[str], None]) -> History:
    """Return the jobs of a history and the cluster they ran on.

    Args:
        place: the state folder of a server, whether it runs or not; or a trace.
        cluster_name: a cluster file or a preset.
        note: receives what was left out, assumed and scaled.

    Raises:
        BadInput: there is none, or too little of it.
    """
    if not place.exists():
        raise BadInput(f"{place} does not exist", "name a state folder or a trace")
    cluster = load_cluster(cluster_name)
    notes: list[str] = []
    if place.is_dir():
        with tempfile.TemporaryDirectory(prefix="flyball-learn-") as folder:
            exported = Path(folder) / "history.jsonl"
            with Journal(place / JOURNAL) as journal:
                notes += journal.export(exported)
            workload: Workload = read_workload(exported, cluster, Reading(), notes)
    else:
        workload = read_workload(place, cluster, Reading(), notes)
    for remark in dict.fromkeys(notes):
        note(f"note: {remark}")
    return History(cluster, workload)
