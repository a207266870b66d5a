"""The optimiser: trust in caps computed from measurements, and settings by weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
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
from flyball.tune.defer import Defer
from flyball.tune.elastic import Elastic
from flyball.tune.optimise import GainEvidence, Optimise, Weights, capped
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
    assert ALMOST.trust(GainEvidence(values(), values())) == 1.0


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
    """Where the twin behaves as predicted, the evidence shows it."""
    same(capped(tuned(Power(spare=-1), Workload.of("w", np.zeros(4), 20_000.0, 1))))


def test_caps_that_slow_more_than_predicted_are_seen() -> None:
    state = tuned(Power(spare=-1), Workload.of("w", np.zeros(4), 20_000.0, 1))
    state.runs.rate[:] *= 0.9
    evidence = capped(state)
    assert (evidence.measured < evidence.predicted).all()
    assert ALMOST.trust(evidence) < 1.0


def test_no_evidence_where_nothing_was_changed() -> None:
    state = tuned(Balance(), Workload.of("w", np.zeros(4), 20_000.0, 1))
    assert not len(capped(state).predicted)


# Applying trust -------------------------------------------------------------------------


class Recorder:
    """Records with which settings and state tuners are run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
        self.asked: list[tuple[Any, State]] = []

        def adjust(tuner: Any, state: State, outlook: Outlook, plan: Records) -> Records:
            self.asked.append((tuner, state))
            return plan

        monkeypatch.setattr(kind, "adjust", adjust)


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


def test_other_tuners_are_run_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    state = tuned(Power(spare=-1), Workload.of("w", np.zeros(4), 20_000.0, 1))
    state.runs.rate[:] *= 0.2
    recorder = Recorder(monkeypatch, Balance)
    tuner = Balance()
    assert Optimise((tuner,)).adjust(state, NO_OUTLOOK, NO_PLAN) is NO_PLAN
    assert recorder.asked[0][0] is tuner
    assert recorder.asked[0][1] is state


def test_it_equals_the_tuner_when_all_is_as_predicted() -> None:
    state = tuned(Power(spare=-1), Workload.of("w", np.zeros(4), 20_000.0, 1))
    plain = Power(spare=-1).adjust(state, NO_OUTLOOK, NO_PLAN)
    assert (Optimise((Power(spare=-1),)).adjust(state, NO_OUTLOOK, NO_PLAN) == plain).all()


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


def test_money_and_carbon_count_like_energy_and_follow_the_series() -> None:
    money, carbon, energy = Weights(0, 0, 0, 1), Weights(0, 0, 0, 0, 1), Weights(0, 1, 0)
    for weights in (money, carbon):
        assert weights.elastic(Elastic()) == energy.elastic(Elastic())
        assert weights.power(Power()).slowdown > energy.power(Power()).slowdown
        assert (weights.power(Power()).follow, weights.power(Power()).spare) == (1.0, 0)
        assert weights.defer(Defer()).pause > 0.0
        assert isinstance(weights.tuners()[0], Defer)
    assert energy.power(Power()).follow == 0.0
    assert money.power(Power()).per_kg == 0.0 < carbon.power(Power()).per_kg
    assert Weights(1, 1, 1, 1, 2).per_kg == 2 * Weights(1, 1, 1, 1, 1).per_kg > 0.0
    assert Weights(1, 1, 1, 1).power(Power()).deepest < money.power(Power()).deepest


@pytest.mark.parametrize("bad", [(-1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (float("nan"), 1.0, 1.0)])
def test_weights_must_make_sense(bad: tuple[float, float, float]) -> None:
    with pytest.raises(BadInput, match="weights"):
        Weights(*bad)
