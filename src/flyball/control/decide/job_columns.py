"""The active jobs as columns, kept up to date change by change, so that a view is cheap to take.

A decision with a hundred thousand pending jobs cannot go through a hundred thousand objects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.control.decide.job_slots import SLOT, TELLING, Kinds
from flyball.control.decide.name_codes import Names
from flyball.control.jobs.adjustments import TUNED, held_since_us, share_of, size_of
from flyball.control.jobs.holds import is_held
from flyball.control.jobs.live_state import PREDICTION
from flyball.control.jobs.request import Demand, can_hold
from flyball.control.jobs.scaling import model_of, time_factor
from flyball.core.cluster import MAX_DEVICES_PER_NODE
from flyball.core.grouping import group_rows
from flyball.core.job_facts import SCALING
from flyball.core.jobs import Job, JobState, request_of
from flyball.core.records import CAP_LEVELS, CAP_STEP, records
from flyball.core.units import MILLI_PER_DEVICE, to_us
from flyball.core.workload import CLASS_LABELS, NOT_STATED, Workload
from flyball.predict.runtime.trees import MIDDLE
from flyball.twin.live import PAST, View

Ints = npt.NDArray[np.int64]
Holding = tuple[int, int, int, int, int, int]
"""A row that a running job holds: since when, id, number of the row, slot, node, mask."""
NOT_HERE = -1
"""The place of what is not in a view."""
MOST_KNOWN = 10_000
"""Different requests that are remembered."""
STEP = 0.1
"""Predictions are told apart in these steps (log units)."""


class Table:
    """Active jobs by column; `Book.watchers` keep it true.

    Attributes:
        running: the jobs that hold devices.
        chained: the jobs that name predecessors.
        held: the jobs that may not start yet (`control.holds`).
    """

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._slots = np.zeros(1024, SLOT)
        self._slot_of: dict[int, int] = {}
        self._free = list(range(1023, -1, -1))
        self._tenants, self._users, self._models = Names(), Names(), Names()
        self.running: dict[int, Job] = {}
        self.chained: dict[int, Job] = {}
        self.held: dict[int, Job] = {}
        self._holding: dict[int, list[Holding]] = {}
        self._kinds = Kinds()
        self._known: dict[tuple[Any, ...], tuple[tuple[Any, ...], tuple[Any, ...]]] = {}
        self._altered: set[int] = set()  # jobs in whose slots more than the usual was written

    @property
    def in_place(self) -> bool:
        """Whether a job can go on with other devices without a new start: with cores it can."""
        return self._demand.by_cores

    def update(self, changes: Mapping[int, Job]) -> None:
        """Take over what has become of these jobs."""
        for job in changes.values():
            if job.state.final:
                self.drop(job.id)
            else:
                self._write(job)

    def drop(self, job_id: int) -> None:
        """Forget a job."""
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
        elif job.id in self._altered or _alters(job):
            self._write_all(slot, job, since_us, queued_us)
        else:
            record = self._slots[slot]
            record["service_us"], record["attempt"] = job.service_us, job.attempt
            record["since_us"], record["queued_us"] = since_us, queued_us
        if _alters(job):
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

    def _take_slot(self) -> int:
        if not self._free:
            size = len(self._slots)
            larger = np.zeros(2 * size, SLOT)
            larger[:size] = self._slots
            self._slots = larger
            self._free = list(range(2 * size - 1, size - 1, -1))
        return self._free.pop()

    def _write_all(self, slot: int, job: Job, since_us: int, queued_us: int) -> None:
        """Of jobs that ask for the same and have not run, only the first is looked at closely."""
        if job.attempt or job.values:
            values = self._values(job, since_us, queued_us)
            self._slots[slot] = (*values, self._like(values), 1)
            return
        request = request_of(job.spec)
        known = self._known.get(request)
        if known is None:
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            values = self._values(job, since_us, queued_us)
            known = self._known[request] = values[2:6], (*values[8:], self._like(values), 1)
        self._slots[slot] = (job.id, job.submit_us, *known[0], since_us, queued_us, *known[1])

    def _like(self, values: tuple[Any, ...]) -> int:
        if self._kinds.too_many(len(self._slot_of)):
            slots = list(self._slot_of.values())
            self._slots["like"][slots] = self._kinds.anew(map(TELLING, self._slots[slots].tolist()))
            self._known.clear()
        return self._kinds.number(TELLING(values))

    def _values(self, job: Job, since_us: int, queued_us: int) -> tuple[Any, ...]:
        """A job's slot, but for the last two."""
        spec, asks = job.spec, self._demand.of(job.spec)
        devices = size_of(job) or asks.devices
        least, most = self._demand.range_of(spec)
        most = min(most, MAX_DEVICES_PER_NODE)  # no tuner knows how a job does on more
        if not least <= devices <= most:
            least = most = 0
        estimate_s = expected_s(job) * time_factor(job, asks.devices, devices)
        kind = CLASS_LABELS.index(spec.kind) if spec.kind else NOT_STATED
        return (
            job.id,
            job.submit_us,
            to_us(estimate_s) if estimate_s else self._demand.default_us,
            to_us(spec.limit_s),
            spec.priority,
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
            job.attempt,
        )

    def priority_waiting(self) -> float:
        """The highest of those that wait, 0 if nobody does."""
        waits = self._slots["used"] > 0
        waits[[self._slot_of[each] for each in (*self.running, *self.held)]] = False
        return float(self._slots["priority"][waits].max()) if waits.any() else 0.0

    # Views ----------------------------------------------------------------------------

    def view(
        self, ended: Mapping[int, JobState], down: set[int], most: int = 0
    ) -> tuple[View, npt.NDArray[np.int64]]:
        """What is active now, and the ids of the jobs in it. It shares nothing with the table.

        Args:
            ended: how the jobs ended that are not active.
            down: nodes that are down.
            most: of pending jobs that differ in nothing but their time of submission only the
                first so many; 0 = all.
        """
        slots = np.flatnonzero(self._slots["used"])
        if hidden := self.doomed(ended) | self.kept_back():
            slots = slots[~np.isin(self._slots["id"][slots], list(hidden))]
        slots = self._in_order(slots)
        if most:
            slots = slots[self._may_matter(slots, most)]
        rows: Any = self._slots.take(slots)  # ten times as fast as an index for records
        ids: npt.NDArray[np.int64] = rows["id"].copy()
        place = np.full(len(self._slots), NOT_HERE)
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
        """By time of submission, then by id. Nearly always ids rise with the time."""
        slots = slots[np.argsort(self._slots["id"][slots])]
        submit_us = self._slots["submit_us"][slots]
        if (submit_us[1:] >= submit_us[:-1]).all():
            return slots
        return slots[np.argsort(submit_us, kind="stable")]

    def _may_matter(self, slots: Ints, most: int) -> npt.NDArray[np.bool_]:
        """Which of these jobs one decision could be about, if it starts `most` jobs at the most.

        Of jobs alike the earlier goes first by every order there is. What has run before is
        not like anything else; what waits for others, or is waited for, must be seen.
        """
        keep = self._slots["attempt"][slots] > 0
        keep |= (self._slots["milli"][slots] < MILLI_PER_DEVICE) | (
            self._slots["devices"][slots] == 0
        )
        if self.chained:
            named = [other for job in self.chained.values() for _how, other in job.spec.after]
            wanted = [
                self._slot_of[each] for each in [*self.chained, *named] if each in self._slot_of
            ]
            keep |= np.isin(slots, wanted)
        among = np.flatnonzero(~keep)
        like = self._slots["like"][slots[among]]
        by_kind = np.argsort(like, kind="stable")
        begins = np.flatnonzero(np.diff(like[by_kind], prepend=-1))
        sizes = np.diff(np.append(begins, len(like)))
        number = np.arange(len(like)) - np.repeat(begins, sizes)
        keep[among[by_kind[number < most]]] = True
        return keep

    def doomed(self, ended: Mapping[int, JobState]) -> dict[int, int]:
        """Jobs that wait for something that can no longer happen, and for whose end it was."""
        found = {}
        for job in self.chained.values():
            if job.state == JobState.PENDING:
                for how, other in job.spec.after:
                    if not can_hold(how, ended.get(other)):
                        found[job.id] = other
        return found

    def kept_back(self) -> dict[int, int]:
        """Jobs that no decision may start, with the held job that each of them waits for.

        A held job waits for itself; whatever comes after it, directly or not, waits for it.
        """
        found = {job_id: job_id for job_id in self.held}
        while new := {
            job.id: found[other]
            for job in (self.chained.values() if found else ())
            if job.id not in found and job.state == JobState.PENDING
            for _how, other in job.spec.after
            if other in found
        }:
            found |= new
        return found

    def _workload(self, rows: Any, place: Ints) -> Workload:
        size = len(rows)
        tenant, tenants = self._tenants.settle(rows["tenant"])
        user, users = self._users.settle(rows["user"])
        model, models = self._models.settle(rows["model"])
        group, limits = _arrays(rows)
        pairs = self._waits(place)
        none = np.full(size, NOT_STATED, np.int64)
        plain: dict[str, Any] = {
            name: np.ascontiguousarray(rows[name], np.int64)
            for name in ("submit_us", "devices", "milli", "limit_us", "kind", "least", "most")
        }
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
            **plain,
        )

    def _waits(self, place: Ints) -> list[tuple[int, int]]:
        """(job, predecessor) pairs still to be waited for, as places in the view."""
        pairs = set()
        place_of = place.tolist() if self.chained else []
        for job in self.chained.values():
            if job.state == JobState.PENDING:
                own = place_of[self._slot_of[job.id]]
                for _how, other in job.spec.after:
                    slot = self._slot_of.get(other)
                    if own != NOT_HERE and slot is not None and place_of[slot] != NOT_HERE:
                        pairs.add((own, place_of[slot]))
        return sorted(pairs)

    def _held(self, place: Ints) -> tuple[Any, Any, Any]:
        """Rows of the running jobs, in the order of their starts."""
        rows = sorted(chain.from_iterable(self._holding.values()))
        slots = np.array([row[3] for row in rows], np.int64)
        nodes = np.array([row[4] for row in rows], np.int64)
        masks = np.array([row[5] for row in rows], np.uint64)
        return place[slots], nodes, masks


def expected_s(job: Job) -> float:
    """What decisions take a job to need: what its owner expects, else what was predicted from like
    jobs, else its limit; 0 = nobody knows.

    A prediction counts in steps of a tenth: jobs alike stay alike, so that a decision can pass
    over all but the first of them.
    """
    if job.spec.estimate_s or PREDICTION not in job.values:
        return job.spec.estimate_s or job.spec.limit_s
    median_s = float(job.values[PREDICTION][1 + MIDDLE])
    return math.exp(round(math.log(median_s) / STEP) * STEP)


def _alters(job: Job) -> bool:
    """Whether what has become of the job changes more of its slot than its times."""
    if TUNED in job.values or SCALING in job.values:
        return True
    return PREDICTION in job.values and not job.spec.estimate_s


def cap_level(share: float) -> int:
    """The level of the twin's table of caps that is nearest to a share of what a job could use."""
    return min(CAP_LEVELS - 1, round((1.0 - share) / CAP_STEP))


def _arrays(rows: Any) -> tuple[npt.NDArray[np.int64], tuple[int, ...]]:
    """The group of each task of an array with a limit, and the groups' limits."""
    group = np.full(len(rows), NOT_STATED, np.int64)
    limited = np.flatnonzero(rows["array"] > 0)
    if not len(limited):
        return group, ()
    groups = group_rows(rows["array"][limited])
    group[limited] = groups.of_row
    return group, tuple(rows["array_limit"][limited][groups.first].tolist())


def _no_ids(size: int) -> npt.NDArray[np.str_]:
    """Ids are kept beside a view: names of a hundred thousand jobs take longer than a decision."""
    return np.broadcast_to(np.array("", np.str_), size)
