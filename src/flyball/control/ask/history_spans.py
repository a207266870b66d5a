"""What ran where over a span of the past, and what it came to by user, account and class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from flyball.control.jobs.usage import spans_of
from flyball.core.jobs import Job
from flyball.core.live import LiveNode
from flyball.core.units import US_PER_S

COLUMNS = ("job", "label", "name", "user", "class", "state", "node", "device", "devices",
           "start", "end")  # fmt: skip
GROUPINGS: tuple[tuple[str, Callable[[Job], str]], ...] = (
    ("user", lambda job: job.spec.user),
    ("account", lambda job: job.spec.tenant),
    ("class", lambda job: job.spec.kind),
)
FIGURES = ("device_hours", "energy_j", "cost", "carbon_g")


def bars(jobs: Iterable[Job], since_us: int, until_us: int, now_us: int) -> Iterator[list[Any]]:
    """Yield a bar for each run of neighbouring devices that an attempt held within the span."""
    for job in jobs:
        spec = job.spec
        about = [job.id, job.label, spec.name, spec.user, spec.kind, job.state.value]
        for span in spans_of(job, now_us):
            if span.over_us <= since_us or span.began_us >= until_us:
                continue
            times = [round(span.began_us / US_PER_S, 3), round(span.over_us / US_PER_S, 3)]
            for row in span.rows:
                for first, count in runs_of(row.mask):
                    yield [*about, row.node, first, count, *times]


def runs_of(mask: int) -> Iterator[tuple[int, int]]:
    """Yield first device and length of each run of set bits."""
    first = 0
    while mask:
        gap = (mask & -mask).bit_length() - 1
        first, mask = first + gap, mask >> gap
        length = (~mask & (mask + 1)).bit_length() - 1
        yield first, length
        first, mask = first + length, mask >> length


def totals(
    jobs: Sequence[Job], receipts: Mapping[int, Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Return jobs, waits and what was used, by user, account and class, the largest first."""
    answer = {}
    for name, key in GROUPINGS:
        rows: dict[str, dict[str, Any]] = {}
        for job in jobs:
            row = rows.setdefault(
                key(job),
                {"name": key(job), "jobs": 0, "wait_s": 0.0, **dict.fromkeys(FIGURES, 0.0)},
            )
            row["jobs"] += 1
            receipt = receipts[job.id]
            row["wait_s"] += receipt["wait_s"]
            for figure in FIGURES:
                row[figure] += receipt[figure]
        for row in rows.values():
            row["wait_s"] /= row["jobs"]
        answer[name] = sorted(rows.values(), key=lambda row: -row["device_hours"])
    return answer


def node_rows(nodes: Sequence[LiveNode]) -> list[dict[str, Any]]:
    """Return name, device type and number of devices of each node."""
    return [{"name": node.name, "device": node.device, "devices": node.devices} for node in nodes]
