"""Reason tokens of the pending jobs of a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import Rig, env, spec_of

from flyball.control.ask import waiting_tokens
from flyball.control.ask.active_pages import QueueQuery
from flyball.control.ask.waiting_tokens import QueueSnapshot
from flyball.control.decide.decider import Decider
from flyball.control.jobs.live_state import LiveState


def tokens_of(rig: Rig) -> dict[int, str]:
    return rig.plane.ask.queue_page(QueueQuery())[1]


def test_the_first_and_those_behind_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.submit(cpus=3)
    rig.settle()
    head, other, small = rig.submit(cpus=2), rig.submit(cpus=2), rig.submit(cpus=1)
    rig.settle()
    tokens = tokens_of(rig)
    assert tokens == {head: "no-free-devices", other: "behind-head", small: "behind-head"}
    assert tokens == {job: rig.plane.ask.why(job)["token"] for job in tokens}


def test_different_jobs_have_different_reasons(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "easy")
    first = rig.submit(cpus=2, estimate_s=100.0)
    rig.settle()
    tasks = [spec_of(array_index=at, array_limit=1, estimate_s=50.0) for at in range(2)]
    array = rig.plane.submit(tasks)
    big = rig.submit(cpus=4)
    later = rig.submit(after=(("afterok", first),))
    long = rig.submit(cpus=1, estimate_s=900.0)
    rig.settle()
    tokens = tokens_of(rig)
    assert tokens == {
        array[1]: "array-limit",
        big: "no-free-devices",
        later: "waits-for-jobs",
        long: "would-delay-head",
    }
    assert tokens == {job: rig.plane.ask.why(job)["token"] for job in tokens}


def test_what_starts_with_the_next_decision(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = rig.submit(cpus=1)
    assert tokens_of(rig) == {job: "starts-now"}
    rig.settle()
    assert tokens_of(rig) == {}, "what runs has no reason to wait"


def test_a_dependency_that_can_never_be_satisfied(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    failing = rig.submit(env=env(5.0, code=1))
    rig.settle()
    job = rig.submit(after=(("afterok", failing),))
    rig.now += 5_000_000
    rig.plane.step()
    assert tokens_of(rig) == {job: "dependency-never-satisfied"}


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_jobs_alike_wait_for_the_same_reason(tmp_path: Path, policy: str) -> None:
    """A snapshot leaves most of them out; each still has a token."""
    rig = Rig(tmp_path, policy)
    rig.plane.submit([spec_of(cpus=1, name=f"n{at}") for at in range(60)])
    rig.settle()
    tokens = tokens_of(rig)
    rest = "behind-head" if policy == "fifo" else "no-free-devices"
    assert list(tokens.items()) == [(5, "no-free-devices"), *((at, rest) for at in range(6, 61))]
    assert len(QueueSnapshot(rig.plane.live_state, rig.plane.decider, rig.now).at) < 20
    page, last = rig.plane.ask.queue_page(QueueQuery(limit=50))
    assert page.next is not None
    page, last = rig.plane.ask.queue_page(QueueQuery(limit=50, cursor=page.next))
    assert last == dict.fromkeys(range(51, 61), rest)


@pytest.mark.parametrize("limit", [1, 3, 5, 6, 7, 20, 39])
def test_tasks_beyond_the_limit_of_their_array(tmp_path: Path, limit: int) -> None:
    """Also those that a snapshot leaves out: it holds no more of them than could start."""
    rig = Rig(tmp_path, "easy")
    rig.plane.submit([spec_of(array_index=at, array_limit=limit) for at in range(40)])
    rig.settle()
    tokens = tokens_of(rig)
    assert list(tokens) == list(range(min(4, limit) + 1, 41))
    for job in {5, limit, limit + 1, 40} & tokens.keys():
        assert tokens[job] == rig.plane.ask.why(job)["token"]
    assert [job for job in tokens if tokens[job] == "array-limit"] == list(range(limit + 1, 41))


def test_a_limited_number_of_shapes_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_tokens, "MAX_EXPLAINED", 2)
    rig = Rig(tmp_path, "easy")
    rig.submit(cpus=4)
    rig.settle()
    jobs = [rig.submit(cpus=2, estimate_s=100.0 + at) for at in range(4)]
    assert list(tokens_of(rig).values()) == ["no-free-devices"] * 2 + [waiting_tokens.IN_QUEUE] * 2
    assert list(tokens_of(rig)) == jobs


def test_a_large_snapshot_is_reused_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    rig.submit(cpus=4)
    rig.settle()
    first = rig.submit(cpus=4)
    taken: list[int] = []

    def counted(live_state: LiveState, decider: Decider, now_us: int) -> QueueSnapshot:
        taken.append(now_us)
        return QueueSnapshot(live_state, decider, now_us)

    monkeypatch.setattr(waiting_tokens, "QueueSnapshot", counted)
    assert tokens_of(rig) == tokens_of(rig)
    assert len(taken) == 1, "nothing has happened in between"
    second = rig.submit(cpus=3)
    assert tokens_of(rig) == {first: "no-free-devices", second: "behind-head"}
    monkeypatch.setattr(waiting_tokens, "MANY_JOBS", 1)
    third = rig.submit(cpus=2)
    assert tokens_of(rig)[third] == waiting_tokens.IN_QUEUE
    rig.now += waiting_tokens.REUSE_US
    assert tokens_of(rig)[third] == "behind-head"
