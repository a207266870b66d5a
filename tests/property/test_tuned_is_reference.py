"""What tuners do has the same effect in the compiled twin and in the plain one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_compiled_is_reference import EXAMPLES, QUIET, billed, seen
from tests.twin.strategies import costs, signals, varied_signals

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.effects import Effects
from flyball.core.knobs import Backfill, Knobs, Order, Preempt
from flyball.core.protocols import Outlook
from flyball.core.records import ACTION, CAP_LEVELS, Records, records
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.tune.plan_draft import PlanDraft
from flyball.twin.build import build_state
from flyball.twin.reference.run import Reference
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

MODELS = ("bert:24", "cifar10:256", "imagenet:200")
DEVICES = ("T4", "RTX2080Ti", "A100-40GB")
ANY = int(Reason.MOVED)


@dataclass(frozen=True)
class Whim:
    """Does something that can be done to jobs and nodes drawn from the instant and a seed."""

    seed: int

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        draft = PlanDraft(state, plan)
        rng = np.random.default_rng([self.seed, draft.now_us // 1_000_000])
        for job in rng.permutation(draft.active)[:6].tolist():
            getattr(self, rng.choice(["_resize", "_cap", "_join"]))(draft, job, rng)
        for node in range(len(state.nodes)):
            idle = (
                state.nodes[node].idle_since_us >= 0 and draft.free[node] == state.nodes[node].free
            )
            untouched = idle and not state.nodes[node].down
            if untouched and rng.random() < 0.3:
                (draft.sleep if rng.random() < 0.5 else draft.wake)(node, 0.0)
        for group in range(len(state.groups)):
            if rng.random() < 0.5:
                draft.replicas(group, int(rng.integers(0, 4)) if rng.random() < 0.95 else -1, 0.0)
        return self._release_and_ration(state, draft.plan(), rng)

    @staticmethod
    def _release_and_ration(state: State, plan: Records, rng: np.random.Generator) -> Records:
        """Release some deferred jobs and set the power budget anew."""
        runs: Any = state.runs
        held = (runs.status == Status.HELD) & (runs.waiting_on == 0)
        deferred = np.flatnonzero(held & (runs.defer_us > state.clock[0].now_us))
        released = deferred[rng.random(len(deferred)) < 0.4]
        rations = int(len(deferred) > 0 and rng.random() < 0.3)
        held = np.flatnonzero((runs.deadline_us > 0) & (rng.random(len(runs)) < 0.2))
        before = len(plan)
        defers = _defers(held, int(state.clock[0].now_us) + 95_000_000)
        plan = np.concatenate((plan, defers)).view(np.recarray)
        assert len(plan) == before + len(held)
        out = records(len(plan) + len(released) + rations, ACTION)
        out[: len(plan)] = plan
        added: Any = out[len(plan) : len(plan) + len(released)]
        added.kind, added.job, added.reason = int(ActionKind.RELEASE), released, ANY
        if rations:
            last: Any = out[-1]
            last.kind, last.job, last.node = int(ActionKind.BUDGET), -1, -1
            power_w = float(state.clock[0].power_w) * float(rng.choice([0.9, 1.2, 3.0]))
            last.gain = max(1.0, power_w)
        return out

    def _resize(self, draft: PlanDraft, job: int, rng: np.random.Generator) -> None:
        if draft.count[job]:
            draft.stop(job, ANY, 0.0)
        record = draft.state.jobs[job]
        least = most = int(record.devices)
        if record.curve >= 0:
            held = draft.state.ranges[record.curve]
            least, most = int(held.least), int(held.most)
        count = int(rng.integers(least, most + 1))
        pool = int(rng.integers(len(draft.state.pools)))
        can = draft.state.shapes[record.shape_id].pools >> np.uint64(pool) & np.uint64(1)
        if can and self._runs(draft.state, record, pool, count):
            draft.start(job, pool, count, ANY, 0.0, int(rng.integers(3)))

    @staticmethod
    def _runs(state: State, record: Any, pool: int, count: int) -> bool:
        if record.curve < 0:
            return True
        held = state.ranges[record.curve]
        at = int(held.first) + (count - int(held.least)) * len(state.pools) + pool
        return bool(state.points[at].packed > 0)

    @staticmethod
    def _cap(draft: PlanDraft, job: int, rng: np.random.Generator) -> None:
        if draft.count[job]:
            draft.set_cap(job, int(rng.integers(CAP_LEVELS)), ANY, 0.0)

    @staticmethod
    def _join(draft: PlanDraft, job: int, rng: np.random.Generator) -> None:
        state = draft.state
        if draft.count[job] or state.jobs[job].devices != 1 or not len(state.pairs):
            return
        single = [job for job in draft.active.tolist() if draft.count[job] == 1]
        beside = int(rng.choice(single)) if single else -1
        if beside < 0 or beside == job:
            return
        profiles = len(state.rates) // len(state.pools)
        for other in (beside, *draft.guests(beside)):
            for a, b in ((job, other), (other, job)):
                at = int(draft.pool[beside]) * profiles + int(state.jobs[a].profile)
                if state.pairs[at * profiles + int(state.jobs[b].profile)] <= 0:
                    return
        draft.join(job, beside, ANY, 0.0)


def _defers(jobs: Any, until_us: int) -> Records:
    """Hold these jobs back, whether they are pending or not."""
    out: Any = records(len(jobs), ACTION)
    out.kind, out.job, out.node, out.gain = int(ActionKind.DEFER), jobs, -1, until_us
    rows: Records = out
    return rows


@dataclass(frozen=True)
class Tuned:
    cluster: Cluster
    workload: Workload
    knobs: Knobs
    effects: Effects
    seed: int
    between: bool


@st.composite
def tuned(draw: st.DrawFn) -> Tuned:
    groups = tuple(
        NodeGroup(name, draw(st.integers(1, 3)), device, draw(st.sampled_from((4, 2, 8))))
        for name, device in zip("abc", draw(st.permutations(DEVICES)), strict=True)
    )[: draw(st.integers(1, 3))]
    size = draw(st.integers(2, 14))
    most = max(group.devices * group.count for group in groups)
    devices = np.array([draw(st.sampled_from((1, 1, 2, 4))) for _ in range(size)])
    devices = np.minimum(devices, most)
    elastic = np.array([draw(st.booleans()) for _ in range(size)])
    workload = Workload.of(
        "drawn",
        [draw(st.sampled_from((0, 10, 30, 60, 90, 100))) for _ in range(size)],
        [draw(st.sampled_from((50, 100, 300, 600.5))) for _ in range(size)],
        devices,
        model=np.array([draw(st.integers(0, 2)) for _ in range(size)]),
        models=MODELS,
        device=0,
        device_names=("T4",),
        least=np.where(elastic, 1, 0),
        most=np.where(elastic, np.maximum(devices, draw(st.integers(1, 8))), 0),
        group=np.array([draw(st.sampled_from((-1, -1, 0))) for _ in range(size)]),
        group_limits=(draw(st.integers(1, 2)),),
        limit_us=np.array([draw(st.sampled_from((0, 0, 200_000_000))) for _ in range(size)]),
    )
    knobs = Knobs(
        order=draw(st.sampled_from((Order.SUBMIT, Order.SHORTEST, Order.REMAINING))),
        backfill=draw(st.sampled_from(tuple(Backfill))),
        cap=draw(st.sampled_from((1.0, 0.9))),
        sleep_s=draw(st.sampled_from((-1.0, 0.0, 45.0))),
    )
    sharing = draw(st.booleans())
    if not sharing and draw(st.booleans()):
        knobs = replace(knobs, backfill=Backfill.SKIP, preempt=Preempt.ROUNDS)
    effects = Effects(
        checkpoint_s=draw(st.sampled_from((0.0, 5.0))),
        checkpoint_every_s=draw(st.sampled_from((0.0, 20.0))),
        mtbf_h=draw(st.sampled_from((0.0, 0.05))),
        repair_h=0.01,
        adaptive_batch=draw(st.booleans()),
        share_limit=3 if sharing else 1,
        slack_s=draw(st.sampled_from((0.0, 0.0, 45.0, 70.5, 600.0))),
        seed=draw(st.integers(0, 3)),
        costs=draw(st.none() | costs()),
    )
    cluster = groups_cluster(groups)
    if draw(st.booleans()):
        cluster = replace(cluster, price=draw(varied_signals()), carbon=draw(signals()))
    return Tuned(
        cluster,
        workload,
        knobs,
        effects,
        draw(st.integers(0, 9)),
        draw(st.booleans()),
    )


def groups_cluster(groups: tuple[NodeGroup, ...]) -> Cluster:
    return Cluster("drawn", groups)


UNTIL_US = 40 * 60 * 1_000_000


def run_both(problem: Tuned) -> tuple[Twin, Reference]:
    """Both twins after the same plans; whims go on for a while, then the policy is alone."""
    plans: dict[int, list[Records]] = {}
    policy = Preset("drawn", "", problem.knobs)
    tuning = Tuning(
        (Whim(problem.seed),),
        policy,
        30.0,
        problem.between,
        note=lambda now, plan: plans.setdefault(now, []).append(plan.copy()),
    )
    parts = (problem.cluster, problem.workload, problem.knobs, problem.effects)
    twin = Twin(*parts, tuning=tuning)
    twin.run(UNTIL_US)
    plain = Reference(build_state(*parts), problem.knobs, plans=plans, between=problem.between)
    plain.run(UNTIL_US)
    return twin, plain


@given(tuned())
@settings(max_examples=EXAMPLES, **QUIET)
def test_effects_of_tuning_are_the_same(problem: Tuned) -> None:
    twin, plain = run_both(problem)
    state = twin.state
    assert seen(state.runs, state.nodes, state.clock[0]) == seen(plain.jobs, plain.nodes, plain)
    ours_billed, theirs_billed = billed(twin, plain)
    assert ours_billed == theirs_billed
    for job, run in zip(plain.jobs, state.runs, strict=True):
        if job.attempt:
            assert (job.rate, job.slow) == (run.rate, run.slow)
            assert (job.held, job.cap) == (run.devices, run.cap)


def test_whims_do_everything() -> None:
    """What is drawn above does each kind of action."""
    cluster = Cluster("c", (NodeGroup("a", 3, "T4", 4), NodeGroup("b", 1, "A100-40GB", 8)))
    size = 12
    workload = Workload.of(
        "w", np.arange(size) * 20.0, 600.0, 1, model=np.arange(size) % 3, models=MODELS,
        device=0, device_names=("T4",), least=1, most=4,
        group=np.where(np.arange(size) < 3, 0, -1), group_limits=(1,),
    )  # fmt: skip
    problem = Tuned(cluster, workload, Knobs(), Effects(share_limit=2, slack_s=300.0), 1, True)
    plans: list[Records] = []
    tuning = Tuning(
        (Whim(1),),
        Preset("p", "", problem.knobs),
        30.0,
        True,
        note=lambda _, plan: plans.append(plan.copy()),
    )
    twin = Twin(cluster, workload, problem.knobs, problem.effects, tuning=tuning)
    twin.run(UNTIL_US)
    kinds = {int(kind) for plan in plans for kind in plan.kind}
    assert kinds == {0, 1, 3, 4, 5, 6, 7, 8, 9}
    assert any((plan.milli == 0).any() and (plan.kind == 0).any() for plan in plans)
    assert (twin.state.runs.status >= Status.DONE).sum() > 0


@pytest.mark.soak
@given(tuned())
@settings(max_examples=3000, **QUIET)
def test_effects_of_tuning_are_the_same_for_long(problem: Tuned) -> None:
    twin, plain = run_both(problem)
    state = twin.state
    assert seen(state.runs, state.nodes, state.clock[0]) == seen(plain.jobs, plain.nodes, plain)
