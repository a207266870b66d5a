"""The optimiser: trust computed from measurements, and tuners run according to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Reason
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.knobs import Knobs
from flyball.core.protocols import Outlook, Tuner
from flyball.core.records import ACTION, Records, records
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.schedule.policies.preset import Preset
from flyball.schedule.policies.registry import get_policy
from flyball.tune.balance import Balance
from flyball.tune.elastic import Elastic
from flyball.tune.optimise import (
    NOTHING,
    GainEvidence,
    Optimise,
    Weights,
    capped,
    moved,
    resized,
    shared,
)
from flyball.tune.power import Power
from flyball.tune.share import Share
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

NO_PLAN = records(0, ACTION)
V100S = Cluster("v", (NodeGroup("n", 2, "V100", 4),))
ALMOST = Optimise((), doubt=0.0)


def tuned(
    tuner: Tuner,
    workload: Workload,
    effects: Effects | None = None,
    cluster: Cluster = V100S,
    knobs: Knobs | None = None,
) -> State:
    """Return the state that tuners see after 25 minutes of one of them."""
    knobs = knobs or get_policy("easy").knobs
    tuning = Tuning((tuner,), Preset("p", "", knobs))
    twin = Twin(cluster, workload, knobs, effects, tuning=tuning)
    twin.run(1_500_000_000)
    return twin.snapshot()


def elastic_state(error: float = 0.0) -> State:
    workload = Workload.of(
        "w", np.zeros(4), 20_000.0, 1, model=[0, 0, 1, 1], models=("cifar10:2048", "bert:384"),
        device=0, device_names=("T4",), least=1, most=-1,
    )  # fmt: skip
    cluster = Cluster("t", (NodeGroup("n", 4, "T4", 4),))
    return tuned(Elastic(), workload, Effects(speed_error=error, seed=1), cluster)


def pairs_state() -> State:
    names = ("A3C", "ResNet-18 (batch size 16)")
    workload = Workload.of("w", np.zeros(16), 20_000.0, 1, model=np.arange(16) % 2, models=names)
    return tuned(Share(), workload, Effects(share_limit=2))


def same(evidence: GainEvidence) -> None:
    """Check that something was measured, and equals what was predicted."""
    assert len(evidence.predicted)
    assert evidence.measured == pytest.approx(evidence.predicted, rel=1e-9, abs=1e-9)
    assert ALMOST.trust(evidence) == pytest.approx(1.0)


# Trust ----------------------------------------------------------------------------------


def values(*numbers: float) -> Floats:
    return np.array(numbers)


def test_trust_is_the_measured_part_of_the_gain() -> None:
    assert ALMOST.trust(GainEvidence(values(0.4, 0.4), values(0.2, 0.2))) == pytest.approx(0.5)
    assert ALMOST.trust(GainEvidence(values(0.4), values(-0.4))) == 0.0
    assert ALMOST.trust(GainEvidence(values(0.4), values(0.9))) == 1.0
    assert ALMOST.trust(NOTHING) == 1.0


def test_a_larger_loss_than_predicted_costs_trust_too() -> None:
    assert ALMOST.trust(GainEvidence(values(-0.2), values(-0.3))) == pytest.approx(0.5)


def test_few_measurements_are_doubted() -> None:
    rule = Optimise((), doubt=4.0)
    one = GainEvidence(values(0.4), values(0.0))
    many = GainEvidence(np.full(16, 0.4), np.zeros(16))
    assert rule.trust(one) == pytest.approx(1.0 - 1.0 / 5.0)
    assert rule.trust(many) == pytest.approx(1.0 - 1.0 / 1.25)


# Evidence -------------------------------------------------------------------------------


def test_exact_predictions_are_trusted() -> None:
    """Where the twin behaves as predicted, every kind of evidence shows it."""
    same(resized(elastic_state()))
    same(shared(pairs_state()))
    workload = Workload.of("w", np.zeros(4), 20_000.0, 1)
    same(capped(tuned(Power(spare=-1), workload)))
    spread = get_policy("easy").knobs.with_settings(["place=spread"])
    gangs = Workload.of("w", [0, 1, 2], 20_000.0, [2, 2, 4])
    same(moved(tuned(Balance(), gangs, knobs=spread)))


def test_wrong_speeds_are_seen() -> None:
    state = elastic_state()
    evidence = resized(state)
    state.learned[:] = 0.5
    wrong = resized(state)
    assert wrong.measured == pytest.approx(0.5 * (1.0 + evidence.predicted) - 1.0)
    assert ALMOST.trust(wrong) < 0.6


def test_errors_of_guessed_speeds_are_seen() -> None:
    evidence = resized(elastic_state(error=0.5))
    assert len(evidence.predicted)
    assert not np.allclose(evidence.predicted, evidence.measured)


def test_slow_pairs_are_seen() -> None:
    state = pairs_state()
    state.runs.slow[:] = 0.6
    evidence = shared(state)
    assert evidence.measured == pytest.approx(np.full(len(evidence.predicted), 0.1))
    assert ALMOST.trust(evidence) < 0.5


def test_no_evidence_where_nothing_was_changed() -> None:
    workload = Workload.of("w", np.zeros(4), 20_000.0, 1)
    state = tuned(Balance(), workload)
    for kind in (resized, shared, capped, moved):
        assert not len(kind(state).predicted)


# Applying trust -------------------------------------------------------------------------


class Recorder:
    """Records with which settings and state tuners are run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
        self.asked: list[tuple[Any, State]] = []

        def adjust(tuner: Any, state: State, outlook: Outlook, plan: Records) -> Records:
            self.asked.append((tuner, state))
            return plan

        monkeypatch.setattr(kind, "adjust", adjust)


def test_elastic_needs_a_larger_margin_when_it_disappoints(monkeypatch: pytest.MonkeyPatch) -> None:
    state = elastic_state()
    recorder = Recorder(monkeypatch, Elastic)
    rule = Optimise((Elastic(margin=1.5),), least=0.25, doubt=0.0)
    assert rule.adjust(state, NO_OUTLOOK, NO_PLAN) is NO_PLAN
    state.learned[:] = 0.8
    rule.adjust(state, NO_OUTLOOK, NO_PLAN)
    state.learned[:] = 0.01
    rule.adjust(state, NO_OUTLOOK, NO_PLAN)
    trust = rule.trust(resized(state._replace(learned=np.full_like(state.learned, 0.8))))
    assert [tuner.margin for tuner, _ in recorder.asked] == pytest.approx([1.5, 1.5 / trust])
    assert 0.25 < trust < 1.0


def test_pairs_promise_less_when_they_disappoint(monkeypatch: pytest.MonkeyPatch) -> None:
    state = pairs_state()
    before = state.pair_guesses.copy()
    state.runs.slow[:] = 0.7
    recorder = Recorder(monkeypatch, Share)
    rule = Optimise((Share(),), doubt=0.0)
    rule.adjust(state, NO_OUTLOOK, NO_PLAN)
    trust = rule.trust(shared(state))
    seen = recorder.asked[0][1].pair_guesses
    assert 0.25 < trust < 1.0
    assert seen[before > 0.5] == pytest.approx(0.5 + trust * (before[before > 0.5] - 0.5))
    assert (state.pair_guesses == before).all()


def test_caps_slow_less_when_they_disappoint(monkeypatch: pytest.MonkeyPatch) -> None:
    state = tuned(Power(spare=-1), Workload.of("w", np.zeros(4), 20_000.0, 1))
    state.runs.rate[:] *= 0.97
    recorder = Recorder(monkeypatch, Power)
    rule = Optimise((Power(),), doubt=0.0)
    rule.adjust(state, NO_OUTLOOK, NO_PLAN)
    state.runs.rate[:] *= 0.2
    rule.adjust(state, NO_OUTLOOK, NO_PLAN)
    first, second = (tuner.slowdown for tuner, _ in recorder.asked)
    assert 0.0 < first < Power().slowdown
    assert second == 0.0  # still run: the budget must be kept


def test_tuners_without_a_rule_are_run_unchanged() -> None:
    class Other:
        def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
            out = records(1, ACTION)
            out.reason = Reason.SCALED
            return out

    state = tuned(Balance(), Workload.of("w", np.zeros(2), 20_000.0, 1))
    assert Optimise((Other(),)).adjust(state, NO_OUTLOOK, NO_PLAN).reason[0] == Reason.SCALED


def test_it_equals_the_tuner_when_all_is_as_predicted() -> None:
    state = elastic_state()
    plain = Elastic().adjust(state, NO_OUTLOOK, NO_PLAN)
    assert (Optimise((Elastic(),)).adjust(state, NO_OUTLOOK, NO_PLAN) == plain).all()


# Weights --------------------------------------------------------------------------------


def test_equal_weights_are_the_defaults() -> None:
    assert Weights(2.0, 2.0, 2.0).tuners() == (Elastic(), Share(), Balance(), Power())


def test_weights_pull_settings_their_way() -> None:
    energy, work, completion = Weights(0, 1, 0), Weights(1, 0, 0), Weights(0, 0, 1)
    assert energy.elastic(Elastic()).eta > Elastic().eta > work.elastic(Elastic()).eta
    assert energy.elastic(Elastic()).energy > Elastic().energy
    assert energy.power(Power()).slowdown > Power().slowdown
    assert completion.power(Power()).slowdown == 0.0
    assert completion.power(Power()).spare > Power().spare > energy.power(Power()).spare
    assert work.share(Share()).limit > Share().limit > completion.share(Share()).limit
    assert completion.balance(Balance()).per_hour > Balance().per_hour
    assert completion.elastic(Elastic()).completion == 1.0
    assert work.elastic(Elastic()).completion == 0.0
    assert completion.elastic(Elastic()).stretch > 0.0, "waits are bounded by the share of a job"
    assert Weights().power(Power(spare=-1)).spare == -1
    assert replace(Weights(), energy=0.0).parts == (0.5, 0.0, 0.5)


@pytest.mark.parametrize("bad", [(-1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (float("nan"), 1.0, 1.0)])
def test_weights_must_make_sense(bad: tuple[float, float, float]) -> None:
    with pytest.raises(BadInput, match="weights"):
        Weights(*bad)
