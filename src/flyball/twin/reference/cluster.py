"""The oracle's cluster: what a start, an end, a failure does to jobs, nodes and power.

Numbers change nowhere else, and each as `docs/concept/twin.md` defines it, in its order of
operations. `decide` and `place` choose which job starts where; `run` moves the clock.
"""

from __future__ import annotations

import math

from flyball.core.codes import ActionKind, Status
from flyball.core.knobs import Knobs, Order
from flyball.core.signals import Signal
from flyball.core.state import State
from flyball.core.units import W_US_PER_KWH
from flyball.twin.reference.parts import (
    DecidedAction,
    DeviceRow,
    Job,
    Node,
    Placement,
    Pool,
    Reservation,
    give_back,
    masked,
)
from flyball.twin.reference.read import idle_nodes, read_jobs, read_pools, read_usual
from flyball.twin.reference.speeds import GUEST, sharers, update_shared_speeds
from flyball.twin.reference.tenants import TenantAccounts
from flyball.twin.tables.signals import signals_of


class Cluster:
    """Holds jobs, nodes and pools on a clock (`now_us`) that `Reference` moves."""

    def __init__(self, state: State, knobs: Knobs) -> None:
        clock = state.clock[0]
        packed = knobs.pack()[0]
        self.knobs = knobs
        self.hold_us = float(packed.hold_us)
        self.attained_us = float(packed.attained_us)
        self.attained2_us = float(packed.attained2_us)
        self.round_us = int(packed.round_us)
        self.sleep_us = int(packed.sleep_us)
        self.solve_us = int(packed.solve_us)
        self.move_us = float(packed.move_us)
        self.budget_w = float(clock.budget_w)
        self.checkpoint_every_us = int(clock.checkpoint_every_us)
        self.free_moves = bool(clock.free_moves)
        self.start_us = self.now_us = int(clock.start_us)

        self.cap = int(packed.cap)
        self.pools = read_pools(state, self.cap)
        self.pairs = state.pairs.tolist()
        self.profiles = len(state.rates) // len(state.pools)
        self.nodes = [
            node for pool in self.pools for node in idle_nodes(pool, self.now_us, self.sleep_us)
        ]
        self.jobs = read_jobs(state)
        self.price, self.carbon = signals_of(state)
        self.tenants = TenantAccounts(state, self.pools, float(packed.decay), knobs.order)
        self.history: dict[object, float] = {}  # mean work of the jobs that ended, by group
        self.usual = read_usual(state)

        self.power_w = 0.0
        for node in self.nodes:
            self.power_w += node.power_w
        self.peak_power_w = self.power_w
        self.capacity_grew = False  # something was released since the last decision
        self.reservation: Reservation | None = None
        self.asked_us = -1  # when the policy was last asked for targets, -1 = never
        self.changed = False  # something happened since then
        self.fastest_first = [self.pools[index] for index in state.pools.visit]
        self.actions: list[DecidedAction] = []
        self.decision_start = 0  # the first action of the present decision
        self.starts = self.ends = self.preemptions = self.failures = self.repairs = 0

    def with_status(self, status: Status) -> list[Job]:
        return [job for job in self.jobs if job.status == status]

    def nodes_of(self, pool: Pool) -> list[Node]:
        return self.nodes[pool.first_node : pool.first_node + pool.nodes]

    # What can happen ---------------------------------------------------------

    def start(self, job: Job, placement: Placement, level: int = 0) -> None:
        """Begin a slice of `job` now, under the cap of `level` or the common one."""
        assert job.status == Status.PENDING
        pool = self.pools[placement.pool]
        wake_us = self.wake_us(placement)
        ready_us = self.now_us + wake_us + job.setup_us
        if self.free_moves and self._keeps_shape(job, placement):
            ready_us = max(job.ready_us, self.now_us + wake_us)

        job.status = Status.RUNNING
        job.pool, job.rows, job.nodes = pool.index, placement.rows, len(placement.rows)
        job.held = sum(row.mask.bit_count() for row in placement.rows)
        job.cap, job.slow = max(level, self.cap), 1.0
        job.rate = self.slice_rate(job)
        job.watts = self.charged_w(job, pool, job.held, job.cap)
        job.since_us = job.began_us = self.now_us
        job.awake_us = self.now_us + wake_us
        job.ready_us = ready_us
        self.plan_end(job)
        if job.attempt == 0:
            job.first_start_us = self.now_us
        job.attempt += 1

        for row in job.rows:
            self._take(job, row)
        self.peak_power_w = max(self.peak_power_w, self.power_w)
        self.starts += 1
        job.start_number = self.starts
        self.tenants.charge(job, 1, self.now_us)
        if self._was_preempted(job):
            job.moves += 1
        self.actions.append(DecidedAction(self.now_us, ActionKind.START, job.index, job.rows))

    def _keeps_shape(self, job: Job, placement: Placement) -> bool:
        """Return whether a job that this decision preempted goes on in the same pool and shape."""
        held = sum(row.mask.bit_count() for row in placement.rows)
        before, after = (job.pool, job.nodes, job.held), (placement.pool, len(placement.rows), held)
        return before == after and self._was_preempted(job)

    def _was_preempted(self, job: Job) -> bool:
        """Return whether the present decision has preempted the job."""
        decided = self.actions[self.decision_start :]
        return any(act.kind == ActionKind.PREEMPT and act.job == job.index for act in decided)

    def plan_end(self, job: Job) -> None:
        """Set when the running slice ends: its work is done, or its limit is reached."""
        left_us = max(0.0, job.work_us - job.done_us)
        job.end_us = job.ready_us + math.ceil(left_us / job.rate)
        limit_end_us = job.began_us + job.limit_us
        job.by_limit = job.limit_us > 0 and limit_end_us < job.end_us
        if job.by_limit:
            job.end_us = limit_end_us

    def end(self, job: Job) -> None:
        """End a running job at its planned end."""
        progress, rows = job.progress(self.now_us), job.rows
        self._close_slice(job)
        update_shared_speeds(self, rows[0])
        job.status = Status.TIMEOUT if job.by_limit else Status.DONE
        job.done_us = job.done_us + progress if job.by_limit else job.work_us
        self.ends += 1
        for group in job.peers:
            mean = self.history.get(group)
            self.history[group] = job.done_us if mean is None else (mean + job.done_us) / 2

    def preempt(self, job: Job) -> None:
        """Preempt a running job; the end of its slice went into the checkpoint."""
        progress = job.progress(self.now_us)
        kept = max(0, self.now_us - job.ready_us - job.checkpoint_us) * job.rate
        rows = job.rows
        self._requeue(job, progress, kept)
        update_shared_speeds(self, rows[0])
        job.preemptions += 1
        self.preemptions += 1
        self.actions.append(DecidedAction(self.now_us, ActionKind.PREEMPT, job.index, ()))

    def stop_replica(self, job: Job) -> None:
        """Stop a pending or running replica; none of its work is lost."""
        if job.status == Status.RUNNING:
            progress, rows = job.progress(self.now_us), job.rows
            self._requeue(job, progress, progress)
            update_shared_speeds(self, rows[0])
        job.status = Status.HELD

    def end_replica(self, job: Job) -> None:
        """End a replica with its service."""
        job.status, job.end_us = Status.DONE, self.now_us
        self.ends += 1

    def fail(self, node: Node) -> None:
        """Take a node down, and with it every job that has a row on it."""
        assert not node.down, "outages of one node do not overlap"
        every = self.checkpoint_every_us
        for job in [self.jobs[index] for index in sorted(node.jobs)]:
            ran_us = max(0, self.now_us - job.ready_us)
            kept = (ran_us // every) * every * job.rate if every else 0.0
            self._requeue(job, job.progress(self.now_us), kept)
            job.failures += 1
        self.bring_up_to_date(node)
        self.power_w -= node.power_w
        node.power_w = 0.0
        node.idle_since_us = None
        node.down = True
        self.failures += 1
        self.capacity_grew = True

    def repair(self, node: Node) -> None:
        """Bring a node back, idle."""
        self.bring_up_to_date(node)
        node.power_w = self.pool_of(node).idle_draw_w
        self.power_w += node.power_w
        self._rest(node)
        node.down = False
        self.repairs += 1
        self.capacity_grew = True

    def admit(self, job: Job) -> None:
        """Put the job into the queue, for the first time or again."""
        job.status = Status.PENDING
        job.queued_us = self.now_us
        if self.knobs.order == Order.HISTORY and job.predicted_us == 0:
            means = [self.history[group] for group in job.peers if group in self.history]
            job.predicted_us = max(1.0, means[0]) if means else 3600.0 * 1e6

    def attained_service_us(self, job: Job) -> float:
        """Return the device time received so far, since its promotion if it had one."""
        service_us = job.service_us
        if job.status == Status.RUNNING:
            service_us += (self.now_us - job.since_us) * job.held * job.milli / 1000
        return service_us - job.promoted_us

    def demotions(self, job: Job) -> int:
        """Return the number of the queue it is in with order = attained; 0 is the first."""
        service_us = self.attained_service_us(job)
        if self.attained2_us > 0 and service_us >= self.attained2_us:
            return 2
        return 1 if service_us >= self.attained_us else 0

    def promote_starved(self) -> None:
        """Move jobs that waited too long for what they received back to the first queue."""
        for job in self.with_status(Status.PENDING):
            waited_us = (self.now_us - job.queued_us) * job.devices * job.milli / 1000
            starved = waited_us >= self.knobs.promote * self.attained_service_us(job)
            if starved and self.demotions(job) > 0:
                job.promoted_us = job.service_us

    # Accounts ----------------------------------------------------------------

    def pool_of(self, node: Node) -> Pool:
        for pool in self.pools:
            if pool.first_node <= node.index < pool.first_node + pool.nodes:
                return pool
        raise AssertionError(f"node {node.index} is in no pool")

    def accounts(self, node: Node, now_us: int) -> tuple[float, float, float]:
        """Return the energy (J), time in use and time asleep (us) of a node as of `now_us`."""
        energy_j, asleep_us = node.energy_j, node.asleep_us
        if node.idle_since_us is not None:
            awake = max(0, min(now_us, node.sleeps_us) - node.since_us)
            asleep = max(0, now_us - max(node.since_us, node.sleeps_us))
            energy_j += node.power_w * awake / 1e6
            energy_j += self.pool_of(node).sleep_w * asleep / 1e6
            asleep_us += asleep
        else:
            energy_j += node.power_w * (now_us - node.since_us) / 1e6
        busy_us = node.busy_us + node.used_milli * (now_us - node.since_us) / 1000
        return energy_j, busy_us, asleep_us

    def bills(self, node: Node, now_us: int) -> tuple[float, float]:
        """Return the money and the grams of CO2 of a node as of `now_us`."""
        money = node.money + self._drawn(node, now_us, self.price)
        return money, node.carbon_g + self._drawn(node, now_us, self.carbon)

    def _drawn(self, node: Node, now_us: int, signal: Signal | None) -> float:
        """Return what a node drew since its last update, times a signal."""
        if signal is None:
            return 0.0
        if node.idle_since_us is None:
            return node.power_w * signal.integral(node.since_us, now_us) / W_US_PER_KWH
        asleep_us = max(node.since_us, min(now_us, node.sleeps_us))
        awake = node.power_w * signal.integral(node.since_us, asleep_us)
        asleep = self.pool_of(node).sleep_w * signal.integral(asleep_us, now_us)
        return (awake + asleep) / W_US_PER_KWH

    def added_w(self, job: Job, pool: Pool, devices: int) -> float:
        """Return the watts that `devices` devices of the job add to the draw of `pool`."""
        watts = job.rates[pool.index].watts
        return devices * job.milli / 1000 * (watts * pool.cap_power - pool.idle_w)

    def held_w(self, job: Job, devices: int) -> float:
        """Return the watts that `devices` devices of the running job add to their node."""
        pool = self.pools[job.pool]
        watts = job.rates[pool.index].watts * pool.caps[job.cap][1]
        return devices * job.milli / 1000 * (watts - pool.idle_w) * job.slow

    def charged_w(self, job: Job, pool: Pool, devices: int, level: int) -> float:
        """Return the watts charged to the job in `pool`: its devices and its share of the hosts."""
        share = devices * job.milli / 1000
        watts = job.rates[pool.index].watts
        return share * (watts * pool.caps[level][1]) + pool.host_w * share / pool.capacity

    def slice_rate(self, job: Job) -> float:
        """Return the progress per microsecond of the running slice: devices, cap, neighbours."""
        pool = self.pools[job.pool]
        rate = (job.sizes.rates[job.held] if job.sizes else job.rates)[pool.index]
        fewest = max(1, math.ceil(job.held / pool.capacity))
        alone = (rate.packed if job.nodes == fewest else rate.spread) / pool.caps[job.cap][0]
        return alone * job.slow

    def slice_us(self, job: Job) -> int:
        """Return the time of the running slice since the policy was last asked for targets."""
        return self.now_us - max(job.since_us, self.asked_us)

    def bring_up_to_date(self, node: Node) -> None:
        """Account for what the node drew and did up to now."""
        node.money, node.carbon_g = self.bills(node, self.now_us)
        node.energy_j, node.busy_us, node.asleep_us = self.accounts(node, self.now_us)
        node.since_us = self.now_us

    def asleep(self, node: Node) -> bool:
        return node.idle_since_us is not None and self.now_us >= node.sleeps_us

    def wake_us(self, placement: Placement) -> int:
        """Return how long a start must wait for its nodes to be awake."""
        return max(self._waking_us(self.nodes[row.node]) for row in placement.rows)

    def _waking_us(self, node: Node) -> int:
        """Return how long a start on the node must wait for it to be awake."""
        if self.asleep(node):
            return self.pool_of(node).wake_us
        return max(0, node.awake_us - self.now_us)

    def _rest(self, node: Node) -> None:
        """Mark the node idle from now on."""
        node.idle_since_us = self.now_us
        node.sleeps_us = self.now_us + self.sleep_us

    # Slices and rows ---------------------------------------------------------

    def _requeue(self, job: Job, progress: float, kept: float) -> None:
        self._close_slice(job)
        job.lost_us += progress - kept
        job.done_us += kept
        job.end_us = -1
        self.admit(job)

    def _close_slice(self, job: Job) -> None:
        assert job.status == Status.RUNNING
        self.charge_slice(job)
        for row in job.rows:
            self._give_back(job, row)
        self.tenants.charge(job, -1, self.now_us)
        job.rows = ()
        self.capacity_grew = True

    def charge_slice(self, job: Job) -> None:
        """Charge the slice to the job, or the part of it not yet charged."""
        job.service_us += (self.now_us - job.since_us) * job.held * job.milli / 1000
        job.energy_j += job.watts * (self.now_us - job.since_us) / 1e6
        if self.price is not None:
            used = job.watts * self.price.integral(job.since_us, self.now_us)
            job.money += used / W_US_PER_KWH
        if self.carbon is not None:
            used = job.watts * self.carbon.integral(job.since_us, self.now_us)
            job.carbon_g += used / W_US_PER_KWH
        job.waking_us += max(0, min(self.now_us, job.awake_us) - job.since_us)
        job.shares[job.pool].received_us += self.slice_us(job)

    def _take(self, job: Job, row: DeviceRow) -> None:
        node = self.nodes[row.node]
        assert not node.down
        self.bring_up_to_date(node)
        for device in [] if row.milli == GUEST else masked(node.devices, row.mask):
            device.free_milli -= job.milli
            device.free_mib -= job.memory_mib if job.fractional else device.free_mib
            assert device.free_milli >= 0
            assert device.free_mib >= 0
        cpu_milli, host_mib = job.on_host(row.mask.bit_count())
        node.free_cpu_milli -= cpu_milli
        node.free_host_mib -= host_mib
        assert node.free_cpu_milli >= 0
        assert node.free_host_mib >= 0
        added = self.held_w(job, row.mask.bit_count())
        node.power_w += added
        self.power_w += added
        node.jobs.append(job.index)
        node.idle_since_us = None

    def _give_back(self, job: Job, row: DeviceRow) -> None:
        node, pool = self.nodes[row.node], self.pools[job.pool]
        self.bring_up_to_date(node)
        if row.milli != GUEST and not self._pass_to_guest(job, row):
            for device in masked(node.devices, row.mask):
                give_back(device, job, pool)
        cpu_milli, host_mib = job.on_host(row.mask.bit_count())
        node.free_cpu_milli += cpu_milli
        node.free_host_mib += host_mib
        added = self.held_w(job, row.mask.bit_count())
        node.power_w -= added
        self.power_w -= added
        node.jobs.remove(job.index)
        if not node.jobs:
            node.power_w = pool.idle_draw_w
            self._rest(node)

    def _pass_to_guest(self, job: Job, row: DeviceRow) -> bool:
        """Give the device to the guest of lowest index; return whether there is one."""
        guests = [other for other in sharers(self, row) if other is not job and _is_guest(other)]
        if guests:
            guests[0].rows = (row,)
        return bool(guests)


def _is_guest(job: Job) -> bool:
    return any(row.milli == GUEST for row in job.rows)
