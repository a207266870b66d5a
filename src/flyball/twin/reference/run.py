"""The oracle: the twin in plain, slow Python, to be read next to `docs/concept/twin.md`.

`flyball.twin.kernel` is the compiled implementation; tests demand the same result to the last
bit over random workloads. Everything here is a full scan: no heap, no index, no cache. Read
`Reference.run` first, then `decide` (which jobs start), `place` (where) and `cluster` (what a
start or an end does to the numbers); with order = shares `rounds` decides which jobs start.

    >>> twin = Reference(build_state(cluster, workload, knobs, effects), knobs)
    >>> twin.run()
    >>> twin.schedule()
    [(0, <ActionKind.START: 0>, 0, ((0, 0b11, 1000),)), ...]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flyball.core.codes import Status
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs, Order, Preempt
from flyball.core.records import Records
from flyball.core.results import Mark
from flyball.core.state import State
from flyball.twin.reference.cluster import Cluster
from flyball.twin.reference.decide import decide
from flyball.twin.reference.parts import DecidedAction, Job, Node
from flyball.twin.reference.rounds import Targets, decide_by_shares, update_targets
from flyball.twin.reference.tune import enact


@dataclass(slots=True)
class JobArray:
    """Holds a job array with a limit on tasks pending or running at a time."""

    limit: int
    admitted: int = 0
    held: deque[Job] = field(default_factory=deque)


class Reference:
    """Runs the twin from its initial state.

    Attributes:
        cluster: everything a start or an end changes.
        jobs: status, first_start_us, end_us, done_us, service_us, energy_j, money, carbon_g,
            lost_us, preemptions, failures, attempt, pool and nodes (spanned) of each job.
        nodes: energy_j, money, carbon_g, busy_us and asleep_us of each node as of its `since_us`.
        arrivals, decisions: numbers of them so far.
    """

    def __init__(
        self,
        state: State,
        knobs: Knobs,
        targets: Targets | None = None,
        plans: Mapping[int, Sequence[Records]] | None = None,
        between: bool = True,
    ) -> None:
        """Prepare a run.

        Args:
            state: as built.
            knobs: the settings of the decisions.
            targets: with order = shares, the policy that sets the targets.
            plans: plans of tuning rounds by instant, carried out in place of a decision.
            between: whether decisions are made at other instants.
        """
        if knobs.order == Order.SHARES and targets is None:
            raise BadInput("order=shares needs a policy to ask for targets", "give it as targets")
        self.cluster = Cluster(state, knobs)
        self._targets = targets
        self._plans = {at_us: list(rounds) for at_us, rounds in (plans or {}).items()}
        self._between = between
        self._eventful = False  # whether anything happened since a round left all idle
        self.arrivals = 0
        self.decisions = 0
        self._arrays = [JobArray(int(group.limit)) for group in state.groups]
        self._outages = [
            (int(outage.down_us), int(outage.up_us), int(outage.node)) for outage in state.outages
        ]
        self._next_outage = 0
        self._repairs: list[tuple[int, int]] = []  # (instant, node) of nodes that are down

    def run(self, until_us: int | None = None) -> None:
        """Handle every instant up to and including `until_us`, or all; may be called again."""
        while not all(job.final for job in self.jobs):
            now_us = self._next_instant_us()
            if now_us is None or (until_us is not None and now_us > until_us):
                break
            self.cluster.now_us = now_us

            # 1. What happens at this instant.
            before = self._events()
            self._ends()
            self._node_repairs()
            self._releases()
            self._node_failures()
            self._arrivals()
            if self._events() > before:
                self._eventful = self.cluster.changed = True
            knobs = self.cluster.knobs
            rounds = knobs.preempt == Preempt.ROUNDS
            at_multiple = now_us % self.cluster.round_us == 0
            if rounds and at_multiple and knobs.order == Order.ATTAINED and knobs.promote > 0:
                self.cluster.promote_starved()

            # 2. One decision, whose actions take effect at this instant.
            self.cluster.decision_start = len(self.cluster.actions)
            if now_us in self._plans:
                enact(self.cluster, self._plans[now_us].pop(0), self._scale, self._release)
                self.cluster.capacity_grew = True
                if not self._plans[now_us]:
                    del self._plans[now_us]
            elif not self._between:
                continue
            else:
                self._decide(round_due=rounds and at_multiple)
            self.decisions += 1
            if at_multiple and not self.cluster.with_status(Status.RUNNING):
                self._eventful = False

    def schedule(self) -> list[DecidedAction]:
        """Return every action so far in the order decided: (time_us, kind, job, rows)."""
        return list(self.cluster.actions)

    def mark(self, at_us: int | None = None) -> Mark:
        """Return totals as of now or of an instant before the next event; changes nothing."""
        now_us = self.now_us if at_us is None else at_us
        energy_j = busy_us = work_us = money = carbon_g = 0.0
        for node in self.nodes:
            node_energy_j, node_busy_us, _ = self.cluster.accounts(node, now_us)
            energy_j += node_energy_j
            busy_us += node_busy_us
            node_money, node_carbon_g = self.cluster.bills(node, now_us)
            money += node_money
            carbon_g += node_carbon_g
        for job in self.jobs:
            work_us += _fraction_done(job, now_us) * job.reference_us
        finished = sum(job.final for job in self.jobs)
        return Mark(
            *(now_us, work_us, energy_j, busy_us, finished),
            None if self.cluster.price is None else money,
            None if self.cluster.carbon is None else carbon_g,
        )

    # What happens ------------------------------------------------------------

    def _decide(self, round_due: bool) -> None:
        if self.cluster.knobs.order != Order.SHARES:
            decide(self.cluster, round_due)
            return
        assert self._targets is not None
        if round_due:
            update_targets(self.cluster, self._targets)
        decide_by_shares(self.cluster, round_due)

    def _events(self) -> int:
        """Return the number of events so far; rounds do not count."""
        return self.arrivals + self.ends + self.failures + self.repairs

    def _next_instant_us(self) -> int | None:
        """Return when something happens next: possibly now again, None if never."""
        cluster = self.cluster
        running = cluster.with_status(Status.RUNNING)
        instants = [job.end_us for job in running]
        instants += [up_us for up_us, _ in self._repairs]
        instants += [down_us for down_us, _, _ in self._outages[self._next_outage :]]
        instants += [job.submit_us for job in cluster.with_status(Status.FUTURE)]
        instants += [job.defer_us for job in self._deferred()]
        instants += self._plans
        if cluster.knobs.preempt == Preempt.ROUNDS and self._round_follows():
            instants.append((cluster.now_us // cluster.round_us + 1) * cluster.round_us)
        return max(cluster.now_us, min(instants)) if instants else None

    def _round_follows(self) -> bool:
        """Return whether the twin decides at the next multiple even if nothing happens then."""
        pending = bool(self.cluster.with_status(Status.PENDING))
        running = bool(self.cluster.with_status(Status.RUNNING))
        if self.cluster.knobs.order == Order.SHARES:
            # A round that starts no job in an idle cluster would be followed by others like it.
            return running or (pending and (self._eventful or self.cluster.changed))
        return running and (pending or self.cluster.move_us > 0)

    def _ends(self) -> None:
        ending = [
            job for job in self.cluster.with_status(Status.RUNNING) if job.end_us == self.now_us
        ]
        for job in ending:
            self.cluster.end(job)
            for index in job.successors:
                successor = self.jobs[index]
                successor.waiting_on -= 1
                if successor.status == Status.HELD and successor.waiting_on == 0:
                    self._admit_or_defer(successor)
            if job.group >= 0:
                array = self._arrays[job.group]
                array.admitted -= 1
                if array.held:
                    self._admit_or_hold(array.held.popleft())

    def _node_repairs(self) -> None:
        due = [node for up_us, node in self._repairs if up_us <= self.now_us]
        self._repairs = [repair for repair in self._repairs if repair[0] > self.now_us]
        for node in sorted(due):
            self.cluster.repair(self.nodes[node])

    def _node_failures(self) -> None:
        while self._next_outage < len(self._outages):
            down_us, up_us, node = self._outages[self._next_outage]
            if down_us > self.now_us:
                break
            self._next_outage += 1
            self.cluster.fail(self.nodes[node])
            self._repairs.append((up_us, node))

    def _arrivals(self) -> None:
        for job in self.cluster.with_status(Status.FUTURE):
            if job.submit_us <= self.now_us:
                self.arrivals += 1
                job.status = Status.HELD
                if job.waiting_on == 0:
                    self._admit_or_defer(job)

    def _deferred(self) -> list[Job]:
        """Return the jobs that are held back only because they may be deferred."""
        return [
            job
            for job in self.cluster.with_status(Status.HELD)
            if job.defer_us > 0 and job.waiting_on == 0
        ]

    def _releases(self) -> None:
        for job in self._deferred():
            if job.defer_us <= self.now_us:
                self._release(job.index)

    def _release(self, index: int) -> None:
        """End the deferral of a job."""
        job = self.jobs[index]
        assert job in self._deferred()
        self._eventful = self.cluster.changed = True
        job.defer_us = 0
        self._admit_or_hold(job)

    def _admit_or_defer(self, job: Job) -> None:
        if job.defer_us <= self.now_us:
            job.defer_us = 0
            self._admit_or_hold(job)

    def _admit_or_hold(self, job: Job) -> None:
        """Queue a job that waits for no predecessor, if its array has room."""
        if job.group >= 0:
            array = self._arrays[job.group]
            if array.admitted >= array.limit:
                array.held.append(job)
                return
            array.admitted += 1
        self.cluster.admit(job)

    def _scale(self, group: int, count: int) -> None:
        """Set the number of replicas of a service; -1 = it ends."""
        array = self._arrays[group]
        replicas = [job for job in self.jobs if job.group == group and not job.final]
        alive = [job for job in replicas if job.status in (Status.PENDING, Status.RUNNING)]
        if count < 0:
            for job in alive:
                self.cluster.stop_replica(job)
            for job in replicas:
                if job.status != Status.FUTURE:
                    self.cluster.end_replica(job)
            array.held.clear()
            array.admitted = 0
            return
        array.limit = count
        while array.admitted > count:
            job = max(alive, key=lambda job: (job.status == Status.PENDING, job.index))
            alive.remove(job)
            self.cluster.stop_replica(job)
            array.held.append(job)
            array.admitted -= 1
        while array.admitted < count and array.held:
            array.admitted += 1
            self.cluster.admit(array.held.popleft())

    # The cluster's figures, by their names in the state -----------------------

    @property
    def jobs(self) -> list[Job]:
        return self.cluster.jobs

    @property
    def nodes(self) -> list[Node]:
        return self.cluster.nodes

    @property
    def now_us(self) -> int:
        return self.cluster.now_us

    @property
    def power_w(self) -> float:
        return self.cluster.power_w

    @property
    def peak_power_w(self) -> float:
        return self.cluster.peak_power_w

    @property
    def starts(self) -> int:
        return self.cluster.starts

    @property
    def ends(self) -> int:
        return self.cluster.ends

    @property
    def preemptions(self) -> int:
        return self.cluster.preemptions

    @property
    def failures(self) -> int:
        return self.cluster.failures

    @property
    def repairs(self) -> int:
        return self.cluster.repairs


def _fraction_done(job: Job, now_us: int) -> float:
    if job.status == Status.DONE:
        return 1.0
    if job.work_us == 0:
        return 0.0
    if job.status == Status.RUNNING:
        return min(1.0, (job.done_us + job.progress(now_us)) / job.work_us)
    return job.done_us / job.work_us
