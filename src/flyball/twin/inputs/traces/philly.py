"""The Philly job file of the shared data: no job ids, virtual clusters as tenants."""

from __future__ import annotations

from pathlib import Path

from flyball.core.workload import Workload
from flyball.twin.inputs.traces.canonical import FIELDS, make
from flyball.twin.inputs.traces.table import Field, Table, read_table

PHILLY_FIELDS = (
    *(field for field in FIELDS if field.name in ("submit_s", "duration_s", "num_gpus")),
    Field("vc", "name", required=True),
)


def read(path: Path, notes: list[str]) -> Workload:
    """Read the file; jobs are named j0, j1, ... in its order."""
    table = read_table(path, PHILLY_FIELDS)
    renamed = Table(
        table.file,
        {("tenant" if name == "vc" else name): values for name, values in table.columns.items()},
        {"tenant": table.names["vc"]},
        table.rows,
    )
    return make(renamed)
