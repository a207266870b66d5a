"""Turns the columns of jobs into the features that `score` compares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flyball.core.grouping import Groups, group_rows
from flyball.core.units import MIB_PER_GIB, MILLI_PER_DEVICE, S_PER_MIN, US_PER_S
from flyball.core.workload import NOT_STATED, Floats, Ints
from flyball.schedule.classify import score
from flyball.schedule.classify.models import ModelFacts, facts

SMALL_MIB = 8 * MIB_PER_GIB
"""Memory up to which a job counts as small: latency-sensitive jobs need 1-8 GB."""

SHORT_US = 10 * S_PER_MIN * US_PER_S
"""Stated run time up to which a job counts as short."""

GANGS = (8, 16)
"""Limits to which gang sizes are clipped."""

SHARES, SHORT, NOT_SHORT, FAVOURED, SMALL = 0.5, 0.3, -0.1, 0.2, 0.2
"""Weights of the hints that a one-device job needs low latency: it takes only a part of the
device; its stated run time is at most ten minutes, or above; it has a priority above 0; it
takes a part of the device and little memory."""

ON_A_PART, IS_SHORT, IS_NOT_SHORT, IS_FAVOURED = 1, 2, 4, 8


@dataclass(frozen=True)
class JobColumns:
    """Holds the columns by which jobs are classified, all of one length.

    Attributes:
        memory_mib, devices, milli, estimate_us, priority, model: as in a `Workload`.
        models: the facts about each model, None = unknown.
    """

    memory_mib: Ints
    devices: Ints
    milli: Ints
    estimate_us: Floats
    priority: Floats
    model: Ints
    models: tuple[ModelFacts | None, ...]

    @classmethod
    def of(
        cls,
        memory_mib: npt.ArrayLike,
        devices: npt.ArrayLike,
        milli: npt.ArrayLike,
        estimate_us: npt.ArrayLike,
        priority: npt.ArrayLike,
        model: npt.ArrayLike,
        models: tuple[str, ...],
    ) -> JobColumns:
        """Build columns of one length; scalars are repeated."""
        integers = (memory_mib, devices, milli, model)
        columns = np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(column, np.int64)) for column in integers),
            *(np.atleast_1d(np.asarray(column, np.float64)) for column in (estimate_us, priority)),
        )
        code = np.maximum(columns[3], NOT_STATED)
        memory, gang, share, _, estimate, favour = columns
        return cls(memory, gang, share, estimate, favour, code, tuple(map(facts, models)))

    def facts(self, job: int) -> ModelFacts | None:
        """Return the facts about a job's model, None = unknown."""
        code = int(self.model[job])
        return self.models[code] if code >= 0 else None


def grouped(jobs: JobColumns) -> tuple[Groups, Floats]:
    """Group jobs with the same features; return the groups and the features of each."""
    # Code -1 picks the last entry; an unknown model counts as none.
    is_known = np.array([*(facts is not None for facts in jobs.models), False])[jobs.model]
    counts = ~is_known  # for a known model nothing else counts
    hints = _hints(jobs)
    groups = group_rows(
        np.where(is_known, jobs.model, NOT_STATED),
        jobs.memory_mib * counts,
        np.clip(jobs.devices, *GANGS) * counts,
        hints * counts,
    )
    table = np.full((len(groups.first), len(score.FEATURES)), np.nan)
    _fill_columns(table, jobs, groups.first, hints[groups.first])
    for at in np.flatnonzero(is_known[groups.first]).tolist():
        model_facts = jobs.facts(int(groups.first[at]))
        assert model_facts is not None
        table[at] = _of_model(model_facts)
    return groups, table


def _hints(jobs: JobColumns) -> Ints:
    """Return the hints at a need of low latency as one code; gangs have none."""
    code = ON_A_PART * (jobs.milli < MILLI_PER_DEVICE) + IS_FAVOURED * (jobs.priority > 0)
    code += IS_SHORT * (jobs.estimate_us <= SHORT_US) + IS_NOT_SHORT * (jobs.estimate_us > SHORT_US)
    return np.where(jobs.devices == 1, code, 0)


def _fill_columns(table: Floats, jobs: JobColumns, rows: Ints, hints: Ints) -> None:
    """Fill in the features of jobs without a known model."""
    memory = jobs.memory_mib[rows]
    stated = memory > 0
    table[stated, score.MEMORY] = np.log2(memory[stated] / MIB_PER_GIB)
    table[:, score.GANG] = np.log2(np.clip(jobs.devices[rows], *GANGS))
    part = (hints & ON_A_PART) > 0
    need = SHARES * part + FAVOURED * ((hints & IS_FAVOURED) > 0)
    need += SHORT * ((hints & IS_SHORT) > 0) + NOT_SHORT * ((hints & IS_NOT_SHORT) > 0)
    need += SMALL * (part & stated & (memory <= SMALL_MIB))
    table[:, score.NEED] = np.clip(need, 0.0, 1.0)


def _of_model(facts: ModelFacts) -> Floats:
    """Return the features of a known model."""
    row = np.full(len(score.FEATURES), np.nan)
    if facts.parallel is not None:
        row[score.PARALLEL] = facts.parallel
    if facts.spread is not None:
        row[score.TRANSFER] = -math.log2(facts.spread)
    if facts.flop_per_byte is not None:
        row[score.INTENSITY] = math.log10(facts.flop_per_byte)
    return row
