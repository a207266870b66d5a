"""What every registered tuner owes: pure, repeatable plans that can be carried out, with reasons.

To register a tuner is to earn these tests; they run over the registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import numpy as np
import pytest

from flyball.app import PolicySetting, Twin, build_twin, tuned, tuning_setting
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, UnknownName
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.knobs import Knobs
from flyball.core.protocols import Forecast, Outlook, Tuner
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State, clone
from flyball.core.workload import Workload
from flyball.experiments.adjustments import Watch
from flyball.physics.serving import Target
from flyball.schedule.explain import reason_text
from flyball.schedule.policies.registry import get_policy
from flyball.tune import registry
from flyball.tune.replicas import Replicas, Settings, fresh

MIXED = Cluster(
    "mixed",
    (
        NodeGroup("t", 3, "T4", 4),
        NodeGroup("v", 2, "V100", 4),
        NodeGroup("a", 1, "A100-40GB", 4),
    ),
    power_budget_w=9_000.0,
)
EFFECTS = Effects(checkpoint_s=5.0, share_limit=2, speed_error=0.25, seed=3)
MODELS = ("bert (batch size 384)", "cifar10 (batch size 2048)", "ResNet-18 (batch size 64)")
FORECAST = Forecast((0.5, 0.9), np.array([[4.0] * 10, [12.0] * 10]), np.full(10, 5.0), 60.0)
OUTLOOK = Outlook(load=FORECAST, requests={0: FORECAST})
EVERY_TUNER = pytest.mark.parametrize("name", registry.names())


def workload(jobs: int = 40, seed: int = 5) -> Workload:
    """Elastic jobs and rigid ones, gangs and single devices; more than fit at a time."""
    rng = np.random.default_rng(seed)
    devices = rng.choice((1, 1, 1, 2, 4), jobs)
    return Workload.of(
        "mixed",
        np.sort(rng.integers(0, 1_500, jobs)),
        np.ceil(rng.lognormal(6.0, 1.0, jobs)),
        devices,
        model=rng.integers(0, len(MODELS), jobs),
        models=MODELS,
        most=np.where(rng.random(jobs) < 0.6, -1, 0),
        group=np.where(np.arange(jobs) < 4, 0, -1),
        group_limits=(2,),
    )


def make(name: str) -> Tuner:
    """The tuner as it comes; that of a service with a service to scale."""
    if name != "replicas":
        return registry.make(name, {})
    carried = np.arange(0.0, 16.0, 2.0, dtype=np.float64)
    settings = Settings(Target(15.0, 0.99))
    return Replicas(0, 1, 180.0, carried, fresh(1, settings), settings)


def twin_of(jobs: Workload, cluster: Cluster = MIXED, effects: Effects = EFFECTS) -> Twin:
    return build_twin(cluster, jobs, PolicySetting("easy", get_policy("easy").knobs), effects)


@dataclass
class Asked:
    """Decides as a policy and then as a tuner; keeps what it was asked and what it said."""

    tuner: Tuner
    knobs: Knobs = field(default_factory=lambda: get_policy("easy").knobs)
    kept: list[tuple[State, Records, Records]] = field(default_factory=list)

    def decide(self, state: State, outlook: Outlook) -> Records:
        before = get_policy("easy").decide(state)
        plan = self.tuner.adjust(state, OUTLOOK, before.copy())
        self.kept.append((state, before, plan))
        kept: Records = plan[plan["kind"] != ActionKind.RESERVE]
        return kept


def stepped(name: str, jobs: Workload, most: int = 60) -> Iterator[tuple[State, Records, Records]]:
    """What the tuner was asked and said, at every event; each plan has been carried out."""
    twin, asked = twin_of(jobs), Asked(make(name))
    for _ in range(most):
        if twin.step(asked) is None:
            return
        yield asked.kept.pop()


# Every tuner -------------------------------------------------------------------------


@EVERY_TUNER
def test_has_a_meaning_and_settings(name: str) -> None:
    assert registry.summary(name)
    assert registry.summary(name) == registry.summary(name).strip().rstrip(".")
    tuner: Any = registry.get_tuner(name)
    assert registry.location(name).endswith(f":{tuner.__name__}")
    assert is_dataclass(tuner)
    for key, value in registry.settings(name).items():
        assert registry.parse(name, key, str(value)) == value


@EVERY_TUNER
@pytest.mark.nojit
def test_plans_are_carried_out_and_every_action_has_its_reason(name: str) -> None:
    seen = 0
    for _, _, plan in stepped(name, workload()):
        seen += 1
        for row in plan:
            assert Reason(int(row.reason)) is not None
            assert np.isfinite(row.gain)
            if row.kind != ActionKind.RESERVE:
                sentence = reason_text(row, None, 0)
                assert sentence.endswith(".")
                assert json.loads(json.dumps(sentence)) == sentence
    assert seen == 60


@EVERY_TUNER
def test_adjusting_is_pure_and_the_same_again(name: str) -> None:
    again, fresh_one = make(name), make(name)
    for state, before, plan in stepped(name, workload(25, seed=8), 40):
        arrays = {key: getattr(state, key).tobytes() for key in State._fields}
        copy = before.copy()
        first = again.adjust(state, OUTLOOK, copy)
        assert np.array_equal(copy, before)
        # No state is kept: a tuner asked for the first time says the same, in whatever order.
        other = fresh_one.adjust(clone(state), OUTLOOK, before.copy())
        for adjusted in (first, other):
            assert adjusted.dtype == ACTION
            assert np.array_equal(adjusted, plan)
        for key, content in arrays.items():
            assert getattr(state, key).tobytes() == content, key


@EVERY_TUNER
def test_keeps_no_state(name: str) -> None:
    tuner = make(name)
    before = repr(tuner)
    twin, asked = twin_of(workload(20)), Asked(tuner)
    for _ in range(20):
        twin.step(asked)
    assert repr(tuner) == before


@EVERY_TUNER
@pytest.mark.nojit
def test_an_empty_cluster_needs_no_forecast_and_no_jobs(name: str) -> None:
    twin = twin_of(workload(4))
    empty = twin.snapshot()  # nothing was submitted yet
    assert (empty.runs.status == Status.FUTURE).all()
    plan = make(name).adjust(empty, NO_OUTLOOK, records(0, ACTION))
    assert set(plan["kind"].tolist()) <= {
        int(kind) for kind in (ActionKind.SLEEP, ActionKind.WAKE, ActionKind.REPLICAS)
    }


@EVERY_TUNER
@pytest.mark.nojit
def test_a_single_job_runs_to_its_end(name: str) -> None:
    one = Workload.of(
        "one", [0.0], [600.0], [2], model=0, models=MODELS, most=-1, group=0, group_limits=(1,)
    )
    twin, asked = twin_of(one), Asked(make(name))
    while twin.step(asked) is not None:
        pass
    assert twin.finished
    assert twin.state.runs[0].status == Status.DONE
    assert twin.state.runs[0].preemptions <= 1


@pytest.mark.parametrize("name", [*registry.usable(), "all"])
def test_a_tuned_replay_ends_and_says_what_was_done(name: str) -> None:
    chosen = PolicySetting("easy", get_policy("easy").knobs)
    policy = tuned(chosen, tuning_setting(name, []))
    jobs = workload()
    twin = build_twin(MIXED, jobs, policy, EFFECTS)
    watch = Watch(MIXED, jobs)
    assert twin.tuning is not None
    twin.tuning = watch.over(twin.tuning)
    twin.replay()
    assert twin.finished
    rows = [round_.as_dict() for round_ in watch.adjustments]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert rows == sorted(rows, key=lambda row: row["time_s"])
    for row in rows:
        # A job that comes to share may go to another device of the same node.
        assert row["from"] != row["to"] or row["action"] == "share", row
    if name in ("elastic", "power", "all"):
        assert rows


# The shelf ---------------------------------------------------------------------------


def test_unknown_tuner_says_what_was_perhaps_meant() -> None:
    with pytest.raises(UnknownName, match="did you mean 'elastic'"):
        registry.get_tuner("elastics")
    with pytest.raises(UnknownName, match="known: balance, defer, elastic"):
        tuning_setting("xyz", [])


def test_tuners_act_in_the_order_of_the_shelf() -> None:
    assert tuning_setting("power, elastic,power", []).names == ["elastic", "power"]
    assert tuning_setting("all", []).names == ["elastic", "share", "balance", "power"]


def test_a_tuner_of_a_service_is_refused_where_there_is_none() -> None:
    assert "replicas" not in registry.usable()
    with pytest.raises(BadInput, match=r"tuner replicas needs a value for .*; use elastic, share"):
        tuning_setting("replicas", [])


def test_settings_by_name() -> None:
    setting = tuning_setting("elastic,power,share", ["elastic.eta=0.7", "share.gather=no"], 120.0)
    changed = {tuner.name: dict(tuner.changed) for tuner in setting.tuners}
    assert changed == {
        "elastic": {"eta": 0.7},
        "share": {"gather": False, "round_s": 120.0},
        "power": {"round_s": 120.0},
    }
    assert setting.without("share").names == ["elastic", "power"]


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("eta=0.7", "write e.g. elastic.eta=0.7"),
        ("elastic.eta", "write e.g. elastic.eta=0.7"),
        ("elastic.etta=0.7", "did you mean 'eta'"),
        ("elastic.eta=fast", "give a number"),
        ("power.slowdown=0.1", "power is not among the tuners; tuners: elastic"),
    ],
)
def test_a_wrong_setting_is_refused(setting: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        tuning_setting("elastic", [setting])


def test_tuners_of_outside_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_outside", lambda: {"mine": "tests.contract.test_tuners:Mine"})
    assert registry.names()[-1] == "mine"
    assert registry.summary("mine") == "Does nothing, at length"
    assert registry.resizes("mine")
    assert not registry.resizes("power")
    assert isinstance(registry.make("mine", {"much": 2}), Mine)


@dataclass(frozen=True)
class Mine:
    """Does nothing, at length."""

    much: int = 1

    def adjust(self, state: Any, outlook: Any, plan: Records) -> Records:
        return plan


@pytest.mark.parametrize(
    ("policy", "tuners", "why"),
    [
        ("fair", "elastic", "policy fair cannot be tuned"),
        ("max-min", "power", "policy max-min cannot be tuned"),
        ("srtf", "elastic,share", "cannot be tuned by share, as it preempts in rounds"),
    ],
)
def test_policies_that_cannot_be_tuned(policy: str, tuners: str, why: str) -> None:
    preset = get_policy(policy)
    with pytest.raises(BadInput, match=why):
        tuned(PolicySetting(policy, preset.knobs, preset.allocator), tuning_setting(tuners, []))
