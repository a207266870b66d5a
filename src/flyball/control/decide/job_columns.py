"""The active jobs as columns, updated with each change, so that a view is cheap to take.

A decision with a hundred thousand pending jobs cannot iterate over a hundred thousand objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.control.decide.job_slots import (
    NO_QUANTILES,
    SHAPE_VALUES,
    SLOT,
    ShapeNumbers,
    expected_s,
    predicted_us,
    quantiles_us,
)
from flyball.control.decide.name_codes import NameCodes
from flyball.control.jobs.adjustments import TUNED, held_since_us, share_of, size_of
from flyball.control.jobs.holds import is_held
from flyball.control.jobs.live_state import PREDICTION
from flyball.control.jobs.priority import PRIORITY
from flyball.control.jobs.request import Demand, can_hold
from flyball.control.jobs.scaling import model_of, time_factor
from flyball.core.cluster import MAX_DEVICES_PER_NODE
from flyball.core.grouping import group_rows
from flyball.core.job_facts import SCALING
from flyball.core.jobs import Job, JobSpec, JobState, request_of
from flyball.core.records import CAP_LEVELS, CAP_STEP, records
from flyball.core.units import MILLI_PER_DEVICE, to_us
from flyball.core.workload import CLASS_LABELS, NOT_STATED, Workload
from flyball.tune.pathway_scope import Scope
from flyball.tune.pathways import Pathway, leading
from flyball.twin.live import PAST, View

Ints = npt.NDArray[np.int64]
Holding = tuple[int, int, int, int, int, int]
"""Row that a running job holds: start time, job id, index of the row, slot, node, mask."""
NOT_IN_VIEW = -1
"""Index of a job that is not in a view."""
MAX_TEMPLATES = 10_000
"""Maximum number of different requests whose slot values are cached."""


class JobColumns:
    """Holds the active jobs by column; `LiveState.watchers` keep it up to date.

    Attributes:
        running: the jobs that hold devices.
        chained: the jobs that depend on others.
        held: the jobs that may not start yet (`control.jobs.holds`).
        unfit: jobs that no node could hold at present, with the reason; they wait.
        classes: gives jobs their class.
    """

    def __init__(self, demand: Demand, spreads: bool = False, resizes: bool = True) -> None:
        """
        Args:
            spreads: whether views have predicted quantiles (`Knobs.reads_spread`).
            resizes: whether the engine can resize a job without a restart.
        """
        self._demand, self._spreads, self._resizes = demand, spreads, resizes
        self.classes = demand.classes
        self._slots = np.zeros(1024, SLOT)
        self._slot_of: dict[int, int] = {}
        self._free = list(range(1023, -1, -1))
        self._tenants, self._users, self._models = NameCodes(), NameCodes(), NameCodes()
        self.running: dict[int, Job] = {}
        self.chained: dict[int, Job] = {}
        self.held: dict[int, Job] = {}
        self.unfit: dict[int, str] = {}
        self._holding: dict[int, list[Holding]] = {}
        self._shapes = ShapeNumbers()
        self._templates: dict[tuple[Any, ...], tuple[tuple[Any, ...], tuple[Any, ...]]] = {}
        self._altered: set[int] = set()  # jobs whose slots hold more than their request and times

    @property
    def in_place(self) -> bool:
        """Whether a job can change devices without a restart: on cores, where the engine can."""
        return self._demand.by_cores and self._resizes

    def rebuild(self, jobs: Mapping[int, Job]) -> None:
        """Compute everything again, as the nodes have changed.

        Args:
            jobs: the active jobs.
        """
        self._templates.clear()
        for job_id in list(self._slot_of):
            self.drop(job_id)
        self.update(jobs)

    def update(self, changes: Mapping[int, Job]) -> None:
        """Take in changed jobs."""
        for job in changes.values():
            if job.state.final:
                self.drop(job.id)
            else:
                self._write(job)

    def drop(self, job_id: int) -> None:
        """Remove a job."""
        slot = self._slot_of.pop(job_id, None)
        if slot is not None:
            self._slots[slot]["used"] = 0
            self._free.append(slot)
        self.running.pop(job_id, None)
        self.chained.pop(job_id, None)
        self.held.pop(job_id, None)
        self._holding.pop(job_id, None)
        self._altered.discard(job_id)

    def _write(self, job: Job) -> None:
        since_us = held_since_us(job)
        queued_us = job.since_us if job.attempt else job.submit_us
        slot = self._slot_of.get(job.id)
        if slot is None:
            slot = self._slot_of[job.id] = self._take_slot()
            self._write_all(slot, job, since_us, queued_us)
        elif job.id in self._altered or self._changes_slot(job):
            self._write_all(slot, job, since_us, queued_us)
        else:
            record = self._slots[slot]
            record["service_us"], record["attempt"] = job.service_us, job.attempt
            record["since_us"], record["queued_us"] = since_us, queued_us
        if self._changes_slot(job):
            self._altered.add(job.id)
        else:
            self._altered.discard(job.id)
        if job.spec.after:
            self.chained[job.id] = job
        if is_held(job):
            self.held[job.id] = job
        else:
            self.held.pop(job.id, None)
        if job.state == JobState.PENDING:
            self.running.pop(job.id, None)
            self._holding.pop(job.id, None)
        else:
            self.running[job.id] = job
            self._holding[job.id] = [
                (job.since_us, job.id, at, slot, row.node, row.mask)
                for at, row in enumerate(job.rows)
            ]

    def _changes_slot(self, job: Job) -> bool:
        """Whether the state of a job changes more of its slot than its times."""
        if TUNED in job.values or SCALING in job.values or PRIORITY in job.values:
            return True
        return PREDICTION in job.values and (self._spreads or not job.spec.estimate_s)

    def _take_slot(self) -> int:
        if not self._free:
            size = len(self._slots)
            larger = np.zeros(2 * size, SLOT)
            larger[:size] = self._slots
            self._slots = larger
            self._free = list(range(2 * size - 1, size - 1, -1))
        return self._free.pop()

    def _write_all(self, slot: int, job: Job, since_us: int, queued_us: int) -> None:
        """Write the whole slot; jobs that have not run share the values of equal requests."""
        if job.attempt or job.values:
            values = self._values(job, since_us, queued_us)
            self._slots[slot] = (*values, self._shape_number(values), 1)
            return
        request = request_of(job.spec)
        template = self._templates.get(request)
        if template is None:
            if len(self._templates) > MAX_TEMPLATES:
                self._templates.clear()
            values = self._values(job, since_us, queued_us)
            template = self._templates[request] = (
                values[2:6],
                (*values[8:], self._shape_number(values), 1),
            )
        self._slots[slot] = (job.id, job.submit_us, *template[0], since_us, queued_us, *template[1])

    def _shape_number(self, values: tuple[Any, ...]) -> int:
        if self._shapes.too_many(len(self._slot_of)):
            slots = list(self._slot_of.values())
            self._slots["like"][slots] = self._shapes.renumber(
                map(SHAPE_VALUES, self._slots[slots].tolist())
            )
            self._templates.clear()
        return self._shapes.number(SHAPE_VALUES(values))

    def _values(self, job: Job, since_us: int, queued_us: int) -> tuple[Any, ...]:
        """Return the values of a job's slot without the last two."""
        spec, asks = job.spec, self._demand.of(job.spec)
        devices = size_of(job) or asks.devices
        least, most = self._demand.range_of(spec)
        most = min(most, MAX_DEVICES_PER_NODE)  # tuners have no speeds beyond one node
        if not least <= devices <= most:
            least = most = 0
        factor = time_factor(job, asks.devices, devices)
        estimate_s = expected_s(job) * factor
        kind = CLASS_LABELS.index(spec.kind) if spec.kind else NOT_STATED
        return (
            job.id,
            job.submit_us,
            to_us(estimate_s) if estimate_s else self._demand.default_us,
            to_us(spec.limit_s),
            self.classes.priority(spec),
            job.service_us,
            since_us,
            queued_us,
            asks.cpu_milli,
            asks.host_mib,
            spec.array if spec.array_limit else 0,
            spec.array_limit,
            devices,
            least,
            most,
            cap_level(share_of(job)),
            asks.milli,
            self._tenants.code(spec.tenant),
            self._users.code(spec.user),
            self._models.code(model_of(job, self._demand)),
            kind,
            self._pathway(spec),
            job.attempt,
            self._demand.pools(spec),
            *(predicted_us(job, factor) if self._spreads else NO_QUANTILES),
        )

    @property
    def follows_lead(self) -> bool:
        """Whether the cluster follows the leading pathway."""
        return self.classes.scope == Scope.CLUSTER

    def _pathway(self, spec: JobSpec) -> int:
        return int(self.classes.pathway(spec)) if self.follows_lead else NOT_STATED

    def leading(self) -> Pathway | None:
        """Return the pathway for which active jobs ask for most device time; None = no job does."""
        rows = self._slots[(self._slots["used"] > 0) & (self._slots["pathway"] >= 0)]
        share = rows["devices"] * rows["milli"] / MILLI_PER_DEVICE
        device_us = share * rows["estimate_us"]
        return leading(rows["pathway"], device_us) if device_us.any() else None

    def priority_waiting(self) -> float:
        """Return the highest priority of the pending jobs, 0 if there is none."""
        waits = self._slots["used"] > 0
        kept = (*self.running, *self.held, *self._unfit_waiting())
        waits[[self._slot_of[job_id] for job_id in kept]] = False
        return float(self._slots["priority"][waits].max()) if waits.any() else 0.0

    # Views ----------------------------------------------------------------------------

    def view(
        self, ended: Mapping[int, JobState], down: Set[int], most: int = 0
    ) -> tuple[View, npt.NDArray[np.int64]]:
        """Return a view of the active jobs, and their ids. It shares no memory with the table.

        Args:
            ended: final states of the jobs that are not active.
            down: nodes that are down.
            most: maximum number of pending jobs of the same shape, the first ones; 0 = all.
        """
        slots = np.flatnonzero(self._slots["used"])
        if hidden := self.doomed(ended) | self.kept_back():
            slots = slots[~np.isin(self._slots["id"][slots], list(hidden))]
        slots = self._in_order(slots)
        if most:
            slots = slots[self._candidates(slots, most)]
        rows: Any = self._slots.take(slots)  # ten times as fast as indexing, for records
        ids: npt.NDArray[np.int64] = rows["id"].copy()
        place = np.full(len(self._slots), NOT_IN_VIEW)
        place[slots] = np.arange(len(slots))
        workload = self._workload(rows, place)
        past = records(len(rows), PAST)
        share = np.maximum(1, rows["devices"]) * rows["milli"] / 1000
        past["done_us"] = rows["service_us"] / share
        for name in ("service_us", "since_us", "queued_us", "attempt"):
            past[name] = rows[name]
        cap = rows["cap"].astype(np.int64)
        return View(workload, past, *self._held(place), np.array(sorted(down), np.int64), cap), ids

    def _in_order(self, slots: Ints) -> Ints:
        """Sort by time of submission, then by id. Ids nearly always rise with the time."""
        slots = slots[np.argsort(self._slots["id"][slots])]
        submit_us = self._slots["submit_us"][slots]
        if (submit_us[1:] >= submit_us[:-1]).all():
            return slots
        return slots[np.argsort(submit_us, kind="stable")]

    def _candidates(self, slots: Ints, most: int) -> npt.NDArray[np.bool_]:
        """Mark the jobs that one decision could affect if it starts at most `most` jobs.

        Every policy orders jobs alike by submission, so the first ones of a shape suffice. A job
        that has run before is unlike any other; jobs with dependencies, and those that others
        depend on, are always included.
        """
        keep = self._slots["attempt"][slots] > 0
        keep |= (self._slots["milli"][slots] < MILLI_PER_DEVICE) | (
            self._slots["devices"][slots] == 0
        )
        if self.chained:
            named = [other for job in self.chained.values() for _how, other in job.spec.after]
            chained_slots = [
                self._slot_of[job_id]
                for job_id in [*self.chained, *named]
                if job_id in self._slot_of
            ]
            keep |= np.isin(slots, chained_slots)
        among = np.flatnonzero(~keep)
        like = self._slots["like"][slots[among]]
        by_shape = np.argsort(like, kind="stable")
        begins = np.flatnonzero(np.diff(like[by_shape], prepend=-1))
        sizes = np.diff(np.append(begins, len(like)))
        number = np.arange(len(like)) - np.repeat(begins, sizes)
        keep[among[by_shape[number < most]]] = True
        return keep

    def doomed(self, ended: Mapping[int, JobState]) -> dict[int, int]:
        """Return jobs whose dependency can no longer be satisfied, with the job they depend on."""
        doomed = {}
        for job in self.chained.values():
            if job.state == JobState.PENDING:
                for how, other in job.spec.after:
                    if not can_hold(how, ended.get(other)):
                        doomed[job.id] = other
        return doomed

    def kept_back(self) -> dict[int, int]:
        """Return jobs that no decision may start, with the held job that each of them waits for.

        A held job waits for itself; a job that depends on it, directly or not, waits for it too.
        The same holds for jobs that no node could hold.
        """
        kept_back = {job_id: job_id for job_id in (*self.held, *self._unfit_waiting())}
        while new := {
            job.id: kept_back[other]
            for job in (self.chained.values() if kept_back else ())
            if job.id not in kept_back and job.state == JobState.PENDING
            for _how, other in job.spec.after
            if other in kept_back
        }:
            kept_back |= new
        return kept_back

    def _unfit_waiting(self) -> list[int]:
        """Return the jobs that wait since no node could hold them."""
        return [job for job in self.unfit if job in self._slot_of and job not in self.running]

    def _workload(self, rows: Any, place: Ints) -> Workload:
        size = len(rows)
        tenant, tenants = self._tenants.settle(rows["tenant"])
        user, users = self._users.settle(rows["user"])
        model, models = self._models.settle(rows["model"])
        group, limits = _arrays(rows)
        pairs = self._dependencies(place)
        none = np.full(size, NOT_STATED, np.int64)
        plain: dict[str, Any] = {
            name: np.ascontiguousarray(rows[name], np.int64)
            for name in ("submit_us", "devices", "milli", "limit_us", "kind", "least", "most")
        }
        plain["pools"] = rows["pools"].copy()
        return Workload(
            name="live",
            ids=_no_ids(size),
            duration_us=rows["estimate_us"].copy(),
            memory_mib=np.zeros(size, np.int64),
            model=model,
            device=np.zeros(size, np.int64),
            tenant=tenant,
            user=user,
            priority=rows["priority"].copy(),
            estimate_us=rows["estimate_us"].copy(),
            group=group,
            outcome=np.zeros(size, np.int64),
            row=none,
            start_us=none,
            end_us=none,
            cpu_milli=rows["cpu_milli"].astype(np.int64),
            host_mib=rows["host_mib"].astype(np.int64),
            models=models,
            device_names=(self._demand.device,),
            tenants=tenants,
            users=users,
            group_limits=limits,
            after_job=np.array([pair[0] for pair in pairs], np.int64),
            after_on=np.array([pair[1] for pair in pairs], np.int64),
            quantiles_us=quantiles_us(rows) if self._spreads else None,
            **plain,
        )

    def _dependencies(self, place: Ints) -> list[tuple[int, int]]:
        """Return the open (job, predecessor) pairs, as indices in the view."""
        pairs = set()
        place_of = place.tolist() if self.chained else []
        for job in self.chained.values():
            if job.state == JobState.PENDING:
                job_place = place_of[self._slot_of[job.id]]
                for _how, other in job.spec.after:
                    slot = self._slot_of.get(other)
                    on = NOT_IN_VIEW if slot is None else place_of[slot]
                    if NOT_IN_VIEW not in (job_place, on):
                        pairs.add((job_place, on))
        return sorted(pairs)

    def _held(self, place: Ints) -> tuple[Any, Any, Any]:
        """Return the rows of the running jobs, in the order of their starts."""
        rows = sorted(chain.from_iterable(self._holding.values()))
        slots = np.array([row[3] for row in rows], np.int64)
        nodes = np.array([row[4] for row in rows], np.int64)
        masks = np.array([row[5] for row in rows], np.uint64)
        return place[slots], nodes, masks


def cap_level(share: float) -> int:
    """Return the level in the twin's table of caps that is nearest to a share."""
    return min(CAP_LEVELS - 1, round((1.0 - share) / CAP_STEP))


def _arrays(rows: Any) -> tuple[npt.NDArray[np.int64], tuple[int, ...]]:
    """Return the group of each task of an array with a limit, and the groups' limits."""
    group = np.full(len(rows), NOT_STATED, np.int64)
    limited = np.flatnonzero(rows["array"] > 0)
    if not len(limited):
        return group, ()
    groups = group_rows(rows["array"][limited])
    group[limited] = groups.of_row
    return group, tuple(rows["array_limit"][limited][groups.first].tolist())


def _no_ids(size: int) -> npt.NDArray[np.str_]:
    """Return empty ids: building a hundred thousand names takes longer than a decision."""
    return np.broadcast_to(np.array("", np.str_), size)
