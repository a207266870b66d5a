"""The search for hyper-parameters: equal budgets, resumable, its figure."""

from pathlib import Path

import pytest

from flyball.experiments.learning import hyper
from flyball.experiments.learning.hyper import Searched, SearchPlan, best_settings, plot, summary
from flyball.experiments.run_file import RunFile
from flyball.learn.agent import Settings
from flyball.learn.search.space import searched_fields


class Bowl(SearchPlan):
    """A plan whose trials take no training: least where every setting is in its middle."""

    def run(self, seed: int, point: object) -> float:
        values = [float(x) for x in point]  # type: ignore[attr-defined]
        return sum((x - 0.5) ** 2 for x in values) - 0.01 * seed


def test_a_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    plan, done = Bowl(trials=8, seeds=2), list[str]()
    with RunFile(tmp_path / "trials.jsonl") as runs:
        whole = hyper.search(plan, runs, done.append, 1)
    assert len(done) == 8 * 2 * 3
    kept = (tmp_path / "trials.jsonl").read_text().splitlines()
    (tmp_path / "trials.jsonl").write_text("\n".join(kept[: len(kept) // 2]) + "\n")
    with RunFile(tmp_path / "trials.jsonl") as runs:
        assert hyper.search(plan, runs, done.append, 1) == whole
    assert all(len(one.scores) == 8 for one in whole)
    plot(whole, tmp_path / "search.png")
    assert (tmp_path / "search.png").stat().st_size > 5_000
    best = best_settings(plan, whole)
    assert set(best) == {field.name for field in searched_fields(Settings())}


def test_a_search_pays_if_its_interval_is_below_random() -> None:
    plan = SearchPlan(trials=2, seeds=5)
    searched = [
        Searched(name, seed, [0.0, level - 0.001 * seed], [0.5])
        for name, level in (("genetic", -0.10), ("random", -0.05), ("swarm", -0.05))
        for seed in range(5)
    ]
    by_name = {row["search"]: row for row in summary(plan, searched)}
    assert by_name["genetic"]["pays"] and by_name["genetic"]["apart"] == pytest.approx(-5.0)
    assert not by_name["swarm"]["pays"] and "apart" not in by_name["random"]


def test_a_trial_trains_an_agent() -> None:
    plan = SearchPlan(trials=1, steps=1, environments=2, problems=2)
    assert -5.0 < plan.run(0, plan.start().tolist()) < 5.0
