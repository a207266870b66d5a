"""Logs of jobs: all, in part, and while they are written."""

from __future__ import annotations

import json
import os
import random
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.api.test_jobs import JOBS, refused
from tests.api.world import SLEEP, World, calling
from tests.until import WAIT_S

from flyball.api.logs import LogFollower, LogReader
from flyball.core.errors import Unavailable
from flyball.sdk.client import ApiError, Client
from flyball.sdk.streams import Frame, frames

TEXT = b"one\ntwo\n\xff\xfe three\nfour"


@pytest.fixture
def running(world: World) -> World:
    """Job 1 runs and has printed something."""
    world.plane.submit([_spec()])
    world.step()
    world.log(1, TEXT)
    return world


def _spec() -> Any:
    from flyball.core.jobs import JobSpec

    return JobSpec(("sleep", "5"), estimate_s=5.0)


def follow(client: httpx.Client, path: str, **headers: str) -> list[Frame]:
    """Return all frames of a stream until it ends."""
    with client.stream("GET", path, headers=headers, timeout=120) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [frame for frame in frames(answer.iter_lines()) if frame.data]


def text_of(received: list[Frame]) -> bytes:
    texts = [json.loads(frame.data)["text"] for frame in received if frame.event == "message"]
    return "".join(texts).encode("utf-8", "surrogateescape")


def test_error_output_in_a_file_of_its_own(
    world: World, client: httpx.Client, tmp_path: Path
) -> None:
    errors = tmp_path / "job.err"
    client.post(JOBS, json={**SLEEP, "stderr": str(errors)})
    world.step()
    world.log(1, b"out\n")
    errors.write_bytes(b"err\n")
    assert client.get(f"{JOBS}/1/logs").content == b"out\n"
    assert client.get(f"{JOBS}/1/logs?stream=stderr").content == b"err\n"
    refused(client.get(f"{JOBS}/1/logs?stream=both"), 422)


def test_whole_and_in_part(running: World, client: httpx.Client) -> None:
    path = f"{JOBS}/1/logs"
    full = client.get(path)
    assert full.content == TEXT
    assert full.headers["content-type"] == "text/plain; charset=utf-8"
    assert client.get(f"{path}?tail=2").content == b"\xff\xfe three\nfour"
    assert client.get(f"{path}?tail=0").content == b""
    assert client.get(f"{path}?tail=99").content == TEXT
    part = client.get(path, headers={"Range": "bytes=4-6"})
    assert (part.status_code, part.content) == (206, b"two")
    assert part.headers["content-range"] == f"bytes 4-6/{len(TEXT)}"
    assert client.get(path, headers={"Range": "bytes=-4"}).content == b"four"
    assert client.get(path, headers={"Range": "bytes=4-"}).content == TEXT[4:]
    assert client.get(path, headers={"Range": "lines=1-2"}).content == TEXT
    answer = client.get(path, headers={"Range": "bytes=900-"})
    refused(answer, 416)
    assert answer.headers["content-range"] == f"bytes */{len(TEXT)}"
    refused(client.get(f"{path}?attempt=2"), 404)


def test_a_job_that_printed_nothing(world: World, client: httpx.Client) -> None:
    world.plane.submit([_spec()])
    refused(client.get(f"{JOBS}/1/logs"), 404)
    world.step()
    problem = refused(client.get(f"{JOBS}/1/logs"), 404, "no-log")
    assert "RUNNING" in problem["detail"]


def test_output_that_is_no_file(world: World, client: httpx.Client, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    client.post(JOBS, json={**SLEEP, "stdout": str(pipe)})
    world.step()
    refused(client.get(f"{JOBS}/1/logs"), 404, "no-log")


def test_following_until_the_end(running: World) -> None:
    with running.server(poll_s=0.01) as server, calling(server, running.token) as client:
        received: list[Frame] = []
        thread = threading.Thread(
            target=lambda: received.extend(follow(client, f"{JOBS}/1/logs?follow=true&tail=1"))
        )
        thread.start()
        running.log(1, b"\nfive\n")
        running.step(10)
        thread.join(WAIT_S)
        assert text_of(received) in (b"four\nfive\n", b"five\n")  # whichever came first
        assert received[-1].event == "end"
        assert json.loads(received[-1].data)["state"] == "COMPLETED"
        # Gone on from the middle, as a client does that was cut off.
        rest = follow(client, f"{JOBS}/1/logs?follow=true", **{"Last-Event-ID": "1-8"})
        assert text_of(rest) == TEXT[8:] + b"\nfive\n"


def test_following_from_before_the_start_through_a_second_attempt(world: World) -> None:
    with world.server(poll_s=0.01) as server, calling(server, world.token) as client:
        world.plane.submit([_spec()])
        received: list[Frame] = []
        thread = threading.Thread(
            target=lambda: received.extend(follow(client, f"{JOBS}/1/logs?follow=true"))
        )
        thread.start()
        world.step()
        world.log(1, b"first\n")
        world.engine.lose((1, 1))
        world.step(1)
        assert world.plane.ask.job(1).attempt == 2
        world.log(1, b"second\n", 2)
        world.step(10)
        thread.join(WAIT_S)
    assert text_of(received).endswith(b"second\n")
    assert [json.loads(frame.data).get("attempt") for frame in received][-2] == 2
    assert received[-1].event == "end"


def test_streams_end_with_their_time(running: World) -> None:
    short = {"stream_s": 0.1, "heartbeat_s": 0.02, "poll_s": 0.01}
    with running.server(**short) as server, calling(server, running.token) as client:
        received = follow(client, f"{JOBS}/1/logs?follow=true")
        assert [frame.event for frame in received] == ["message"]
        assert follow(client, "/api/v1/events?follow=true") == []


def test_what_goes_wrong_in_a_stream(
    running: World, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(client.get(f"{JOBS}/1/logs?follow=true&attempt=2"), 404)

    def broken(job: object) -> dict[str, Any]:
        raise Unavailable("the disk is gone", "find it")

    monkeypatch.setattr(running.plane.ask, "view", broken)
    running.step(10)
    received = follow(client, f"{JOBS}/1/logs?follow=true")
    assert (received[-1].event, json.loads(received[-1].data)["remedy"]) == ("error", "find it")
    with (
        Client(url=str(client.base_url), token=running.token) as api,
        pytest.raises(ApiError, match="the disk is gone") as error,
    ):
        list(api.logs(1, follow=True))
    assert error.value.exit_code == 75


def test_logs_that_are_never_read_are_closed(running: World) -> None:
    path = running.plane.ask.log_path(1)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        LogReader(path).chunks(0, 10)
    assert len(os.listdir("/proc/self/fd")) == before


def test_streams_end_with_the_server(running: World) -> None:
    with running.server(poll_s=0.01) as server, calling(server, running.token) as client:
        received: list[Frame] = []
        stop = threading.Thread(target=server.stop)
        with client.stream("GET", f"{JOBS}/1/logs?follow=true", timeout=120) as answer:
            for frame in frames(answer.iter_lines()):
                if frame.data:
                    received.append(frame)
                    stop.start()
        stop.join()
        assert text_of(received) == TEXT


def test_streams_are_counted(running: World) -> None:
    with (
        running.server(streams=1, poll_s=0.01) as server,
        calling(server, running.token) as client,
        client.stream("GET", f"{JOBS}/1/logs?follow=true") as first,
    ):
        pieces = first.iter_bytes()
        next(pieces)
        refused(client.get("/api/v1/events?follow=true"), 429)


def test_rotated_logs_are_one(tmp_path: Path) -> None:
    path = tmp_path / "1.1.out"
    Path(f"{path}.2").write_bytes(b"a\nb\n")
    Path(f"{path}.1").write_bytes(b"c\nd")
    path.write_bytes(b"d\ne\n")
    log = LogReader(path)
    assert log.size == 11
    assert [log.tail_start(lines) for lines in range(7)] == [11, 9, 6, 4, 2, 0, 0]
    assert b"".join(log.chunks(3, 8)) == b"\nc\ndd"
    assert not LogReader(tmp_path / "none").exists


def test_long_logs_have_tails(tmp_path: Path) -> None:
    path = tmp_path / "out"
    lines = [b"x" * (number % 997) + b"\n" for number in range(2000)]
    path.write_bytes(b"".join(lines))
    with closing(LogReader(path)) as log:
        for count in (1, 150, 1999, 2000, 2001):
            assert log.tail_start(count) == log.size - sum(map(len, lines[-count:]))


def test_following_through_rotations_loses_and_repeats_nothing(tmp_path: Path) -> None:
    from flyball.engines.local.log import Log

    path = tmp_path / "out"
    writer = Log(str(path), 1000, 50)
    follower = LogFollower(path)
    rng = random.Random(7)
    written, read = b"", b""
    for _ in range(300):
        data = rng.randbytes(rng.randrange(120))
        writer.write(data)
        written += data
        if rng.random() < 0.3:
            read += follower.read()
    while chunk := follower.read():
        read += chunk
    assert read == written
    assert follower.offset == len(written)
    follower.close()
    writer.close()
