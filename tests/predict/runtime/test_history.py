"""The history of earlier jobs contains nothing that had not happened by then."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from flyball.core.errors import BadInput
from flyball.predict.runtime.features import NAMES, features
from flyball.predict.runtime.history import EMPTY, Group, History, Seen, Step, in_order
from flyball.predict.runtime.rows import Asked, Run, asked_of, plain_name, run_of, runs_of


def table(runs: Sequence[Run]) -> np.ndarray:
    """Features of every job at its submission."""
    history, seen = History(), dict[int, Seen]()
    rows = np.empty((len(runs), len(NAMES)))
    for when_s, step, at, run in in_order(runs):
        if step is Step.SUBMIT:
            rows[at] = features(run.asked, history)
            seen[at] = history.submitted(run.asked)
        elif step is Step.START:
            seen[at].start_s = when_s
        else:
            history.ended(run, seen.pop(at))
    return rows


def random_runs(count: int, seed: int) -> list[Run]:
    draw = np.random.default_rng(seed)
    submit_s = np.sort(draw.uniform(0, 50_000, count))
    return [
        run_of(
            {
                "submit_s": float(when),
                "start_s": float(when + draw.integers(0, 500)),
                "run_s": float(draw.lognormal(6, 2)),
                "tenant": f"t{draw.integers(3)}",
                "user": f"u{draw.integers(3)}" if at % 2 else None,
                "name": "train_3" if at % 3 else "",
                "devices": int(draw.integers(1, 3)),
            }
        )
        for at, when in enumerate(submit_s)
    ]


def test_the_future_changes_nothing() -> None:
    runs = random_runs(200, 7)
    now_s = runs[120].asked.submit_s
    changed = [
        Run(run.asked, run.start_s, math.inf, math.nan)
        if run.end_s >= now_s and run.start_s < now_s
        else run
        for run in runs[:121]
    ]
    np.testing.assert_array_equal(table(runs)[120], table(changed)[120])


def test_an_end_at_the_very_instant_is_not_seen() -> None:
    first = run_of({"submit_s": 0.0, "run_s": 100.0, "tenant": "a"})
    second = run_of({"submit_s": 100.0, "run_s": 5.0, "tenant": "a"})
    steps = [(step, at) for _, step, at, _ in in_order([first, second])]
    assert steps.index((Step.SUBMIT, 1)) < steps.index((Step.END, 0))
    assert math.isnan(table([first, second])[1, NAMES.index("nearest.base")])


def test_features_of_a_small_case() -> None:
    rows = [
        {"submit_s": 0.0, "run_s": 10.0, "tenant": "a"},
        {"submit_s": 5.0, "run_s": 1000.0, "tenant": "a"},
        {"submit_s": 30.0, "run_s": 7.0, "tenant": "a"},
        {"submit_s": 65.0, "run_s": 7.0, "tenant": "a"},
    ]
    last = dict(zip(NAMES, table(runs_of(rows))[3], strict=True))
    assert last["tenant_size.last"] == pytest.approx(math.log(7.0))
    assert last["tenant_size.last_two"] == pytest.approx(math.log(70.0) / 2)
    assert last["tenant_size.done_1"] == 1.0
    assert last["tenant_size.done_2"] == 0.0
    assert last["tenant_size.value_2"] == pytest.approx(math.log1p(60.0))
    assert last["tenant_size.burst_jobs"] == pytest.approx(math.log1p(3))
    assert last["tenant_size.burst_done"] == pytest.approx(2 / 3)
    assert last["all.running"] == pytest.approx(math.log1p(1))
    assert math.isnan(last["user.mean_6"])
    assert math.isnan(last["name_size.last"])


def test_a_job_that_waits_has_no_bound() -> None:
    assert Seen(0.0).bound(500.0) == 0.0
    assert Seen(0.0, 100.0).bound(500.0) == pytest.approx(math.log1p(400.0))


def test_withdrawn() -> None:
    history, asked = History(), Asked(0.0, tenant="a")
    history.submitted(asked)
    history.withdrawn(asked)
    group = history.groups(asked)["tenant"]
    assert group is not None
    assert group.running == 0
    assert not group.finished


def test_groups_longest_unused_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flyball.predict.runtime.history.MOST_GROUPS", 6)
    history = History()
    first = Asked(0.0, tenant="first")
    job = history.submitted(first)
    for at in range(5):
        history.submitted(Asked(float(at), tenant=f"t{at}"))
    assert history.groups(first)["tenant"] is EMPTY
    history.ended(Run(first, 0.0, 9.0, 9.0), job)
    assert Group() == EMPTY
    everyone = history.groups(first)["all"]
    assert everyone is not None
    assert len(everyone.finished) == 1


def test_names_without_their_numbers() -> None:
    assert plain_name("train_lr0.01_s3") == plain_name("train_lr0.1_s17") == "train_lr#_s#"


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"submit_s": "soon"},
        {"submit_s": math.nan},
        {"submit_s": 0.0, "run_s": -1.0},
        {"submit_s": 10.0, "end_s": 5.0},
    ],
)
def test_rows_that_cannot_be(row: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        run_of(row, 3)


def test_what_is_not_stated() -> None:
    asked = asked_of({"submit_s": 1, "tenant": None})
    assert asked == Asked(1.0)
    assert math.isinf(run_of({"submit_s": 1}).end_s)
    assert run_of({"submit_s": 0, "start_s": 50, "end_s": 80}).run_s == 30.0
