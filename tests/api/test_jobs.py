"""Submitting, showing and cancelling jobs, against a real control plane."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
from tests.api.world import SLEEP, World

from flyball.core.workload import CLASS_LABELS

JOBS = "/api/v1/jobs"


def ids(client: httpx.Client, jobs: list[dict[str, Any]], **headers: str) -> list[int]:
    done = client.post(f"{JOBS}/batch", json={"jobs": jobs}, headers=headers)
    assert done.status_code == 201, done.text
    job_ids: list[int] = done.json()["ids"]
    return job_ids


def refused(answer: Any, status: int, token: str = "") -> dict[str, Any]:
    """Check that a response is a problem document, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert {"type", "title", "detail", "remedy", "token"} <= set(problem)
    assert not token or problem["token"] == token
    return problem


def test_a_job_from_submission_to_end(world: World, client: httpx.Client) -> None:
    done = client.post(JOBS, json=SLEEP)
    assert done.status_code == 201
    job = done.json()["id"]
    assert done.headers["location"] == f"{JOBS}/{job}"
    shown = client.get(done.headers["location"]).json()
    assert (shown["state"], shown["name"], shown["start_time"]) == ("PENDING", "sleep", None)
    world.step()
    assert client.get(f"{JOBS}/{job}").json()["state"] == "RUNNING"
    assert [job_view["id"] for job_view in client.get("/api/v1/queue").json()["jobs"]] == [job]
    world.step(10)
    ended = client.get(f"{JOBS}/{job}").json()
    assert (ended["state"], ended["exit_code"]) == ("COMPLETED", 0)
    assert client.get("/api/v1/queue").json() == {
        "jobs": [], "total": 0, "pending": 0, "next": None,
    }  # fmt: skip
    assert client.get(f"{JOBS}/{job}/receipt").status_code == 200


def test_every_field_arrives(world: World, client: httpx.Client, tmp_path: Path) -> None:
    first = client.post(JOBS, json=SLEEP).json()["id"]
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    stated = {
        "argv": ["python", "-c", "print(1)\nprint('ä')"], "name": "train ä", "env": {"A_1": "x\ty"},
        "user": "ann", "tenant": "lab", "cpus": 2, "milli": 1000, "memory_mib": 100,
        "limit_s": 60, "estimate_s": 30.5, "priority": -1.5, "kind": "mixed", "model": "LM",
        "after": [["afterany", first]], "requeue": False, "preemptible": False, "grace_s": 1,
        "checkpoint_signal": 10, "nice": 5,
    }  # fmt: skip
    paths = {"cwd": f"{tmp_path}/link/../link/.", "stdout": f"{tmp_path}/link/out"}
    job = client.post(JOBS, json={**stated, **paths}).json()["id"]
    spec = world.plane.ask.job(job).spec
    for name, value in stated.items():
        if name not in ("argv", "after"):
            assert getattr(spec, name) == value
    assert spec.argv == tuple(stated["argv"])  # type: ignore[arg-type]
    assert spec.after == (("afterany", first),)
    there = os.path.realpath(tmp_path / "there")
    assert (spec.cwd, spec.stdout) == (there, f"{there}/out")


def test_kinds_are_the_classes() -> None:
    from flyball.api.models import JOB

    for kind in ("", *CLASS_LABELS):
        assert JOB.validate_python({"argv": ["a"], "kind": kind})["kind"] == kind


WRONG: list[dict[str, Any]] = [
    {}, {"argv": []}, {"argv": [""]}, {"argv": "ls"}, {"argv": ["a\0b"]}, {"argv": ["\x1b[2J"]},
    {"argv": ["x" * 200_000]}, {"argv": [1]}, {"name": "a\nb"}, {"name": "x" * 201},
    {"cwd": "here"}, {"cwd": ""}, {"cwd": "/a\0"}, {"env": {"1A": "x"}}, {"env": {"A=": "x"}},
    {"env": {"A": 1}}, {"env": {"A": "\0"}}, {"cpus": 0}, {"cpus": 1.5}, {"cpus": "2"},
    {"cpus": True}, {"cpus": 10**30}, {"gpus": -1}, {"milli": 0}, {"milli": 1001},
    {"memory_mib": -1}, {"limit_s": -1}, {"limit_s": "1"}, {"priority": 1e300},
    {"kind": "odd"}, {"after": [["afterok"]]}, {"after": [["when", 1]]}, {"nice": 20},
    {"after": [["afterok", 0]]}, {"checkpoint_signal": 65}, {"stdout": "out"}, {"shell": True},
    {"array": "9-0"}, {"array": "a"}, {"array": "0-9999999"}, {"array": "0-3%"}, {"array": ""},
]  # fmt: skip


def test_bad_values_are_refused(client: httpx.Client) -> None:
    for wrong in WRONG:
        body = wrong if not wrong or "argv" in wrong else {"argv": ["true"], **wrong}
        problem = refused(client.post(JOBS, json=body), 422, "bad-input")
        assert problem["errors"][0]["where"], wrong
    assert client.get(JOBS).json()["jobs"] == []


def test_a_wrong_value_is_not_repeated(client: httpx.Client) -> None:
    body = {"argv": ["true"], "env": {"PASSWORD": "hunter2\0"}}
    assert "hunter2" not in client.post(JOBS, json=body).text


def test_what_is_no_json(client: httpx.Client) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (b"", b"{", b"\xff\xfe", b'{"argv":["\\ud800"]}', b"[" * 100_000):
        refused(client.post(JOBS, content=body, headers=headers), 400, "bad-json")


def test_a_form_is_no_job(client: httpx.Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client.post(JOBS, content=b'{"argv":["a"]}', headers={"Content-Type": kind})
        refused(answer, 415, "not-json")


def test_a_job_that_never_fits(client: httpx.Client) -> None:
    problem = refused(client.post(JOBS, json={**SLEEP, "cpus": 500}), 422)
    assert "500" in problem["detail"]
    refused(client.post(JOBS, json={**SLEEP, "after": [["afterok", 99]]}), 404)


def test_batches_are_all_or_none(client: httpx.Client) -> None:
    assert ids(client, [SLEEP] * 3) == [1, 2, 3]
    refused(client.post(f"{JOBS}/batch", json={"jobs": [SLEEP, {**SLEEP, "cpus": 500}]}), 422)
    problem = refused(client.post(f"{JOBS}/batch", json={"jobs": [SLEEP, {"argv": [""]}]}), 422)
    assert problem["errors"][0]["where"] == "jobs.1.argv.0"
    refused(client.post(f"{JOBS}/batch", json={"jobs": []}), 422)
    refused(client.post(f"{JOBS}/batch", json={"jobs": [SLEEP] * 10_001}), 422)
    assert ids(client, [SLEEP]) == [4]


def test_a_batch_has_ten_thousand_jobs_at_most() -> None:
    """`flyball bench parts` measures how long it takes to read them."""
    from pydantic_core import to_json

    from flyball.api.models import BATCH
    from flyball.api.specs import checked, specs_of

    job = {**SLEEP, "name": "x", "cwd": "/tmp", "env": {"A": "b"}, "cpus": 2}
    body = to_json({"jobs": [job] * 10_000})
    assert len(specs_of(checked(BATCH, body)["jobs"])) == 10_000


def test_the_same_key_gives_the_same_ids(client: httpx.Client) -> None:
    key = {"Idempotency-Key": "once"}
    first = client.post(JOBS, json=SLEEP, headers=key)
    again = client.post(JOBS, json=SLEEP, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())
    refused(client.post(JOBS, json={**SLEEP, "cpus": 2}, headers=key), 409, "conflict")
    refused(client.post(JOBS, json=SLEEP, headers={"Idempotency-Key": "a b"}), 422)
    refused(client.post(JOBS, json=SLEEP, headers={"Idempotency-Key": "x" * 201}), 422)
    assert len(client.get(JOBS).json()["jobs"]) == 1


def test_arrays(world: World, client: httpx.Client) -> None:
    done = client.post(JOBS, json={**SLEEP, "array": "0-6:3,20%2"}).json()
    assert done["ids"] == [1, 2, 3, 4]
    assert [client.get(f"{JOBS}/{job}").json()["label"] for job in done["ids"]] == [
        "1_0", "1_3", "1_6", "1_20",
    ]  # fmt: skip
    assert client.get(f"{JOBS}/1_6").json()["id"] == 3
    refused(client.get(f"{JOBS}/1_7"), 404)
    refused(client.get(f"{JOBS}/2_0"), 404)
    assert client.delete(f"{JOBS}/1_0").json() == {"ids": [1]}
    assert client.delete(f"{JOBS}/1").json() == {"ids": [2, 3, 4]}
    world.step()
    assert client.delete(f"{JOBS}/1").json() == {"ids": []}
    refused(client.post(f"{JOBS}/batch", json={"jobs": [{**SLEEP, "array": "0-1"}]}), 422)


def test_an_array_of_more_tasks_than_a_page(client: httpx.Client) -> None:
    done = client.post(JOBS, json={**SLEEP, "array": "0-250"}).json()
    assert client.get(f"{JOBS}/1_0").json()["id"] == 1
    assert client.get(f"{JOBS}/1_250").json()["id"] == 251
    assert client.delete(f"{JOBS}/1").json()["ids"] == done["ids"]


def test_pages_and_filters(world: World, client: httpx.Client) -> None:
    ids(client, [{**SLEEP, "name": f"n{i}", "user": "ab"[i % 2]} for i in range(7)])
    world.step()
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get(JOBS, params={"limit": 3, "cursor": cursor}).json()
        seen += [job["id"] for job in page["jobs"]]
        cursor = page["next"]
    assert seen == [7, 6, 5, 4, 3, 2, 1]

    def matching(**filters: Any) -> list[int]:
        return [job["id"] for job in client.get(JOBS, params=filters).json()["jobs"]]

    assert matching(user="b") == [6, 4, 2]
    assert matching(name="N3") == [4]
    assert matching(state=["PENDING", "RUNNING"]) == seen
    assert matching(state="COMPLETED") == []
    assert matching(until=1) == []
    assert matching(since=1_600_000_000) == seen
    assert matching(array=5) == []


def test_filters_that_are_none(client: httpx.Client) -> None:
    for query in ("stat=RUNNING", "state=running", "limit=0", "limit=1001", "cursor=x", "array=-1"):
        refused(client.get(f"{JOBS}?{query}"), 422)


def test_what_is_not_there(client: httpx.Client) -> None:
    for path in ("99", "99/why", "99/receipt", "99/logs", "99/report", "99_1"):
        refused(client.get(f"{JOBS}/{path}"), 404)
    refused(client.delete(f"{JOBS}/99"), 404)
    for path in ("0", "-1", "x", "1_", "1e3", "9" * 40, "%00"):
        refused(client.get(f"{JOBS}/{path}"), 422)


def test_why_and_dry_run(world: World, client: httpx.Client) -> None:
    ids(client, [{**SLEEP, "cpus": 4}] * 3)
    world.step()
    assert client.get(f"{JOBS}/3/why").json()["token"]
    assert client.post(f"{JOBS}/dry-run", json=SLEEP).json()["would_start"] is True
    assert len(client.get(JOBS).json()["jobs"]) == 3


def test_a_job_has_a_class_and_why_says_what_it_gives(world: World, client: httpx.Client) -> None:
    ids(client, [{**SLEEP, "cpus": 4}] * 2)
    world.step()
    [named] = ids(client, [{**SLEEP, "cpus": 4, "kind": "latency"}])
    world.step()
    about = client.get(f"{JOBS}/{named}").json()["class"]
    assert (about["name"], about["named"], about["follows"]) == ("latency-sensitive", True, True)
    assert about["settings"][0]["text"] == "priority 1 (0 requested, +1 by class)"
    answer = client.get(f"{JOBS}/{named}/why").json()
    assert answer["class"] == {**about, "cluster": None}
    assert answer["ahead"] == [], "it goes before the job that came before it"
    classified = client.get(f"{JOBS}/1").json()["class"]
    assert (classified["named"], classified["follows"]) == (False, False)
    assert classified["reason"]
    wrong = client.post(JOBS, json={**SLEEP, "kind": "latencey"})
    assert "latency-sensitive" in wrong.text
    refused(wrong, 422)


def test_progress(world: World, client: httpx.Client) -> None:
    ids(client, [SLEEP])
    world.step()
    assert client.get(f"{JOBS}/1/report").json() == {"job": 1, "values": {}}
    answer = client.post(f"{JOBS}/1/report", json={"values": {"step": 3, "loss": 0.5, "at": "x"}})
    assert (answer.status_code, answer.content) == (204, b"")
    client.post(f"{JOBS}/1/report", json={"values": {"step": 4}, "attempt": 1})
    values = client.get(f"{JOBS}/1/report").json()["values"]
    assert values == {"step": 4, "loss": 0.5, "at": "x"}
    refused(client.post(f"{JOBS}/1/report", json={"values": {}}), 422)
    refused(client.post(f"{JOBS}/1/report", content=b'{"values":{"a":NaN}}',
                        headers={"Content-Type": "application/json"}), 422)  # fmt: skip
