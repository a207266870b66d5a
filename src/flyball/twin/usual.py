"""The usual jobs, for place = fgd: what the cluster should keep room for.

Kinds of jobs come from the workload's own list, or from the mix it names (a trace's history
when its jobs are drawn anew). The most popular kinds are kept until they make up `COVERED` of the
jobs that ask for devices.
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
"""A kind of job that the cluster usually sees."""

COVERED = 0.95
MOST_KINDS = 256
EVERYWHERE = np.uint64(2**64 - 1)


def usual_jobs(workload: Workload, jobs: Records, shapes: Records) -> Records:
    """The popular kinds of jobs, in order of their share of a device."""
    kinds = _of_mix(workload.mix) if workload.mix is not None else _of_shapes(jobs, shapes)
    kinds = {kind: count for kind, count in kinds.items() if kind[0] > 0 and count > 0}
    wanted, covered = COVERED * sum(kinds.values()), 0
    kept: list[tuple[tuple[int, ...], int]] = []
    for kind, count in sorted(kinds.items(), key=lambda each: (-each[1], each[0])):
        if covered >= wanted or len(kept) == MOST_KINDS:
            break
        kept.append((kind, count))
        covered += count
    out = records(len(kept), USUAL)
    for row, (kind, count) in zip(out, sorted(kept, key=lambda each: each[0][1]), strict=True):
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
    """The workload's own kinds: shapes that differ in nothing but speed or memory are one."""
    counts = np.bincount(jobs.shape_id, minlength=len(shapes)).tolist()
    asked = zip(*(shapes[name].tolist() for name in (*ASKED, "pools")), strict=True)
    kinds: dict[tuple[int, ...], int] = {}
    for kind, count in zip(asked, counts, strict=True):
        kinds[kind] = kinds.get(kind, 0) + count
    return kinds


def score_cache(knobs: Knobs, shapes: int, nodes: int) -> npt.NDArray[np.int64]:
    """The score cache of `schedule/place_fgd.py`; empty for other place rules."""
    rows = shapes + 1 if knobs.place == Place.FGD else 0
    return np.full((rows, nodes), STALE, np.int64)
