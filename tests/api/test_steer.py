"""Holds, sizes, caps and checkpoints over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.api.test_jobs import JOBS, ids, refused
from tests.api.world import SLEEP, World

from flyball.sdk.client import ApiError, Client

ELASTIC = {**SLEEP, "cpus": 2, "least": 1, "most": 4, "estimate_s": 500.0}


@pytest.fixture(autouse=True)
def turning(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a step of the plane in a thread whenever it is woken, as `Driver` does."""
    turn, real = threading.Lock(), world.plane.step
    threads: list[threading.Thread] = []

    def step() -> bool:
        with turn:
            return real()

    def wake() -> None:
        threads.append(threading.Thread(target=step))
        threads[-1].start()

    monkeypatch.setattr(world.plane, "step", step)
    world.plane.wake = wake
    yield
    for thread in threads:
        thread.join()


def order(client: httpx.Client, job: int, what: str, body: Any = None, **headers: str) -> Any:
    return client.post(f"{JOBS}/{job}/{what}", json=body or {}, headers=headers)


def test_orders(world: World, client: httpx.Client) -> None:
    job = ids(client, [ELASTIC])[0]
    world.step()
    assert order(client, job, "resize", {"devices": 4}).json() == {"id": job, "devices": 4}
    assert order(client, job, "cap", {"share": 0.5}).json() == {"id": job, "share": 0.5}
    assert order(client, job, "checkpoint").json() == {"id": job}
    shown = client.get(f"{JOBS}/{job}").json()
    assert shown["elastic"] == [1, 4]
    assert (shown["tuning"]["devices"], shown["tuning"]["share"]) == (4, 0.5)
    assert len(client.get(f"{JOBS}/{job}/why").json()["tuning"]["log"]) == 3
    receipt = client.get(f"{JOBS}/{job}/receipt").json()["tuning"]
    assert [size["devices"] for size in receipt["sizes"]] == [4]
    kinds = [event["kind"] for event in client.get("/api/v1/events").json()["events"]]
    assert {"resized", "capped", "checkpointed"} <= set(kinds)


def test_refusals_are_problems(world: World, client: httpx.Client) -> None:
    rigid, job, full = ids(client, [SLEEP, ELASTIC, {**SLEEP, "cpus": 4}])
    world.step()
    assert "rigid" in refused(order(client, rigid, "resize", {"devices": 2}), 422)["detail"]
    assert "1 to 4" in refused(order(client, job, "resize", {"devices": 5}), 422)["remedy"]
    busy = refused(order(client, job, "resize", {"devices": 4}), 503)
    assert "1 of 4 are free" in busy["detail"]
    refused(order(client, 99, "cap", {"share": 0.5}), 404)
    for body in ({"share": 0.0}, {"share": 1.5}, {"share": "0.5"}, {"devices": 1}):
        refused(order(client, job, "cap", body), 422)
    for body in ({"devices": 0}, {"devices": 1.5}, {}):
        refused(order(client, job, "resize", body), 422)
    refused(client.post(f"{JOBS}/{job}/cap", content=b"share=1"), 415)
    bad = refused(client.post(JOBS, json={**SLEEP, "least": 2, "most": 3}), 422)
    assert "elastic from 2 to 3" in bad["detail"]
    assert full


def test_a_key_orders_once(world: World, client: httpx.Client) -> None:
    job = ids(client, [ELASTIC])[0]
    world.step()
    key = {"Idempotency-Key": "once"}
    for _ in range(2):
        assert order(client, job, "resize", {"devices": 1}, **key).status_code == 200
    log = client.get(f"{JOBS}/{job}").json()["tuning"]["log"]
    assert len(log) == 1
    refused(order(client, job, "resize", {"devices": 3}, **key), 409)


def test_from_python(world: World) -> None:
    with world.server(), Client(world.folder) as client:
        job = client.submit_job(ELASTIC)
        world.step()
        assert client.resize(job, 1)["devices"] == 1
        assert client.cap(job, 0.5)["share"] == 0.5
        assert client.checkpoint(job) == {"id": job}
        with pytest.raises(ApiError, match="its range is"):
            client.resize(job, 9)


def test_hold_and_release(world: World, client: httpx.Client) -> None:
    job = client.post(JOBS, json={**SLEEP, "hold": True, "user": "ada"}).json()["id"]
    world.step()
    shown = client.get(f"{JOBS}/{job}").json()
    assert (shown["state"], shown["held"]) == ("PENDING", {"by": "ada", "begin_time": None})
    assert client.get(f"{JOBS}/{job}/why").json()["token"] == "held"
    assert client.get("/api/v1/queue").json()["jobs"][0]["token"] == "held"
    assert client.post(f"{JOBS}/{job}/release").json() == {"ids": [job]}
    world.step()
    assert client.get(f"{JOBS}/{job}").json()["state"] == "RUNNING"
    answer = client.post(f"{JOBS}/{job}/hold", json={})
    assert answer.status_code == 409
    assert "only a waiting job can be held" in answer.text


def test_hold_all_tasks_of_an_array(world: World, client: httpx.Client) -> None:
    later = {**SLEEP, "begin_time": 4e9, "array": "0-2"}
    first = client.post(JOBS, json=later).json()["id"]
    ids = [first, first + 1, first + 2]
    assert client.post(f"{JOBS}/{first}_1/hold", json={"user": "b"}).json() == {"ids": ids[1:2]}
    assert client.post(f"{JOBS}/{first}/hold", json={}).json() == {"ids": ids}
    assert client.post(f"{JOBS}/{first}/release").json() == {"ids": ids}
    world.step()
    assert client.get(f"{JOBS}/{first}").json()["held"] == {"by": None, "begin_time": 4e9}
    assert client.post(f"{JOBS}/99/hold", json={}).status_code == 404


def test_nodes_are_drained_and_resumed(client: httpx.Client) -> None:
    nodes = "/api/v1/nodes"
    drained = client.post(f"{nodes}/b/drain", json={"reason": "a fan is loud"})
    assert drained.json() == {"name": "b", "drained": True}
    views = {node["name"]: node for node in client.get(nodes).json()["nodes"]}
    assert (views["b"]["state"], views["b"]["reason"]) == ("drained", "a fan is loud")
    assert client.post(f"{nodes}/b/resume").json() == {"name": "b", "drained": False}
    views = {node["name"]: node for node in client.get(nodes).json()["nodes"]}
    assert [view["state"] for view in views.values()] == ["up", "up"]
    assert client.post(f"{nodes}/nowhere/drain", json={}).status_code == 404
    assert client.post(f"{nodes}/b/drain", json={"why": "x"}).status_code == 422


def test_priority_over_http(world: World, client: httpx.Client) -> None:
    first, second = client.post(JOBS, json={**SLEEP, "cpus": 4, "array": "0-1"}).json()["ids"]
    assert order(client, first, "priority", {"priority": 2.5}).json() == {"ids": [first, second]}
    shown = [client.get(f"{JOBS}/{job}").json()["priority"] for job in (first, second)]
    assert shown == [2.5, 2.5]
    brief = client.get("/api/v1/queue/brief").json()
    assert {row[brief["columns"].index("priority")] for row in brief["rows"]} == {2.5}
    for body in ({"priority": "5"}, {"priority": 1e12}, {}):
        refused(order(client, first, "priority", body), 422)
    client.delete(f"{JOBS}/{first}")
    world.step()
    refused(order(client, first, "priority", {"priority": 1.0}), 409)


def test_the_day_and_its_budgets(world: World, client: httpx.Client) -> None:
    today = client.get("/api/v1/today").json()
    assert today["budget"] is None
    assert today["complete"]
    assert today["idle_j"] >= 0.0
