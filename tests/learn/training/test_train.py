"""Training: the same seed and steps give the same curve and weights, also after a stop."""

from pathlib import Path

import numpy as np
import pytest
from tests.learn.small import small_setup

from flyball.core.errors import BadInput, UnknownName
from flyball.learn.policy.artifact import read
from flyball.learn.training.folder import CURVE, KEPT, POLICY, RunFolder, read_curve
from flyball.learn.training.kinds import KINDS, Options, make_trainer, settings_of
from flyball.learn.training.limits import Limits, parse_limits
from flyball.learn.training.train import Budget, Trained, train
from flyball.learn.whole_runs import RunTotals

AGENT = (("environments", 4), ("rollout", 16), ("width", 8), ("memory", 8), ("batch", 32))


def _train(
    folder: Path, kind: str, steps: int, stop_after: int = 0, limits: dict[str, float] | None = None
) -> Trained:
    setup = small_setup(limits=limits)
    agent = AGENT if KINDS[kind].needs_torch else ()
    options = Options(kind, population=4, problems=2, warm=False, agent=agent)
    run = RunFolder(folder, settings_of(setup, options, 2))
    trainer = make_trainer(setup, options)
    budget = Budget(steps=steps)

    def report(step: int, _part: float, _row: object) -> None:
        if step == stop_after:
            run.save(trainer.save())
            raise KeyboardInterrupt

    return train(trainer, setup, run, budget, 2, report, {"kind": kind})


@pytest.mark.parametrize("kind", ["rule", "hybrid"])
def test_the_same_seed_and_steps_give_the_same_curve_and_weights(kind: str, tmp_path: Path) -> None:
    one, other = (_train(tmp_path / name, kind, 3) for name in ("one", "other"))
    assert one.weights and one.weights == other.weights
    curves = [(tmp_path / name / CURVE).read_bytes() for name in ("one", "other")]
    assert curves[0] == curves[1] and curves[0].count(b"\n") == 4


@pytest.mark.parametrize("kind", ["linear", "hybrid", "bandit"])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(kind: str, tmp_path: Path) -> None:
    whole = _train(tmp_path / "whole", kind, 4)
    with pytest.raises(KeyboardInterrupt):
        _train(tmp_path / "stopped", kind, 4, stop_after=2)
    resumed = _train(tmp_path / "stopped", kind, 4)
    assert resumed.weights == whole.weights
    assert resumed.steps == 4
    curves = [(tmp_path / name / CURVE).read_bytes() for name in ("whole", "stopped")]
    assert curves[0] == curves[1]


def test_the_card_says_how_a_policy_was_made(tmp_path: Path) -> None:
    trained = _train(tmp_path / "run", "rule", 2)
    file = read(tmp_path / "run" / POLICY)
    made = file.card["made"]
    assert file.hash == trained.hash and made["steps"] >= 1 and made["seed"] == 1
    assert made["source"]["kind"] == "drawn problems" and made["validation"]["problems"] == 2
    low, high = file.tensors["range.low"], file.tensors["range.high"]
    assert (low <= high).all() and np.isfinite(low).all()


def test_a_bandit_is_kept_but_not_as_a_policy_file(tmp_path: Path) -> None:
    _train(tmp_path / "run", "bandit", 1)
    assert (tmp_path / "run" / KEPT).exists() and not (tmp_path / "run" / POLICY).exists()
    assert "reward" in read_curve(tmp_path / "run")[0]


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    _train(tmp_path / "run", "rule", 1)
    with pytest.raises(BadInput, match=r"other settings .*kind"):
        _train(tmp_path / "run", "linear", 1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(BadInput, match="holds no training run"):
        _train(tmp_path / "other", "rule", 1)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    _train(tmp_path / "run", "rule", 1)
    (tmp_path / "run" / "checkpoint" / "state.json").write_text("{")
    with pytest.raises(BadInput, match="is damaged"):
        _train(tmp_path / "run", "rule", 2)


# Constraints ------------------------------------------------------------------------------


def _run(fairness: float) -> RunTotals:
    return RunTotals(100.0, 1.0, 1.0, 1.0, 0.0, fairness, 100.0, 1.0, (1.0,) * 8)


def test_a_multiplier_rises_while_its_constraint_is_broken_and_falls_when_it_holds() -> None:
    limits = Limits({"fairness": 0.1})
    worse, better = limits.broken(_run(1.5), _run(1.0)), limits.broken(_run(0.9), _run(1.0))
    assert worse[0] > 0 > better[0]
    assert limits.penalty(worse)[0] == 0.0
    limits.update(worse)
    assert limits.multipliers["fairness"] > 0 and limits.penalty(worse)[0] > 0
    for _ in range(20):
        limits.update(better)
    assert limits.multipliers["fairness"] == 0.0


def test_constraints_are_read_from_text() -> None:
    assert parse_limits(["fairness=0.1", "power=0"]).most == {"fairness": 0.1, "power": 0.0}
    with pytest.raises(UnknownName, match="fairness"):
        parse_limits(["fairnes=0.1"])
    with pytest.raises(BadInput, match="is not understood"):
        parse_limits(["fairness=much"])


def test_a_constraint_trains_with_its_multiplier(tmp_path: Path) -> None:
    _train(tmp_path / "run", "linear", 2, limits={"completion": 0.0})
    assert "multiplier_completion" in read_curve(tmp_path / "run")[-1]
