"""Serving in the twin: the incumbent where the policy says so, and where anything is wrong."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from tests.learn.policy.policy_files import always, conv_lstm

from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.signals import DAY_US, Signal
from flyball.core.workload import Workload
from flyball.learn.env.spaces import INCUMBENT, RESIDUALS, SIZE, STRATEGIES, Vector
from flyball.learn.policy.artifact import PolicyFile, read, shipped, write
from flyball.learn.policy.forward import Mask, Net, Output
from flyball.learn.policy.governed import GovernedTwin
from flyball.learn.policy.governor import Governor, choice_of, default_priorities
from flyball.twin.generate import generate
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.twin import Twin

PRICE = Signal.profile([0.05, 0.3] * 12, DAY_US)


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    from dataclasses import replace

    return replace(load_cluster("five-mixed"), price=PRICE, currency="EUR")


@pytest.fixture(scope="module")
def workload(cluster: Cluster) -> Workload:
    return generate("mixed", 2_000, jobs=150, load=0.7, devices=cluster.device_count)


def _file(folder: Path, tensors: dict[str, Vector], kind: str = "mlp") -> PolicyFile:
    path = folder / "policy.safetensors"
    write(path, tensors, {"kind": kind, "epoch_s": 900})
    return read(path)


def _run(
    net: Net, cluster: Cluster, workload: Workload, limit_s: float | None = None, tries: bool = True
) -> GovernedTwin:
    governor = Governor(net, default_priorities(True, False), limit_s, tries)
    twin = GovernedTwin(governor, cluster, workload, INCUMBENT, Effects(elastic=False))
    twin.replay()
    return twin


def _plain(cluster: Cluster, workload: Workload) -> Twin:
    twin = Twin(cluster, workload, INCUMBENT, Effects(elastic=False))
    twin.replay()
    return twin


def test_the_zero_action_is_the_incumbent_to_the_last_bit(
    tmp_path: Path, cluster: Cluster, workload: Workload
) -> None:
    twin = _run(Net(_file(tmp_path, always())), cluster, workload)
    plain = _plain(cluster, workload)
    assert len(twin.choices) > 20 and not any(choice.fallback for choice in twin.choices)
    assert twin.state.runs.tobytes() == plain.state.runs.tobytes()


def test_a_cap_and_sleep_save_energy(tmp_path: Path, cluster: Cluster, workload: Workload) -> None:
    twin = _run(Net(_file(tmp_path, always(cap=-0.4, sleep_s=0.8))), cluster, workload)
    plain = _plain(cluster, workload)
    assert twin.knobs.cap == pytest.approx(0.8, abs=0.03) and twin.knobs.sleep_s > 0
    assert twin.state.nodes.energy_j.sum() < plain.state.nodes.energy_j.sum()


def test_the_policy_that_ships_acts_on_a_cluster_of_five_kinds_of_nodes(
    cluster: Cluster, workload: Workload
) -> None:
    twin = _run(Net(read(shipped())), cluster, workload)
    unseen = [choice for choice in twin.choices if choice.fallback == "unseen"]
    assert len(unseen) < 0.1 * len(twin.choices), unseen[0].detail
    assert any(choice.residuals[1] > 0 for choice in twin.choices)  # idle nodes sleep


def test_a_recurrent_policy_is_the_same_twice(
    tmp_path: Path, cluster: Cluster, workload: Workload
) -> None:
    file = _file(tmp_path, conv_lstm(), "conv-lstm")
    first, second = (_run(Net(file), cluster, workload) for _ in range(2))
    assert first.choices == second.choices
    assert len({choice.residuals for choice in first.choices}) > 3
    assert sum(bool(choice.features) for choice in first.choices) > 3
    assert [choice_of(choice.as_dict()) for choice in first.choices] == first.choices


# Faults -----------------------------------------------------------------------------------


class NotANumber(Net):
    def forward(self, observation: Vector, mask: Mask | None = None) -> Output:
        out = super().forward(observation, mask)
        return out._replace(residuals=out.residuals * np.float32(np.nan))


class TooFar(Net):
    def forward(self, observation: Vector, mask: Mask | None = None) -> Output:
        out = super().forward(observation, mask)
        return out._replace(residuals=np.full(len(RESIDUALS), 1.5, np.float32))


class Broken(Net):
    def forward(self, observation: Vector, mask: Mask | None = None) -> Output:
        raise ZeroDivisionError("no")


class Stalling(Net):
    def forward(self, observation: Vector, mask: Mask | None = None) -> Output:
        time.sleep(0.5)
        return super().forward(observation, mask)


@pytest.mark.parametrize(
    ("kind", "reason"), [(NotANumber, "nan"), (TooFar, "out-of-range"), (Broken, "failed")]
)
def test_a_broken_policy_costs_nothing(
    tmp_path: Path, cluster: Cluster, workload: Workload, kind: type[Net], reason: str
) -> None:
    twin = _run(kind(_file(tmp_path, always(2))), cluster, workload)
    assert {choice.fallback for choice in twin.choices} == {reason}
    assert twin.governor.counts[reason] == len(twin.choices)
    assert twin.state.runs.tobytes() == _plain(cluster, workload).state.runs.tobytes()


def test_a_policy_that_stalls_costs_nothing(
    tmp_path: Path, cluster: Cluster, workload: Workload
) -> None:
    short = workload.take(np.arange(20))
    twin = _run(Stalling(_file(tmp_path, always(2))), cluster, short, limit_s=0.001)
    assert {choice.fallback for choice in twin.choices} == {"late"}
    assert twin.state.runs.tobytes() == _plain(cluster, short).state.runs.tobytes()


def test_the_worst_action_costs_less_than_an_epoch(
    tmp_path: Path, cluster: Cluster, workload: Workload
) -> None:
    worst = always(6, cap=-0.99, ageing=0.99)
    twin = _run(Net(_file(tmp_path, worst)), cluster, workload)
    free = _run(Net(_file(tmp_path, worst)), cluster, workload, tries=False)
    plain = _plain(cluster, workload)

    def presence_s(run: Twin) -> float:
        return float((run.state.runs.end_us - run.state.jobs.submit_us).sum()) / 1e6

    jobs_s = presence_s(plain) / (plain.now_us - int(plain.state.jobs.submit_us[0])) * 1e6
    epoch_s = twin.governor.epoch_us / 1e6
    assert presence_s(free) > presence_s(plain) + jobs_s * epoch_s  # it is harmful
    assert presence_s(twin) <= presence_s(plain) + jobs_s * epoch_s
    assert twin.governor.counts["refused"] + twin.governor.counts["suspended"] > 0


def test_an_observation_outside_the_training_range_falls_back(
    tmp_path: Path, cluster: Cluster, workload: Workload
) -> None:
    tensors = always(1)
    tensors["range.high"] = np.zeros(SIZE, np.float32)
    tensors["range.low"] = np.zeros(SIZE, np.float32)
    twin = _run(Net(_file(tmp_path, tensors)), cluster, workload)
    assert {choice.fallback for choice in twin.choices} == {"unseen"}
    assert "in training 0 to 0" in twin.choices[0].detail


def test_a_strategy_that_changes_nothing_is_not_chosen(tmp_path: Path) -> None:
    fastest = [strategy.name for strategy in STRATEGIES].index("fastest")
    cluster = load_cluster("philly-8x8")
    workload = generate("philly-like", 2_001, jobs=40, load=0.5, devices=64)
    twin = _run(Net(_file(tmp_path, always(fastest))), cluster, workload)
    assert fastest not in {choice.strategy for choice in twin.choices}
