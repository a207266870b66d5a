"""The usual jobs, for place = fgd: the kinds of jobs the cluster should keep room for.

Kinds come from the workload's jobs, or from the mix it names (a trace's history when its jobs are
resampled). The most popular kinds are kept until they make up `COVERED` of the jobs that ask for
devices.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flyball.core.knobs import Knobs, Place
from flyball.core.records import Records, records
from flyball.core.state import STALE
from flyball.core.workload import ASKED, Mix, Workload

USUAL = np.dtype(
    [
        ("pools", "u8"),  # bit p: pool p could hold it when empty
        ("count", "i8"),  # jobs of this kind
        ("covered", "i8"),  # jobs of this kind and of those before it
        ("cpu_milli", "i8"),
        ("host_mib", "i8"),
        ("devices", "i4"),
        ("milli", "i4"),
    ],
    align=True,
)
"""Record of a kind of job that the cluster usually sees."""

COVERED = 0.95
"""Share of the jobs that the kinds kept must make up."""
MAX_KINDS = 256
"""Maximum number of kinds kept."""
EVERYWHERE = np.uint64(2**64 - 1)
"""`pools` of a kind that could run in every pool."""


def usual_jobs(workload: Workload, jobs: Records, shapes: Records) -> Records:
    """Return the popular kinds of jobs, in order of their share of a device."""
    kinds = _of_mix(workload.mix) if workload.mix is not None else _of_shapes(jobs, shapes)
    kinds = {kind: count for kind, count in kinds.items() if kind[0] > 0 and count > 0}
    target, covered = COVERED * sum(kinds.values()), 0
    kept: list[tuple[tuple[int, ...], int]] = []
    for kind, count in sorted(kinds.items(), key=lambda entry: (-entry[1], entry[0])):
        if covered >= target or len(kept) == MAX_KINDS:
            break
        kept.append((kind, count))
        covered += count
    out = records(len(kept), USUAL)
    by_milli = sorted(kept, key=lambda entry: entry[0][1])
    for row, (kind, count) in zip(out, by_milli, strict=True):
        row.devices, row.milli, row.cpu_milli, row.host_mib, row.pools = kind
        row.count = count
    out.covered = np.cumsum(out["count"])
    return out


def _of_mix(mix: Mix) -> dict[tuple[int, ...], int]:
    asked = zip(*(getattr(mix, name).tolist() for name in ASKED), strict=True)
    return {
        (*kind, int(EVERYWHERE)): count
        for kind, count in zip(asked, mix.count.tolist(), strict=True)
    }


def _of_shapes(jobs: Records, shapes: Records) -> dict[tuple[int, ...], int]:
    """Return the workload's kinds; shapes that differ only in speed or memory are one."""
    counts = np.bincount(jobs.shape_id, minlength=len(shapes)).tolist()
    asked = zip(*(shapes[name].tolist() for name in (*ASKED, "pools")), strict=True)
    kinds: dict[tuple[int, ...], int] = {}
    for kind, count in zip(asked, counts, strict=True):
        kinds[kind] = kinds.get(kind, 0) + count
    return kinds


def score_cache(knobs: Knobs, shapes: int, nodes: int) -> npt.NDArray[np.int64]:
    """Return the score cache of `schedule/place_fgd.py`; empty for other place rules."""
    rows = shapes + 1 if knobs.place == Place.FGD else 0
    return np.full((rows, nodes), STALE, np.int64)
