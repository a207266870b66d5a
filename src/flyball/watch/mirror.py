"""Mirrors Slurm's jobs as jobs of ours, so that the same look-ahead and predictions apply.

A time limit is the estimate that decisions use, as Slurm's own backfill does. How long jobs really
run is predicted from jobs that ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import NamedTuple

from flyball.control.jobs.holds import HELD
from flyball.core.jobs import Job, JobSpec, JobState, Row
from flyball.core.units import to_us
from flyball.engines.slurm.accounting import EndedJob
from flyball.engines.slurm.poll import Reading
from flyball.engines.slurm.queue_text import QueuedJob
from flyball.engines.slurm.records_text import Partition, Share, expanded
from flyball.watch.rules import Rules
from flyball.watch.site_model import SiteModel, place_of

PENDING = ("PD", "RQ", "RF", "RH", "RS", "RD", "SE")
RUNNING = ("R", "S", "CF", "ST", "SI", "SO")
"""Configuring and suspended jobs hold what they have; completing ones (CG) count as ended."""
FINAL_OF = {
    "CD": JobState.COMPLETED, "COMPLETED": JobState.COMPLETED,
    "F": JobState.FAILED, "FAILED": JobState.FAILED,
    "TO": JobState.TIMEOUT, "TIMEOUT": JobState.TIMEOUT,
    "OOM": JobState.OUT_OF_MEMORY, "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
    "NF": JobState.NODE_FAIL, "NODE_FAIL": JobState.NODE_FAIL,
    "BF": JobState.BOOT_FAIL, "BOOT_FAIL": JobState.BOOT_FAIL,
}  # fmt: skip
"""Our state of each final one; all others (cancelled, preempted, revoked) teach nothing."""
TIER = 2.0**33
"""Larger than any priority of Slurm's: tiers of partitions come first."""
HELD_REASONS = ("JobHeldUser", "JobHeldAdmin", "BeginTime")
_AFTER = re.compile(r"(afterok|afterany|afternotok):(\d+)(?:_\*)?\(unfulfilled\)")
TASKS, PARTS = 2**32, 2**44
"""Numbers from which tasks of arrays, and parts of jobs that are modelled node by node, are
counted: above every number of Slurm's own."""


class Mirror(NamedTuple):
    """Holds a reading as jobs of ours.

    Attributes:
        active: the jobs that wait or run.
        of_label: our number of each pending job, by Slurm's label.
        blocked: labels of pending jobs that have no forecast, with the reason why.
        notes: what could not be modelled, for people.
    """

    active: list[Job]
    of_label: dict[str, int]
    blocked: dict[str, str]
    notes: list[str]


class Numbers:
    """Gives every job of Slurm's a number of ours that never changes.

    It is Slurm's own where that is free: Slurm may use a number again, and tasks share one.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, float], int] = {}
        self._taken: set[int] = set()
        self._next = TASKS

    def of(self, label: str, submit_s: float) -> int:
        """Return the number of a job that was submitted at an instant."""
        key = (label, submit_s)
        if key not in self._numbers:
            number = int(label) if label.isdecimal() else self._next
            if number in self._taken or number == self._next:
                number, self._next = self._next, self._next + 1
            self._taken.add(number)
            self._numbers[key] = number
        return self._numbers[key]

    def keep(self, numbers: Set[int]) -> None:
        """Forget all others."""
        self._numbers = {key: number for key, number in self._numbers.items() if number in numbers}
        self._taken = set(self._numbers.values())


def spec_of(
    job: QueuedJob | EndedJob, memory_counts: bool, place: str = "", cpus: int = 0
) -> JobSpec:
    """Return the request of a job of Slurm's."""
    limit_s = job.limit_s or 0.0
    array, _, index = job.label.partition("_")
    is_task = array.isdecimal() and index.isdecimal()
    return JobSpec(
        argv=(job.name or "job",),
        name=job.name[:200],
        user=job.user,
        tenant=job.account,
        cpus=max(1, cpus or job.cpus),
        gpus=job.gpus,
        memory_mib=job.memory_mib if memory_counts else 0,
        features=(place,) if place else (),
        limit_s=limit_s,
        estimate_s=limit_s,
        array=int(array) if is_task else 0,
        array_index=int(index) if is_task else -1,
    )


def ended_job(number: int, job: EndedJob, memory_counts: bool) -> Job | None:
    """Return a job that ended, as the learners take it; None if it teaches nothing."""
    state = FINAL_OF.get(job.state)
    if state is None:
        return None
    start_us = to_us(job.start_s)
    return Job(
        number, spec_of(job, memory_counts), to_us(job.submit_s), state, 1, (), start_us, start_us,
        start_us, to_us(job.end_s),
    )  # fmt: skip


def ended_of(job: QueuedJob) -> EndedJob | None:
    """Return a job that squeue still shows after its end; None if it never ran, or still does."""
    if job.state not in FINAL_OF or job.start_s is None or job.end_s is None:
        return None
    if job.end_s <= job.start_s:
        return None
    return EndedJob(
        job.label, job.user, job.account, job.partitions, job.submit_s, job.start_s, job.end_s,
        job.limit_s, job.state, job.cpus, job.memory_mib, job.gpus, job.gpu_type, job.priority,
        job.name,
    )  # fmt: skip


class Mirroring:
    """Turns one reading into jobs of ours."""

    def __init__(self, reading: Reading, model: SiteModel, rules: Rules, numbers: Numbers) -> None:
        self._reading, self._model, self._rules, self._numbers = reading, model, rules, numbers
        self._partitions = {partition.name: partition for partition in reading.partitions}
        self._free = {at: (1 << model.nodes[at].devices) - 1 for at in range(len(model.nodes))}
        self._unplaced = 0

    def mirror(self) -> Mirror:
        """Return the active jobs."""
        jobs = self._reading.jobs
        active: list[Job] = []
        for job in sorted(jobs, key=lambda job: job.start_s or 0.0):
            if job.state in RUNNING and job.start_s is not None:
                active += self._running(job)
        pending = [job for job in jobs if job.state in PENDING]
        ranks = {id(job): rank for rank, job in enumerate(self._order(pending), 1)}
        of_label, blocked = {}, {}
        ids = {job.id: job for job in jobs}
        for job in pending:
            mirrored, why = self._pending(job, float(ranks[id(job)]), ids)
            of_label[job.label] = mirrored.id
            if why:
                blocked[job.label] = why
            active.append(mirrored)
        notes = []
        if self._unplaced:
            notes.append(f"{self._unplaced} running jobs do not fit the model of their nodes")
        return Mirror(sorted(active, key=lambda job: job.id), of_label, blocked, notes)

    # Pending jobs ------------------------------------------------------------------------

    def _order(self, pending: list[QueuedJob]) -> list[QueuedJob]:
        """Return pending jobs from last to first, as Slurm would take them."""
        return sorted(
            pending, key=lambda job: (self._tier(job), job.priority, -job.submit_s, -job.id)
        )

    def _tier(self, job: QueuedJob) -> int:
        tiers = [self._partitions[name].tier for name in job.partitions if name in self._partitions]
        return max(tiers, default=1)

    def _pending(self, job: QueuedJob, rank: float, ids: dict[int, QueuedJob]) -> tuple[Job, str]:
        """Return a pending job, and why it has no forecast ("" = it has one)."""
        number = self._numbers.of(job.label, job.submit_s)
        after, other = self._dependencies(job, ids)
        why = _why_blocked(job, self._partitions) or other
        spec = self._spec(job)
        values = {"priority": self.priority(job, rank), "after": after}
        spec = JobSpec.with_values({**spec.__dict__, **values})
        mirrored = Job.submitted(number, spec, to_us(job.submit_s))
        if why:
            mirrored.values[HELD] = {"by": job.user}
        return mirrored, why

    def priority(self, job: QueuedJob, rank: float) -> float:
        """Return a priority under which the kernel takes pending jobs in Slurm's order.

        With multifactor it is Slurm's own, so that jobs still to come compare with those present;
        else the rank, so that jobs still to come (0) are behind.
        """
        return self._tier(job) * TIER + job.priority if self._rules.ages else rank

    def _spec(self, job: QueuedJob) -> JobSpec:
        place = place_of(job)
        cpus = 0
        if job.exclusive or self._rules.whole_nodes:
            sizes = [node.cpus for node in self._model.allowed(place)]
            cpus = job.nodes * min(sizes) if sizes else 0
        return spec_of(job, self._rules.memory_counts, place.label, cpus)

    def _dependencies(
        self, job: QueuedJob, ids: dict[int, QueuedJob]
    ) -> tuple[tuple[tuple[str, int], ...], str]:
        """Return the jobs it waits for, and a sentence if not all of them can be modelled."""
        if not job.dependency:
            return (), ""
        entries = [entry for entry in re.split(r"[,?]", job.dependency) if entry]
        after = []
        for entry in entries:
            match = _AFTER.fullmatch(entry)
            other = ids.get(int(match[2])) if match else None
            if match is None or other is None or other.label != str(other.id):
                return (), f"it depends on {job.dependency}, which the twin does not model"
            after.append((match[1], self._numbers.of(other.label, other.submit_s)))
        return tuple(after), ""

    # Running jobs ------------------------------------------------------------------------

    def _running(self, job: QueuedJob) -> list[Job]:
        """Return a running job, as one job, or as one for each node if its parts differ."""
        number = self._numbers.of(job.label, job.submit_s)
        spec = self._spec(job)
        shares = [
            share for share in self._shares(job)
            if share.node in self._model.index
            and self._model.index[share.node] not in self._model.down
        ]  # fmt: skip
        if not shares:  # all of its nodes drain: what it holds comes free for nobody
            return []
        together = len(shares) == 1 or self._alike(shares)
        parts = [shares] if together else [[share] for share in shares]
        mirrored = []
        for at, part in enumerate(parts):
            part_id = number if together else PARTS * (at + 1) + number
            part_spec = _of_part(spec, part) if len(part) < job.nodes or not together else spec
            rows = self._rows(part)
            if rows is None:
                self._unplaced += 1
                continue
            start_us = to_us(job.start_s or 0.0)
            mirrored.append(
                Job(
                    part_id, _fitted(part_spec, rows, self._model), to_us(job.submit_s),
                    JobState.RUNNING, 1, tuple(rows), start_us, start_us, start_us,
                )
            )  # fmt: skip
        return mirrored

    def _alike(self, shares: list[Share]) -> bool:
        """Return whether the kernel can hold these parts as one job: all on nodes of one pool."""
        if not self._model.by_cores and not all(share.gpus for share in shares):
            return False
        first = self._model.nodes[self._model.index[shares[0].node]]
        nodes = [self._model.nodes[self._model.index[share.node]] for share in shares]
        return all(node[1:5] + node.features == first[1:5] + first.features for node in nodes)

    def _shares(self, job: QueuedJob) -> list[Share]:
        """Return what a job has on each node; evenly spread if Slurm does not say it."""
        if job.id in self._reading.shares:
            return self._reading.shares[job.id]
        nodes = expanded(job.node_list)
        count = max(1, len(nodes))
        return [
            Share(node, -(-job.cpus // count), job.memory_mib // count, -(-job.gpus // count))
            for node in nodes
        ]

    def _rows(self, shares: list[Share]) -> list[Row] | None:
        """Take devices of its nodes; None if they are all taken."""
        rows, free = [], dict(self._free)
        for share in shares:
            node = self._model.index[share.node]
            missing = share.gpus
            if self._model.by_cores:
                missing = -(-share.cpus // self._model.demand.cores_each)
            mask = 0
            for bit in range(64):
                if missing and free[node] >> bit & 1:
                    mask |= 1 << bit
                    missing -= 1
            if missing:
                return None
            free[node] &= ~mask
            rows.append(Row(node, mask))
        self._free = free
        return rows


def _of_part(spec: JobSpec, shares: Iterable[Share]) -> JobSpec:
    """Return the request of the part of a job that is on some of its nodes."""
    listed = list(shares)
    values = {
        "cpus": max(1, sum(share.cpus for share in listed)),
        "gpus": sum(share.gpus for share in listed),
        "memory_mib": sum(share.memory_mib for share in listed) if spec.memory_mib else 0,
    }
    return JobSpec.with_values({**spec.__dict__, **values})


def _fitted(spec: JobSpec, rows: list[Row], model: SiteModel) -> JobSpec:
    """Return the request with as many devices as the rows hold, which Slurm may have rounded up."""
    devices = sum(row.mask.bit_count() for row in rows)
    if model.by_cores:
        requested = model.demand.of(spec).devices
        cpus = spec.cpus if requested == devices else devices * model.demand.cores_each
        return JobSpec.with_values({**spec.__dict__, "cpus": cpus})
    return JobSpec.with_values({**spec.__dict__, "gpus": devices})


def _why_blocked(job: QueuedJob, partitions: dict[str, Partition]) -> str:
    """Return why no capacity would start a job now; "" if capacity would."""
    partitions_of_job = [partitions[name] for name in job.partitions if name in partitions]
    if partitions_of_job and not any(partition.up for partition in partitions_of_job):
        return f"partition {','.join(job.partitions)} is not up"
    reason = job.reason.partition(",")[0]
    if reason in HELD_REASONS or job.priority == 0:
        return f"Slurm holds it ({reason or 'priority 0'})"
    longest = [partition.max_s for partition in partitions_of_job]
    if job.limit_s and longest and all(limit and job.limit_s > limit for limit in longest):
        return f"its time limit of {job.limit_s / 60:.0f} min exceeds its partition's"
    return ""


def started_s(job: QueuedJob) -> float | None:
    """Return when a job that squeue shows as running or ended started; None = it has not."""
    if job.state in RUNNING or job.state == "CG":
        return job.start_s
    past = ended_of(job)
    return past.start_s if past else None
