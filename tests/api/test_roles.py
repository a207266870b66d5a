"""Every route with every role; jobs of others; tokens that were revoked or have ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from tests.api.test_jobs import JOBS, refused
from tests.api.world import SLEEP, World, calling
from tests.until import WAIT_S, until

from flyball.api.app import ROUTERS
from flyball.api.callers import check_rights, right_of
from flyball.api.guard import OPEN_PATHS
from flyball.api.serve import Server
from flyball.control.access.roles import PEOPLE, RIGHTS, Right, Role
from flyball.control.access.user_tokens import add_token, revoke_token, rotate_token
from flyball.sdk.client import ApiError, Client

API = "/api/v1"
ROUTES = sorted(
    (route.path, method)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute)
    for method in route.methods or ()
)
EXPECTED = {
    "POST /api/v1/jobs": Right.SUBMIT,
    "POST /api/v1/jobs/batch": Right.SUBMIT,
    "POST /api/v1/jobs/dry-run": Right.SUBMIT,
    "DELETE /api/v1/jobs/{job}": Right.CHANGE,
    "POST /api/v1/jobs/cancel": Right.CHANGE,
    "POST /api/v1/jobs/{job}/report": Right.CHANGE,
    "POST /api/v1/jobs/{job}/resize": Right.CHANGE,
    "POST /api/v1/jobs/{job}/cap": Right.CHANGE,
    "POST /api/v1/jobs/{job}/checkpoint": Right.CHANGE,
    "POST /api/v1/jobs/{job}/hold": Right.CHANGE,
    "POST /api/v1/jobs/{job}/priority": Right.CHANGE,
    "POST /api/v1/nodes/{node}/drain": Right.OPERATE,
    "POST /api/v1/nodes/{node}/resume": Right.OPERATE,
    "POST /api/v1/jobs/{job}/release": Right.CHANGE,
    "POST /api/v1/telemetry/fast": Right.OPERATE,
    "POST /api/v1/attempt/report": Right.ATTEMPT,
    "GET /api/v1/attempt/orders": Right.ATTEMPT,
}
"""Routes that need more than the right to read."""


class Party:
    """A served world with a client for every role, and a running job of each of two users."""

    def __init__(self, world: World, server: Server, stack: ExitStack) -> None:
        self.world, self.server, self.stack = world, server, stack
        self.tokens = {
            name: add_token(world.folder, name, role, 1.7e9)
            for name, role in (
                ("eve", Role.VIEWER), ("ada", Role.USER), ("bob", Role.USER), ("op", Role.OPERATOR)
            )
        }  # fmt: skip
        self.owner = self.client(world.token)
        self.clients = {name: self.client(token) for name, token in self.tokens.items()}
        self.ada = self.submit("ada")
        self.bob = self.submit("bob")
        world.step()
        self.attempt = self.client(world.plane.attempt_tokens.token(self.ada, 1))

    def client(self, token: str) -> httpx.Client:
        return self.stack.enter_context(calling(self.server, token))

    def submit(self, name: str, **fields: Any) -> int:
        answer = self.clients[name].post(JOBS, json={**SLEEP, "estimate_s": 500.0, **fields})
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    def state(self, job: int) -> str:
        return str(self.owner.get(f"{JOBS}/{job}").json()["state"])

    def audits(self) -> list[dict[str, Any]]:
        return self.world.plane.ask.events(0, 1000, ["audit"])


@pytest.fixture
def party(world: World) -> Iterator[Party]:
    options = {"burst": 1e9, "failure_burst": 1e9, "token_folder": world.folder, "stream_s": 0.3}
    with ExitStack() as stack:
        yield Party(world, stack.enter_context(world.server(**options)), stack)


def test_every_route_declares_the_right_that_it_should() -> None:
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            for method in route.methods or ():
                name = f"{method} {route.path}"
                open_path = route.path in OPEN_PATHS
                right = None if open_path else EXPECTED.get(name, Right.READ)
                assert right_of(route) == right, name
    bare = APIRoute("/api/v1/new", lambda: None)
    with pytest.raises(AssertionError, match="declares no right"):
        check_rights([bare], OPEN_PATHS.__contains__)


def test_every_route_with_every_role(party: Party) -> None:
    callers = [
        (Role.VIEWER, party.clients["eve"]), (Role.USER, party.clients["bob"]),
        (Role.OPERATOR, party.clients["op"]), (Role.OPERATOR, party.owner),
        (Role.ATTEMPT, party.attempt),
    ]  # fmt: skip
    for path, method in ROUTES:
        right = EXPECTED.get(f"{method} {path}", Right.READ)
        url = path.replace("{job}", "999999")  # no such job: nothing is changed
        for role, client in callers:
            with client.stream(method, url) as answer:
                answer.read()
            place = (method, path, role)
            if path in OPEN_PATHS or right in RIGHTS[role]:
                assert answer.status_code not in (401, 403), place
            else:
                assert answer.status_code == 403, place
                assert answer.json()["token"] == "forbidden", place
                assert answer.json()["remedy"], place


def test_a_user_changes_only_own_jobs(party: Party) -> None:
    ada = party.clients["ada"]
    changes = [
        ("DELETE", "", None), ("POST", "/hold", {}), ("POST", "/release", {}),
        ("POST", "/cap", {"share": 0.5}), ("POST", "/resize", {"devices": 1}),
        ("POST", "/priority", {"priority": 5.0}), ("POST", "/checkpoint", None),
        ("POST", "/report", {"values": {"step": 1}}),
    ]  # fmt: skip
    for method, path, body in changes:
        answer = ada.request(method, f"{JOBS}/{party.bob}{path}", json=body)
        problem = refused(answer, 403, "forbidden")
        assert "belongs to bob, not to ada" in problem["detail"]
    assert party.state(party.bob) == "RUNNING"
    refused(ada.post(f"{JOBS}/cancel", json={"user": "bob"}), 403, "forbidden")
    assert ada.post(f"{JOBS}/cancel", json={"all": True}).json() == {"ids": [party.ada]}
    assert party.clients["op"].delete(f"{JOBS}/{party.bob}").json() == {"ids": [party.bob]}
    cancels = party.world.plane.ask.events(0, 100, ["cancel"])
    assert [event["who"] for event in cancels] == ["ada 127.0.0.1", "op 127.0.0.1"]
    until(lambda: any("belongs to bob" in event["what"] for event in party.audits()))


def test_an_array_of_another_user(party: Party) -> None:
    first = party.submit("bob", array="0-2", begin_time=4e9)
    for label in (first, f"{first}_1"):
        refused(party.clients["ada"].delete(f"{JOBS}/{label}"), 403, "forbidden")
    assert len(party.clients["bob"].delete(f"{JOBS}/{first}").json()["ids"]) == 3


def test_the_user_comes_from_the_token(party: Party) -> None:
    ada = party.clients["ada"]
    answer = ada.post(JOBS, json={**SLEEP, "user": "bob"}).json()
    assert party.owner.get(f"{JOBS}/{answer['id']}").json()["user"] == "ada"
    assert answer["notes"] == [
        {"field": "user", "why": "the token is ada's: so is the job", "jobs": 1}
    ]
    batch = {"jobs": [{**SLEEP, "user": name} for name in ("bob", "ada", "")]}
    answer = ada.post(f"{JOBS}/batch", json=batch).json()
    assert [note["jobs"] for note in answer["notes"]] == [2]
    jobs = [party.owner.get(f"{JOBS}/{id_}").json() for id_ in answer["ids"]]
    assert {job["user"] for job in jobs} == {"ada"}
    assert party.clients["ada"].post(f"{JOBS}/dry-run", json=SLEEP).status_code == 200
    # An operator acts in the token's name as well; the owner of the folder in any.
    job = party.clients["op"].post(JOBS, json={**SLEEP, "user": "bob"}).json()["id"]
    assert party.owner.get(f"{JOBS}/{job}").json()["user"] == "op"
    job = party.owner.post(JOBS, json={**SLEEP, "user": "bob"}).json()["id"]
    assert party.owner.get(f"{JOBS}/{job}").json()["user"] == "bob"
    submitted = party.world.plane.ask.events(0, 100, ["submitted"])
    assert {event["who"] for event in submitted} == {
        f"{name} 127.0.0.1" for name in ("ada", "bob", "op", "api")
    }


def test_holds_of_an_operator(party: Party) -> None:
    job = party.submit("ada", begin_time=4e9)
    ada, op = party.clients["ada"], party.clients["op"]
    assert op.post(f"{JOBS}/{job}/hold", json={"user": "ada"}).json() == {"ids": [job]}
    assert party.owner.get(f"{JOBS}/{job}").json()["held"]["by"] == "op"
    refused(ada.post(f"{JOBS}/{job}/release", json={}), 403, "forbidden")
    assert op.post(f"{JOBS}/{job}/release", json={}).json() == {"ids": [job]}
    assert ada.post(f"{JOBS}/{job}/hold", json={"user": "bob"}).json() == {"ids": [job]}
    assert ada.post(f"{JOBS}/{job}/release", json={}).json() == {"ids": [job]}


def test_keys_of_two_users_are_apart(party: Party) -> None:
    key = {"Idempotency-Key": "mine"}
    ids = [
        party.clients[name].post(JOBS, json=SLEEP, headers=key).json()["id"]
        for name in ("ada", "bob", "ada")
    ]
    assert ids[0] == ids[2] != ids[1]


def test_secrets_of_others_are_hidden(party: Party) -> None:
    fields = {"env": {"WANDB_API_KEY": "secret-1"}, "notify": ["https://hooks.example/secret-2"]}
    job = party.submit("ada", **fields)
    for name, hidden in (("ada", False), ("op", False), ("bob", True), ("eve", True)):
        client = party.clients[name]
        texts = [
            client.get(f"{JOBS}/{job}").text, client.get(JOBS).text,
            client.get(f"{API}/queue").text, client.get(f"{API}/events").text,
            client.get(f"{API}/events", params={"after": 0, "follow": "true"}).text,
        ]  # fmt: skip
        for text in texts:
            assert "WANDB_API_KEY" in text
            assert ("secret-1" in text, "secret-2" in text) == (not hidden, not hidden), name


def test_whoami(party: Party) -> None:
    for name, role in (("eve", "viewer"), ("ada", "user"), ("op", "operator")):
        answer = party.clients[name].get(f"{API}/whoami").json()
        rights = sorted(RIGHTS[Role(role)])
        assert answer == {"name": name, "role": role, "rights": rights, "is_owner": False}
    owner = party.owner.get(f"{API}/whoami").json()
    assert (owner["role"], owner["is_owner"]) == ("operator", True)
    with Client(url=party.server.url, token=party.tokens["ada"]) as client:
        assert client.whoami()["name"] == "ada"


def test_tokens_that_end(party: Party) -> None:
    folder, ada = party.world.folder, party.clients["ada"]
    new = rotate_token(folder, "ada", 1.7e9)
    refused(ada.get(JOBS), 401, "unauthorized")
    assert party.client(new).get(JOBS).status_code == 200
    revoke_token(folder, "ada")
    refused(party.client(new).get(JOBS), 401, "unauthorized")
    assert party.clients["bob"].get(JOBS).status_code == 200
    assert party.state(party.ada) == "RUNNING"
    changes = ("token of ada (user) replaced", "token of ada (user) revoked")
    until(lambda: set(changes) <= {event["what"] for event in party.audits()})
    (folder / "tokens.json").write_text("broken")
    refused(party.clients["bob"].get(JOBS), 401, "unauthorized")
    assert party.owner.get(JOBS).status_code == 200


def test_guesses_at_tokens(party: Party) -> None:
    token = party.tokens["ada"]
    id_, secret = token[4:20], token[21:]
    attempt = party.world.plane.attempt_tokens.token(party.ada, 1)
    guesses = [
        f"fbu_{id_}_{'A' * 43}", f"fbu_{'0' * 16}_{secret}", token[:-1], f"{token}x", secret,
        attempt.replace(f"_{party.ada}_", f"_{party.bob}_"), attempt.replace("_1_", "_2_", 1),
        f"fba_{party.ada}_1_{'A' * 43}", "fba_", "fbu_", "fba_1_1_\xff",
    ]  # fmt: skip
    for guess in guesses:
        header = [(b"Authorization", f"Bearer {guess}".encode("latin-1"))]
        refused(party.owner.get(JOBS, headers=header), 401, "unauthorized")


def test_a_stream_ends_when_its_token_is_revoked(world: World) -> None:
    token = add_token(world.folder, "ada", Role.USER, 1.7e9)
    lines: list[str] = []
    with world.server(token_folder=world.folder) as server, calling(server, token) as client:

        def follow() -> None:
            with client.stream("GET", f"{API}/events?follow=true&after=0") as answer:
                lines.extend(answer.iter_lines())

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        until(lambda: any(line.startswith("data:") for line in lines) or not thread.is_alive())
        revoke_token(world.folder, "ada")
        world.plane.audit("something happened", "tests")
        thread.join(WAIT_S)
        assert not thread.is_alive()
        assert not any("something happened" in line for line in lines)


# Attempts -----------------------------------------------------------------------------


def test_an_attempt_reports_and_reads_its_orders(party: Party) -> None:
    job = party.ada
    answer = party.attempt.post(f"{API}/attempt/report", json={"values": {"step": 3, "loss": 0.5}})
    assert answer.status_code == 204
    shown = party.clients["eve"].get(f"{JOBS}/{job}/report").json()
    assert shown == {"job": job, "values": {"step": 3, "loss": 0.5}}
    wrong: list[Any] = [{"values": {}}, {"values": {"step": 1}, "attempt": 2}, {"job": 1}, {}]
    for body in wrong:
        refused(party.attempt.post(f"{API}/attempt/report", json=body), 422)
    none = party.attempt.get(f"{API}/attempt/orders").json()
    assert none == {"job": job, "attempt": 1, "sequence": 0, "stopping": None, "orders": {}}
    for path, order in (("cap", {"share": 0.5}), ("checkpoint", {})):
        assert party.clients["ada"].post(f"{JOBS}/{job}/{path}", json=order).status_code == 200
    orders = party.attempt.get(f"{API}/attempt/orders").json()
    assert orders["orders"] == {"cap": {"sequence": 1, "share": 0.5}, "checkpoint": {"sequence": 2}}
    assert orders["sequence"] == 2


def test_orders_are_awaited(party: Party) -> None:
    answers: list[Any] = []

    def wait(after: int) -> threading.Thread:
        query = {"after": after, "wait_s": 60}

        def ask() -> None:  # again and again, as a job does: the server ends each wait
            while True:
                answer = party.attempt.get(f"{API}/attempt/orders", params=query)
                body = answer.json()
                if answer.status_code != 200 or body["sequence"] > after or body["stopping"]:
                    answers.append(answer)
                    return

        thread = threading.Thread(target=ask)
        thread.start()
        return thread

    waiting = wait(0)
    party.clients["ada"].post(f"{JOBS}/{party.ada}/cap", json={"share": 0.5})
    waiting.join(WAIT_S)
    assert answers[-1].json()["orders"]["cap"]["share"] == 0.5
    waiting = wait(1)
    party.clients["ada"].delete(f"{JOBS}/{party.ada}")
    waiting.join(WAIT_S)
    last = answers[-1]
    assert last.status_code == 401 or last.json()["stopping"] == "cancel"


def test_the_token_of_an_attempt_that_ended(party: Party) -> None:
    early = party.client(party.world.plane.attempt_tokens.token(party.ada, 2))
    problem = refused(early.get(f"{API}/attempt/orders"), 401, "unauthorized")
    assert f"attempt 2 of job {party.ada} does not run" in problem["detail"]
    assert party.attempt.get(f"{API}/attempt/orders").status_code == 200
    party.clients["ada"].delete(f"{JOBS}/{party.ada}")
    party.world.step()
    party.world.step(600)
    assert party.state(party.ada) == "CANCELLED"
    for answer in (
        party.attempt.get(f"{API}/attempt/orders"),
        party.attempt.post(f"{API}/attempt/report", json={"values": {"step": 4}}),
    ):
        assert "does not run" in refused(answer, 401, "unauthorized")["detail"]
    assert all("refused" not in event["what"] for event in party.audits())  # it is no guess


def test_roles_of_people() -> None:
    assert [str(role) for role in PEOPLE] == ["viewer", "user", "operator"]
    assert all(Right.ATTEMPT not in RIGHTS[role] for role in PEOPLE)


def test_commands_with_a_users_token(party: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYBALL_URL", party.server.url)
    monkeypatch.setenv("FLYBALL_TOKEN", party.tokens["eve"])
    with Client() as client:
        assert client.whoami()["name"] == "eve"
        with pytest.raises(ApiError, match="role viewer, which may not change"):
            client.cancel(party.ada)
