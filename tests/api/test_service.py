"""Events, health, metrics and documentation."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.api.test_jobs import JOBS, refused
from tests.api.test_logs import follow
from tests.api.world import SLEEP, World, calling
from tests.until import WAIT_S, until

from flyball.sdk.streams import Frame, frames

EVENTS = "/api/v1/events"


def test_events_as_a_list(world: World, client: httpx.Client) -> None:
    for _ in range(3):
        client.post(JOBS, json=SLEEP)
    world.step()
    rows = client.get(EVENTS).json()["events"]
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
    submitted = client.get(f"{EVENTS}?kind=submitted").json()["events"]
    assert [row["job"] for row in submitted] == [1, 2, 3]
    after = submitted[1]["seq"]
    assert len(client.get(f"{EVENTS}?kind=submitted&after={after}").json()["events"]) == 1
    assert len(client.get(f"{EVENTS}?limit=2").json()["events"]) == 2
    assert {row["job"] for row in client.get(f"{EVENTS}?job=2").json()["events"]} == {2}
    decisions = client.get("/api/v1/decisions").json()["decisions"]
    assert decisions and decisions[0]["number"] == 1
    assert client.get("/api/v1/decisions?after=1000000").json() == {"decisions": []}


def test_events_as_they_happen(world: World) -> None:
    with world.server(heartbeat_s=0.05) as server, calling(server, world.token) as client:
        client.post(JOBS, json=SLEEP)
        newest = world.plane.ask.wait_events(0, 0)
        received: list[Frame] = []

        def listen() -> None:
            with client.stream("GET", f"{EVENTS}?kind=submitted", headers=EVENT_STREAM) as answer:
                for frame in frames(answer.iter_lines()):
                    received.extend([frame] if frame.data else [])
                    if len(received) == 2:
                        return

        thread = threading.Thread(target=listen)
        thread.start()
        until(lambda: server.app.state.bridge.streams == 1)
        client.post(JOBS, json=SLEEP)  # without `after`, a stream begins with what is new
        world.step()
        client.post(JOBS, json=SLEEP)
        thread.join(WAIT_S)
        assert [json.loads(event.data)["job"] for event in received] == [2, 3]
        assert [event.event for event in received] == ["submitted"] * 2
        assert int(received[0].id) > newest
        until(lambda: server.app.state.bridge.streams == 0)


EVENT_STREAM = {"Accept": "text/event-stream"}


def test_who_waits_for_something_rare_hears_that_we_live(world: World) -> None:
    """Filtered-out events come faster than heartbeats: the stream still sends heartbeats with the
    last event number."""
    with world.server(heartbeat_s=0.1) as server, calling(server, world.token) as client:
        over = threading.Event()

        def others() -> None:
            with calling(server, world.token) as second:
                while not over.wait(0.02):
                    second.post(JOBS, json=SLEEP)

        thread = threading.Thread(target=others)
        thread.start()
        try:
            path = f"{EVENTS}?follow=true&job=999999"
            with client.stream("GET", path, headers=EVENT_STREAM, timeout=120) as answer:
                received = frames(answer.iter_lines())
                first = next(received)
                # On a slow machine no event may have come since the last heartbeat.
                second = next(frame for frame in received if frame.data or frame.id != first.id)
        finally:
            over.set()
            thread.join(WAIT_S)
        assert (first.data, second.data) == ("", "")
        assert 0 < int(first.id) < int(second.id)


def test_a_stream_goes_on_where_it_was(world: World) -> None:
    with world.server(stream_s=0.2) as server, calling(server, world.token) as client:
        for _ in range(3):
            client.post(JOBS, json=SLEEP)
        rows = client.get(f"{EVENTS}?kind=submitted").json()["events"]
        headers = {"Last-Event-ID": str(rows[0]["seq"])}
        received = follow(client, f"{EVENTS}?follow=true&kind=submitted&after=0", **headers)
        assert [json.loads(frame.data) for frame in received] == rows[1:]


def test_health(world: World, client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/healthz").json() == {"ok": True}
    health = client.get("/api/v1/healthz").json()
    assert health["ok"] and "journal" in health["checks"]
    ill = {"ok": False, "checks": {"journal": "the disk is full"}}
    monkeypatch.setattr(world.plane.ask, "health", lambda: ill)
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (503, {"ok": False})
    answer = client.get("/api/v1/healthz")
    assert (answer.status_code, answer.json()) == (503, ill)


def test_health_tries_the_journal(world: World, client: httpx.Client) -> None:
    world.plane.journal.close()
    assert client.get("/healthz").status_code == 503
    refused(client.post(JOBS, json=SLEEP), 503)


def test_metrics_are_what_prometheus_reads(world: World, client: httpx.Client) -> None:
    client.post(JOBS, json=SLEEP)
    client.request("PROPFIND", JOBS)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    pending = [
        sample
        for sample in families["flyball_jobs"].samples
        if sample.labels == {"state": "PENDING"}
    ]
    assert pending[0].value == 1
    assert families["flyball_events"].type == "counter"
    answers = {
        (sample.labels["method"], sample.labels["status"]): sample.value
        for sample in families["flyball_api_answers"].samples
    }
    assert answers["POST", "201"] == 1
    assert answers["other", "405"] == 1


def test_metrics_with_odd_labels() -> None:
    from flyball.api.metrics_text import text_of

    odd = 'a"b\\c\nd'
    text = text_of([("flyball_x", {"name": odd}, 1.5), ("flyball_x", {"name": "é"}, float("nan"))])
    samples = next(iter(text_string_to_metric_families(text.decode()))).samples
    assert [sample.labels["name"] for sample in samples] == [odd, "é"]


def test_the_cluster(world: World, client: httpx.Client) -> None:
    for _ in range(9):
        client.post(JOBS, json=SLEEP)
    world.step()
    nodes = client.get("/api/v1/nodes").json()["nodes"]
    assert [node["name"] for node in nodes] == ["a", "b"]
    queue = client.get("/api/v1/queue?limit=4").json()
    assert (len(queue["jobs"]), queue["total"], queue["pending"]) == (4, 9, 1)
    assert [job["token"] for job in queue["jobs"]] == [None] * 4
    rest = client.get("/api/v1/queue", params={"limit": 5, "cursor": queue["next"]}).json()
    assert ([job["id"] for job in rest["jobs"]], rest["next"]) == ([5, 6, 7, 8, 9], None)
    assert rest["jobs"][-1]["token"] == "no-free-devices"
    listed = {job["id"]: job["token"] for job in client.get(JOBS).json()["jobs"]}
    assert listed == dict.fromkeys(range(1, 9)) | {9: "no-free-devices"}
    some = client.get("/api/v1/queue?state=PENDING&state=COMPLETING").json()
    assert ([job["id"] for job in some["jobs"]], some["total"]) == ([9], 1)
    for query in ("state=FAILED", "limit=0", "limit=10001", "cursor=x", "cursor=1_1_x_1_1"):
        refused(client.get(f"/api/v1/queue?{query}"), 422)
    assert client.get("/api/v1/forecast").json()["starts"]
    assert client.get("/api/v1/telemetry").status_code == 200
    refused(client.get("/api/v1/telemetry/series?name=none"), 404)
    refused(client.get("/api/v1/telemetry/series"), 422)


def test_queue_of_one_account(client: httpx.Client) -> None:
    for tenant in ("vision", "speech", "vision"):
        client.post(JOBS, json={**SLEEP, "tenant": tenant})
    queue = client.get("/api/v1/queue?tenant=vision").json()
    assert [job["id"] for job in queue["jobs"]] == [1, 3]
    assert client.get("/api/v1/queue?tenant=none").json()["total"] == 0


def test_cancelling_what_is_said_and_no_more(client: httpx.Client) -> None:
    for name in ("a", "b"):
        client.post(JOBS, json={**SLEEP, "name": name})
    wrong: list[Any] = [{}, {"all": False}, {"all": 1}, {"nam": "a"}, {"name": None}, []]
    for body in wrong:
        refused(client.post(f"{JOBS}/cancel", json=body), 422)
    assert client.post(f"{JOBS}/cancel", json={"all": True, "name": "b"}).json() == {"ids": [2]}
    assert client.post(f"{JOBS}/cancel", json={"all": True}).json() == {"ids": [1]}


def test_the_docs_page_needs_nothing_from_elsewhere(client: httpx.Client) -> None:
    answer = client.get("/docs", headers={"Authorization": ""})
    assert answer.status_code == 200
    assert "style-src 'sha256-" in answer.headers["content-security-policy"]
    page = answer.text
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    for path in client.get("/openapi.json").json()["paths"]:
        assert path in page


def test_the_style_is_the_one_the_policy_allows() -> None:
    import base64
    import hashlib

    from flyball.api.docs_page import page

    document: dict[str, Any] = {
        "info": {"title": "t", "version": "1", "description": "<b>"},
        "paths": {},
        "components": {"schemas": {}},
    }
    html, policy = page(document)
    style = re.search(r"<style>(.*)</style>", html, re.DOTALL)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert digest in policy
    assert "&lt;b&gt;" in html
