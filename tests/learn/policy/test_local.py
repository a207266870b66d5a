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
from flyball.learn.policy.local import objective, refine, running_jobs, worth_of_time
from flyball.twin.generate import generate
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.twin import Twin


def _twin() -> Twin:
    cluster = load_cluster("five-mixed")
    workload = generate("mixed", 2_003, jobs=60, load=0.5, devices=cluster.device_count)
    twin = Twin(cluster, workload, Knobs(), Effects(elastic=False))
    twin.run(int(workload.submit_us[30]))
    return twin


@pytest.mark.parametrize("chosen", [2, 5, 8])
def test_it_comes_close_to_the_best_of_all_levels(chosen: int) -> None:
    twin = _twin()
    jobs = running_jobs(twin.state, twin.now_us)
    few = jobs._replace(**{name: getattr(jobs, name)[:3] for name in jobs._fields})
    assert len(few.ids) == 3
    levels, worth = refine(few, chosen), worth_of_time(few, chosen)
    best = min(
        objective(few, np.array(some), worth) for some in itertools.product(range(11), repeat=3)
    )
    alike = objective(few, np.full(3, chosen), worth)
    reached = objective(few, levels, worth)
    assert best < reached < alike or reached == best
    assert reached - best <= 0.1 * (alike - best) + 1e-3


def test_it_keeps_to_what_the_policy_chose() -> None:
    twin = _twin()
    jobs = running_jobs(twin.state, twin.now_us)
    weak, strong = (refine(jobs, level).sum() for level in (2, 7))
    assert weak < strong
    assert not refine(jobs, 0).any()
    worth = worth_of_time(jobs, 5)
    alike = [objective(jobs, np.full(len(jobs.ids), level), worth) for level in range(11)]
    assert abs(int(np.argmin(alike)) - 5) <= 1


def test_it_saves_energy_in_a_replay_and_can_be_switched_off(tmp_path: Path) -> None:
    from dataclasses import replace

    file = _file(tmp_path, always(cap=-0.5))
    cluster = replace(load_cluster("five-mixed"), price=PRICE, currency="EUR")
    workload = generate("mixed", 2_004, jobs=80, load=0.5, devices=cluster.device_count)
    energy = []
    for local in ("on", "off"):
        (setting,) = policy_settings(f"learned:{file.path}", [f"local={local}"])
        assert isinstance(setting, PolicySetting) and setting.local == (local == "on")
        twin = build_twin(cluster, workload, setting, Effects(elastic=False))
        twin.replay()
        energy.append(float(twin.state.nodes.money.sum()))
    assert energy[0] != energy[1]
    with pytest.raises(BadInput, match="sets the knobs itself"):
        policy_settings(f"learned:{file.path}", ["round_s=60"])
