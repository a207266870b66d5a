"""The local phase finds the best caps that levels allow, and can be switched off."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.learn.policy.policy_files import always
from tests.learn.policy.test_governed import PRICE, _file

from flyball.app import PolicySetting, build_twin, policy_settings
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs
from flyball.learn.env.spaces import INCUMBENT
from flyball.learn.policy.governor import default_priorities
from flyball.learn.policy.local import objective, refine, running_jobs
from flyball.twin.generate import generate
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.twin import Twin

PRIORITIES = default_priorities(True, False)


def _twin() -> Twin:
    cluster = load_cluster("five-mixed")
    workload = generate("mixed", 2_003, jobs=60, load=0.5, devices=cluster.device_count)
    twin = Twin(cluster, workload, Knobs(), Effects(elastic=False))
    twin.run(int(workload.submit_us[30]))
    return twin


@pytest.mark.parametrize("dear", [0.3, 1.0, 3.0])
def test_it_comes_close_to_the_best_of_all_levels(dear: float) -> None:
    twin = _twin()
    jobs = running_jobs(twin.state, twin.now_us)
    few = jobs._replace(**{name: getattr(jobs, name)[:3] for name in jobs._fields})
    assert len(few.ids) == 3
    levels = refine(few, 0, PRIORITIES, dear)
    best = min(
        objective(few, np.array(some), 1.0, dear) for some in itertools.product(range(11), repeat=3)
    )
    none = objective(few, np.zeros(3, np.int64), 1.0, dear)
    reached = objective(few, levels, 1.0, dear)
    assert reached <= none
    assert reached - best <= 0.1 * (none - best) + 1e-3


def test_dear_energy_means_stronger_caps_and_the_floor_holds() -> None:
    twin = _twin()
    jobs = running_jobs(twin.state, twin.now_us)
    cheap, dear = (refine(jobs, 0, PRIORITIES, cost).sum() for cost in (0.1, 5.0))
    assert cheap < dear
    assert refine(jobs, 4, PRIORITIES, 1.0).min() >= 4
    assert not refine(jobs, 0, default_priorities(False, False) * 0.0, 1.0).any()


def test_it_saves_energy_in_a_replay_and_can_be_switched_off(tmp_path: Path) -> None:
    from dataclasses import replace

    file = _file(tmp_path, always())
    cluster = replace(load_cluster("five-mixed"), price=PRICE, currency="EUR")
    workload = generate("mixed", 2_004, jobs=80, load=0.5, devices=cluster.device_count)
    energy = []
    for local in ("on", "off"):
        (setting,) = policy_settings(f"learned:{file.path}", [f"local={local}"])
        assert isinstance(setting, PolicySetting) and setting.local == (local == "on")
        twin = build_twin(cluster, workload, setting, Effects(elastic=False))
        twin.replay()
        energy.append(float(twin.state.nodes.money.sum()))
    plain = Twin(cluster, workload, INCUMBENT, Effects(elastic=False))
    plain.replay()
    assert energy[1] == float(plain.state.nodes.money.sum())
    assert energy[0] != energy[1]
    with pytest.raises(BadInput, match="sets the knobs itself"):
        policy_settings(f"learned:{file.path}", ["round_s=60"])
