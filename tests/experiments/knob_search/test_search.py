"""The tuner: a space read off the knobs, a search that cannot lose, and the file it leaves."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from flyball.app import policy_settings
from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Backfill, Evict, Knobs, Order, Place, Preempt, choices
from flyball.experiments import workers
from flyball.experiments.held_out import held_out
from flyball.experiments.knob_search.cloud import Cloud, choices_of
from flyball.experiments.knob_search.judge import GUARD_WEIGHT, WINNER, Trainer
from flyball.experiments.knob_search.search import Tuned, on_other_seeds, tune
from flyball.experiments.knob_search.space import (
    LEAST,
    MATTERS,
    NOT_SEARCHED,
    USUAL,
    draw,
    normal,
    other_choices,
)
from flyball.experiments.scenarios import Scenario
from flyball.schedule.policies.registry import get_policy
from flyball.schedule.policies.tuned import parse_tuned

NODES = {
    "nodes": [
        {"name": "a", "device": "V100", "devices": 8},
        {"name": "b", "device": "K80", "devices": 8},
    ]
}
TINY = Scenario("tiny", "", NODES, "mixed", 40, 1.0, effects={"estimate_sigma": 0.5})
HEAP = replace(TINY, name="heap", load=None)
FIRST = held_out().first_training_seed
SEEDS = range(FIRST, FIRST + 3)


def search(budget: int = 24, search_seed: int = 0, starts: str = "fifo,easy,saf") -> Tuned:
    return tune((TINY, HEAP), policy_settings(starts, []), SEEDS, budget, search_seed, workers=1)


# The space ----------------------------------------------------------------------------


def test_the_tables_name_knobs_that_exist() -> None:
    names = {knob.name for knob in fields(Knobs)}
    assert {*NOT_SEARCHED, *USUAL, *MATTERS} <= names


def test_draws_reach_every_choice_and_are_all_good() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw(rng) for _ in range(400)]
    for kind in (Order, Backfill, Place, Preempt):
        name = kind.__name__.lower()
        alone = set(choices(kind)) - {"shares"}  # which somebody must set
        assert {setting.as_dict()[name] for setting in drawn} == alone
    plain = Knobs()
    for setting in drawn:
        assert setting == normal(setting)
        assert all(getattr(setting, name) == getattr(plain, name) for name in NOT_SEARCHED)
    assert len({setting.round_s for setting in drawn}) > 50
    assert {setting.ageing == 0 for setting in drawn} == {True, False}


def test_rounds_are_not_searched_below_the_least() -> None:
    rng = np.random.default_rng(0)
    short = normal(Knobs(order=Order.INDEX, preempt=Preempt.ROUNDS, round_s=30.0))
    cloud = Cloud(short)
    values = [cloud.draw(rng).round_s for _ in range(200)]
    assert min(values) == LEAST["round_s"] < max(values)
    drawn = [draw(rng) for _ in range(200)]
    assert all(s.round_s >= LEAST["round_s"] for s in drawn if s.preempt != Preempt.NEVER)


def test_knobs_that_are_not_searched_stay_as_they_were_set() -> None:
    base, rng = Knobs(preempt_starts=16, cap=0.8), np.random.default_rng(0)
    drawn = [draw(rng, base) for _ in range(50)]
    assert {(setting.preempt_starts, setting.cap) for setting in drawn} == {(16, 0.8)}
    starts = policy_settings("fifo,saf", ["preempt_starts=16"])
    tuned = tune((TINY, HEAP), starts, SEEDS, 30, workers=1, base=Knobs(preempt_starts=16))
    assert tuned.knobs.preempt_starts == 16


def test_other_choices_differ_in_one_choice() -> None:
    start = normal(Knobs(order=Order.REMAINING, preempt=Preempt.ROUNDS, ageing=0.1))
    seen: set[str] = set()
    for setting in other_choices(start):
        changed = [
            name
            for name in ("order", "backfill", "place", "preempt", "span", "evict")
            if getattr(setting, name) != getattr(start, name)
        ]
        assert len(changed) == 1
        seen |= set(changed)
        assert setting == normal(setting)
        assert setting.ageing == 0.1
    assert {"order", "place", "preempt", "span", "evict"} == seen
    # What Knobs refuses is left out, and so is what makes no difference.
    assert all(setting.backfill == Backfill.SKIP for setting in other_choices(start))
    assert all(setting.evict == Evict.LISTED for setting in other_choices(Knobs()))


def test_a_cloud_keeps_the_choices_and_narrows_around_its_elites() -> None:
    start = normal(Knobs(order=Order.INDEX, preempt=Preempt.ROUNDS, margin_s=50.0))
    cloud, rng = Cloud(start), np.random.default_rng(0)
    first = [cloud.draw(rng) for _ in range(200)]
    assert {choices_of(setting) for setting in first} == {choices_of(start)}
    assert 30 < float(np.median([setting.margin_s for setting in first])) < 80
    assert 0.1 < np.mean([setting.move_s > 0 for setting in first]) < 0.3  # off at the start
    assert len({setting.index_size for setting in first}) > 50
    assert {setting.depth for setting in first} == {start.depth}  # makes no difference here
    # Elites with moves and a margin of about 400 s.
    for _ in range(20):
        drawn = [cloud.draw(rng) for _ in range(100)]
        drawn.sort(
            key=lambda setting: abs(math.log(setting.margin_s / 400)) + (setting.move_s <= 0)
        )
        cloud.learn(drawn[:10])
    last = [cloud.draw(rng) for _ in range(100)]
    assert np.mean([setting.move_s > 0 for setting in last]) > 0.9
    assert all(300 < setting.margin_s < 500 for setting in last)
    assert not Cloud(start).settled


def test_a_cloud_settles() -> None:
    start = normal(Knobs(order=Order.SHORTEST, ageing=0.1))
    cloud = Cloud(start)
    for _ in range(10):
        cloud.learn([start] * 4)
    assert cloud.settled
    drawn = [cloud.draw(np.random.default_rng(seed)).ageing for seed in range(50)]
    assert all(value == 0 or 0.08 < value < 0.12 for value in drawn)


def test_idle_knobs_do_not_make_two_settings_of_one() -> None:
    assert normal(Knobs(round_s=7.0, hold_s=3.0, attained_s=1.0)) == Knobs()
    assert normal(Knobs(place=Place.HOLD, hold_s=3.0)).hold_s == 3.0


# The search ----------------------------------------------------------------------------


def test_the_same_search_finds_the_same() -> None:
    first = search()
    assert first == search()
    assert first.tried == 24
    assert search(search_seed=1).history != first.history


def test_workers_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "POOL_PAYS_S", -1.0)
    shelf = policy_settings("fifo,easy,saf", [])
    assert tune((TINY, HEAP), shelf, SEEDS, 24, workers=2) == search()


def test_never_worse_than_the_best_start() -> None:
    tuned = search()
    assert set(tuned.starts) == {"fifo", "easy", "saf"}
    assert tuned.objective < min(tuned.starts.values())
    assert [value for _, value in tuned.history] == sorted(
        (value for _, value in tuned.history), reverse=True
    )
    # A start that nothing near beats stays: no budget to speak of.
    alone = search(budget=1)
    assert alone.objective <= min(alone.starts.values())


def test_a_setting_that_loses_to_the_guard_pays_for_it() -> None:
    shelf = policy_settings("fifo,easy,saf", [])
    plain = tune((TINY, HEAP), shelf, SEEDS, 1, workers=1)
    guarded = tune((TINY, HEAP), shelf, SEEDS, 1, workers=1, guard="saf")
    assert guarded.starts["saf"] == plain.starts["saf"]
    assert guarded.starts["fifo"] > plain.starts["fifo"]  # it loses to saf everywhere
    trainer = Trainer((TINY, HEAP))
    lost = [
        np.mean(
            [
                trainer.run(get_policy("fifo").knobs, at, s)
                - trainer.run(get_policy("saf").knobs, at, s)
                for s in SEEDS
            ]
        )
        for at in range(2)
    ]
    more = GUARD_WEIGHT * float(np.maximum(0.0, lost).sum()) / 2
    assert guarded.starts["fifo"] == pytest.approx(plain.starts["fifo"] + more)
    with pytest.raises(UnknownName, match="start 'sjf'"):
        tune((TINY, HEAP), shelf, SEEDS, 1, workers=1, guard="sjf")


def test_the_objective_is_what_it_says() -> None:
    tuned = search(budget=1, starts="fifo,saf")
    trainer = Trainer((TINY, HEAP))
    logs = {
        name: [trainer.run(get_policy(name).knobs, at, s) for at in range(2) for s in SEEDS]
        for name in ("fifo", "saf")
    }
    best = [min(pair) for pair in zip(logs["fifo"], logs["saf"], strict=True)]
    wanted = np.mean(np.array(logs["fifo"]) - np.array(best))
    assert tuned.starts["fifo"] == pytest.approx(wanted)
    run = TINY.case(policy_settings("fifo", [])[0], SEEDS[0]).run(0, 0)
    assert math.exp(logs["fifo"][0]) == pytest.approx(run.summary.completion_s.mean)


def test_settings_the_twin_refuses_lose() -> None:
    slow = replace(TINY, effects={"checkpoint_s": 100.0})
    refused = Knobs(order=Order.REMAINING, preempt=Preempt.ROUNDS, round_s=50.0)
    assert Trainer((slow,)).run(refused, 0, FIRST) == math.inf
    tuned = tune((slow,), policy_settings("fifo,saf", []), SEEDS, 20, workers=1)
    assert math.isfinite(tuned.objective)
    with pytest.raises(BadInput, match="no policy to start from"):
        tune((slow,), policy_settings("srtf", []), SEEDS, 20, workers=1)


def test_judged_on_other_seeds() -> None:
    judged = on_other_seeds(
        (TINY, HEAP), policy_settings("fifo,saf", []), Knobs(), range(2), workers=1
    )
    assert judged.seeds == [0, 1]
    assert judged.baseline == WINNER
    assert {row["policy"] for row in judged.overall} == {WINNER, "fifo", "saf"}
    fifo = next(row for row in judged.overall if row["policy"] == "fifo")
    mean, low, high = fifo["change"][WINNER]
    assert low <= mean <= high


# The file ------------------------------------------------------------------------------


def test_the_shipped_setting() -> None:
    text = files("flyball").joinpath("data", "tuned.json").read_text("utf-8")
    origin = json.loads(text)["made"]
    assert get_policy("tuned").knobs == parse_tuned(text, "tuned.json")
    assert origin["command"].startswith("flyball bench tune-heuristics ")
    assert min(origin["training_seeds"]) >= FIRST
    assert max(origin["held_out_seeds"]) < FIRST
    assert origin["objective"]["found"] == min(origin["objective"].values())


def test_the_setting_before() -> None:
    text = files("flyball").joinpath("data", "tuned_before.json").read_text("utf-8")
    [before] = policy_settings("tuned:before", ["depth=9"])
    assert before.name == "tuned:before"
    assert before.knobs == replace(parse_tuned(text, "tuned_before.json"), depth=9)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    wanted = Knobs(order=Order.AREA, place=Place.FASTEST, ageing=0.25)
    path.write_text(json.dumps({"format": 1, "knobs": wanted.as_dict()}))
    [setting] = policy_settings(f"tuned:{path}", [])
    assert setting.name == f"tuned:{path}"
    assert setting.knobs == wanted
    # Knobs it does not know of yet take their default; `--set` still applies.
    path.write_text(json.dumps({"format": 1, "knobs": {"order": "area"}}))
    assert policy_settings(f"tuned:{path}", ["depth=9"])[0].knobs == Knobs(Order.AREA, depth=9)
    assert policy_settings(f"all,tuned:{path}", [])[-1].knobs == Knobs(Order.AREA)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "mine.json is not JSON"),
        ("[]", "mine.json is not a tuned setting"),
        ('{"format": 2}', "of format 1"),
        ('{"format": 1}', "has no 'knobs'"),
        ('{"format": 1, "knobs": {"odrer": "area"}}', "mine.json: .*did you mean 'order'"),
        ('{"format": 1, "knobs": {"order": "best"}}', "mine.json: .*value of knob order"),
        ('{"format": 1, "knobs": {"depth": null}}', "mine.json: .*not a number"),
        ('{"format": 1, "knobs": {"depth": 0}}', "mine.json: .*out of range"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=words):
        policy_settings(f"tuned:{path}", [])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"tuned:.*gone\.json: No such file"):
        policy_settings(f"tuned:{tmp_path / 'gone.json'}", [])
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="not UTF-8"):
        policy_settings(f"tuned:{tmp_path / 'bytes.json'}", [])
