"""Arguments and options that several commands share, with their help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FORMATS = (
    *("canonical", "elasticflow", "gavel", "journal", "kubernetes", "openb", "philly"),
    *("sacct", "sacct-json", "sia", "swf"),
)
"""Trace formats that are read; named here so that `--help` need not load the readers."""
WRITTEN = ("canonical", "journal", "swf")
"""Trace formats that are written."""

TRACE_HELP = "Trace file, plain or .gz; FILE#PART for one of several workloads."
CLUSTER_HELP = "Cluster file (YAML) or preset; see `clusters`."
TraceFile = Annotated[Path, typer.Argument(help=TRACE_HELP)]
ClusterName = Annotated[str, typer.Option("--cluster", "-c", help=CLUSTER_HELP)]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
Estimates = Annotated[
    str,
    typer.Option(
        help="Run times that policies see: trace (stated in it, else exact), exact, noisy:SIGMA."
    ),
]
MtbfHours = Annotated[
    float, typer.Option(help="Hours between failures of a node, on average; 0 = none.")
]
RepairHours = Annotated[float, typer.Option(help="Hours to repair a node, on average.")]
RecordedOn = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="Device type on which jobs were recorded that name none. "
        "[default: the cluster's `recorded_on`, its only type, or its commonest]",
    ),
]
Load = Annotated[
    float | None, typer.Option(help="Stretch or compress arrivals to this offered load.")
]
FirstJobs = Annotated[int | None, typer.Option(help="Only the first N jobs.")]
TraceFormat = Annotated[
    str | None, typer.Option("--format", help=f"{', '.join(FORMATS)}. [default: detect]")
]
SkipUnfit = Annotated[
    bool,
    typer.Option(
        "--skip-unfit", help="Leave out jobs that fit on no node; report how many and why."
    ),
]
StaticBatch = Annotated[
    bool,
    typer.Option(
        "--static-batch",
        help="Gavel traces: read jobs that grow their batch (gns, accordion) as if it were fixed.",
    ),
]
WrittenFormat = Annotated[
    str | None, typer.Option("--to", help=f"{', '.join(WRITTEN)}. [default: by the file's name]")
]
