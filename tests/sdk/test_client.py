"""The Python client against a real control plane."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.world import SLEEP, World, stepping
from tests.until import WAIT_S

import flyball
from flyball.sdk.client import ApiError, Client, NoControlPlane
from flyball.sdk.transport import TIMEOUT_S, stated_timeout_s


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "state")
    yield world
    world.plane.close()


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    with world.server(poll_s=0.01), Client(world.folder) as client:
        yield client


def test_importing_flyball_is_light() -> None:
    code = (
        "import sys, flyball; print([m for m in ('httpx', 'numpy', 'json') if m in sys.modules]);"
        "import flyball.sdk.client;"
        "print([m for m in sys.modules if m.startswith('flyball.') and '.sdk' not in m]);"
        "print(flyball.Client.__name__, flyball.report.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "[]", "Client report"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = flyball.nothing


def test_a_job_from_submission_to_end(world: World, client: Client) -> None:
    job = client.submit(["sleep", "5"], estimate_s=5.0, name="nap")
    assert client.job(job)["spec"]["cwd"] == str(Path.cwd())
    assert [job["name"] for job in client.queue()] == ["nap"]
    assert client.why(job)["token"]
    world.step()
    world.log(job, b"hello\n\xff")
    with pytest.raises(TimeoutError, match="RUNNING"):
        client.wait(job, timeout=0.03)
    with stepping(world):
        assert client.wait(job, timeout=WAIT_S)["state"] == "COMPLETED"
    assert b"".join(client.logs(job)) == b"hello\n\xff"
    assert b"".join(client.logs(job, tail=1)) == b"\xff"
    assert b"".join(client.logs(job, follow=True)) == b"hello\n\xff"
    assert client.receipt(job)
    assert client.progress(job) == {}


def test_many_jobs(client: Client) -> None:
    ids = client.submit_many([{**SLEEP, "name": f"n{i}"} for i in range(250)])
    assert ids == list(range(1, 251))
    assert client.submit_many([]) == []
    assert [job["id"] for job in client.jobs(limit=100)] == ids[::-1]
    assert [job["id"] for job in client.jobs(name="n24", state=["PENDING"])] == [
        *range(250, 240, -1), 25,
    ]  # fmt: skip
    assert client.cancel(7) == [7]
    assert client.job(7)["state"] == "CANCELLED"


def test_the_whole_queue(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flyball.sdk.client.QUEUE_PAGE", 4)
    jobs = [{**SLEEP, "user": "ada" if i % 2 else "ben", "name": f"n{i % 3}"} for i in range(11)]
    ids = client.submit_many(jobs)
    assert [job["id"] for job in client.queue()] == ids
    assert [job["id"] for job in client.queue(limit=6)] == ids[:6]
    assert [job["id"] for job in client.queue(user="ada")] == ids[1::2]
    assert [job["id"] for job in client.queue(user="ada", name="n0")] == [ids[3], ids[9]]
    assert client.queue(user="") == [], "nobody is not everybody"
    page = client.queue_page(3, user="ben")
    assert (len(page["jobs"]), page["total"], page["pending"]) == (3, 6, 6)


def test_cancelling_many(world: World, client: Client) -> None:
    jobs = [{**SLEEP, "user": "ada" if i % 2 else "ben", "name": f"n{i % 3}"} for i in range(11)]
    ids = client.submit_many(jobs)
    assert client.cancel_all(user="ada", name="n0") == [ids[3], ids[9]]
    assert client.cancel_all(user="ada") == [ids[1], ids[5], ids[7]]
    assert client.cancel_all(user="") == [], "nobody is not everybody"
    before = world.plane.journal.commits
    assert client.cancel_all() == ids[::2]
    assert world.plane.journal.commits == before + 1
    assert client.cancel_all() == []
    assert {job["state"] for job in client.jobs()} == {"CANCELLED"}


def test_more_than_one_request_holds(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flyball.sdk.client.MOST_JOBS", 3)
    ids = client.submit_many([SLEEP] * 8, key="mine")
    assert ids == list(range(1, 9))
    assert client.submit_many([SLEEP] * 8, key="mine") == ids
    monkeypatch.setattr("flyball.sdk.client.MOST_BYTES", 100)
    assert client.submit_many([SLEEP] * 3) == [9, 10, 11]


def test_the_cluster(client: Client) -> None:
    client.submit_job(SLEEP)
    assert len(client.nodes()) == 2
    assert client.dry_run(SLEEP)["would_start"]
    assert client.health()["ok"]
    assert client.telemetry() == {}
    assert client.forecast()
    assert client.decisions() == []
    assert [event["kind"] for event in client.events()] == ["opened", "submitted"]
    assert next(client.events(follow=True, kind=["submitted"]))["job"] == 1


def test_an_ill_plane_still_answers(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill = {"ok": False, "checks": {"journal": "full"}}
    monkeypatch.setattr(world.plane.ask, "health", lambda: ill)
    assert client.health() == ill


def test_errors(world: World, client: Client) -> None:
    with pytest.raises(ApiError) as missing:
        client.job(99)
    assert (missing.value.status, missing.value.token) == (404, "not-found")
    assert (missing.value.exit_code, str(missing.value)) == (
        2,
        "no job 99; see flyball queue --all",
    )
    with pytest.raises(ApiError) as wrong:
        client.submit(["a"], cpus=0)
    assert wrong.value.errors[0]["where"] == "cpus"
    for odd in ("../nodes", "1/why", "", "\N{FULLWIDTH DIGIT ONE}"):
        with pytest.raises(ApiError, match="is not a job id"):
            client.job(odd)
    with pytest.raises(ApiError, match="no job 99"):
        list(client.logs(99))
    with (
        Client(url=str(client._transport._http.base_url), token="x" * 40) as stranger,
        pytest.raises(ApiError, match="the token is wrong"),
    ):
        stranger.nodes()


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(NoControlPlane) as nobody:
        Client(tmp_path)
    assert str(nobody.value) == "no control plane is running; start one with `flyball up`"
    assert nobody.value.exit_code == 75
    (tmp_path / "token").write_text("x" * 43)
    (tmp_path / "endpoint.json").write_text('{"url": "http://127.0.0.1:1", "pid": 1}')
    with Client(tmp_path) as client, pytest.raises(NoControlPlane):
        client.submit_job(SLEEP)
    for text in ("", "[]", "{}", "\xff"):
        (tmp_path / "endpoint.json").write_text(text)
        with pytest.raises(NoControlPlane):
            Client(tmp_path)
    with pytest.raises(ApiError, match="no token"):
        Client(tmp_path / "none", url="http://127.0.0.1:1")


def test_a_server_that_starts_anew_is_found(world: World) -> None:
    """The client keeps working, and a submission repeated by it is one job."""
    with world.server() as first:
        client = Client(world.folder)
        assert client.submit_job(SLEEP) == 1
    with world.server() as second:
        assert second.url != first.url
        assert client.submit_job(SLEEP) == 2
        assert len(list(client.jobs())) == 2
    client.close()


def test_an_answer_that_is_lost_is_asked_for_again(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx

    request, lost = httpx.Client.request, 2

    def losing(self: httpx.Client, *args: Any, **named: Any) -> httpx.Response:
        nonlocal lost
        answer = request(self, *args, **named)
        if lost:
            lost -= 1
            raise httpx.ReadError("lost on the way")
        return answer

    monkeypatch.setattr(httpx.Client, "request", losing)
    assert client.submit_job(SLEEP) == 1
    assert len(list(client.jobs())) == 1


def test_following_goes_on_after_the_server_did(world: World) -> None:
    world.plane.submit([_spec()])
    world.step()
    world.log(1, b"one\n")
    heard: list[bytes] = []
    with world.server(poll_s=0.01, stream_s=0.2):
        client = Client(world.folder)
        thread = threading.Thread(target=lambda: heard.extend(client.logs(1, follow=True)))
        thread.start()
        time.sleep(0.5)  # the stream has ended once and was opened again
        world.log(1, b"two\n")
        world.step(10)
        thread.join(WAIT_S)
        client.close()
    assert b"".join(heard) == b"one\ntwo\n"


def _spec() -> Any:
    from flyball.core.jobs import JobSpec

    return JobSpec(("sleep", "5"), estimate_s=5.0)


def test_a_timeout_comes_from_the_caller_else_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, token = "http://127.0.0.1:9", "x" * 40
    monkeypatch.setenv("FLYBALL_TIMEOUT_S", "120")
    assert stated_timeout_s() == 120.0
    monkeypatch.delenv("FLYBALL_TIMEOUT_S")
    assert stated_timeout_s() == TIMEOUT_S
    for text in ("soon", "0", "-1", "inf", "nan"):
        monkeypatch.setenv("FLYBALL_TIMEOUT_S", text)
        with pytest.raises(ApiError, match=r"FLYBALL_TIMEOUT_S is .* not a number of seconds"):
            Client(url=address, token=token)
        Client(url=address, token=token, timeout_s=5.0).close()
