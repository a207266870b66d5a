"""The Python client of a control plane: `flyball.Client()`.

client = flyball.Client()
job = client.submit(["python", "train.py"], gpus=1, limit_s=3600)
print(client.wait(job)["state"])
"""

from __future__ import annotations

import json
import os
import shlex
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from flyball.sdk.errors import ApiError, BadCertificate, NoControlPlane
from flyball.sdk.submitter import carried, user_name
from flyball.sdk.transport import Json, Transport

__all__ = ["ApiError", "BadCertificate", "Client", "NoControlPlane"]

FINAL = frozenset(
    ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL")
)
MOST_JOBS = 10_000
"""Maximum number of jobs in one request."""
MOST_BYTES = 30 * 2**20
"""Maximum size of one request."""
QUEUE_PAGE = 5_000
"""Maximum number of active jobs in one answer."""

JobId = int | str


class Client:
    """A client of a control plane. Usable from several threads; also a context manager.

    Args:
        state: the state folder; default as for `flyball up`.
        url, token: of a control plane other than that of the folder; default, where no folder is
            given: `FLYBALL_URL` and `FLYBALL_TOKEN`, or the file `FLYBALL_TOKEN_FILE`. The token
            may also come from the folder.
        ca: a file of certificates to trust, for `https`.
        timeout_s: of one request; default: `FLYBALL_TIMEOUT_S`, else 60.

    Attributes:
        on_note: called with each note of a submission, `{"field", "why", "jobs"}`: a field that was
            stated and has no effect on that cluster. By default it becomes a Python warning.
    """

    def __init__(
        self,
        state: str | os.PathLike[str] | None = None,
        url: str | None = None,
        token: str | None = None,
        ca: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._transport = Transport(state, url, token, ca, timeout_s)
        self.on_note: Callable[[Json], None] = _warn

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    # Jobs ------------------------------------------------------------------------

    def submit(self, argv: Sequence[str] | None = None, **fields: Any) -> int:
        """Submit a job and return its id. It is durable then.

        Args:
            argv: the command and its arguments, a list.
            fields: as in `docs/reference/jobs.md`: name, cwd, env, cpus, gpus, limit_s, ...
                As with `flyball submit`, `cwd` is the current folder and `user` the current user
                unless stated, and `env` is added to PATH, PYTHONPATH, VIRTUAL_ENV and the like.

        Raises:
            ApiError: the command is a text, or the control plane refuses the job.
        """
        command = fields.pop("argv", None) if argv is None else argv
        if isinstance(command, str | bytes):
            raise _not_a_list(os.fsdecode(command))
        job = {"cwd": os.getcwd(), "user": user_name(), **fields}
        if command is not None:
            job["argv"] = [str(argument) for argument in command]
        job["env"] = {**carried(os.environ), **(fields.get("env") or {})}
        return self.submit_job(job)

    def submit_job(self, job: Mapping[str, Any], key: str = "") -> int:
        """Submit a job as a mapping; return its id, of an array the first one."""
        answer = self._transport.send("POST", "/jobs", dict(job), key or _new_key())
        self._take_notes(answer)
        return int(answer["id"])

    def submit_many(self, jobs: Sequence[Mapping[str, Any]], key: str = "") -> list[int]:
        """Submit many jobs and return their ids, in order.

        Up to ten thousand jobs and 30 MiB are accepted all or none; beyond that, a key makes it
        safe to send the same list again.
        """
        key = key or _new_key()
        ids: list[int] = []
        for number, body in enumerate(_batches(jobs)):
            batch_key = key if number == 0 else f"{key}.{number}"
            answer = self._transport.send("POST", "/jobs/batch", body, batch_key)
            self._take_notes(answer)
            ids += answer["ids"]
        return ids

    def _take_notes(self, answer: Json) -> None:
        for note in answer.get("notes", ()):  # an older server sends none
            self.on_note(note)

    def jobs(self, **filters: Any) -> Iterator[Json]:
        """Yield jobs, the newest first.

        Args:
            filters: state (one or several), user, tenant, name, array, since, until, limit (of a
                page).
        """
        cursor: str | None = ""
        while cursor is not None:
            page = self._transport.get("/jobs", **filters, cursor=cursor or None)
            yield from page["jobs"]
            cursor = page["next"]

    def job(self, id: JobId) -> Json:
        """Return one job."""
        return self._transport.get(f"/jobs/{_path(id)}")

    def cancel(self, id: JobId) -> list[int]:
        """Cancel a job, or all of an array; return the ids that are stopped."""
        ids: list[int] = self._transport.send("DELETE", f"/jobs/{_path(id)}")["ids"]
        return ids

    def cancel_all(self, user: str | None = None, name: str | None = None) -> list[int]:
        """Cancel every active job, or all of a user or with a name; return the stopped ids."""
        filters = {"user": user, "name": name}
        stated = {key: value for key, value in filters.items() if value is not None}
        done = self._transport.send("POST", "/jobs/cancel", stated or {"all": True}, again=True)
        ids: list[int] = done["ids"]
        return ids

    def hold(self, id: JobId, user: str = "") -> list[int]:
        """Keep a pending job, or all of an array, from starting; return the ids that are held."""
        body = {"user": user} if user else {}
        done = self._transport.send("POST", f"/jobs/{_path(id)}/hold", body, again=True)
        ids: list[int] = done["ids"]
        return ids

    def release(self, id: JobId) -> list[int]:
        """Let a held job, or all of an array, start; return the ids that were held."""
        done = self._transport.send("POST", f"/jobs/{_path(id)}/release", {}, again=True)
        ids: list[int] = done["ids"]
        return ids

    def priority(self, id: JobId, priority: float) -> list[int]:
        """Give a job, or all of an array, another priority; return the ids of active ones."""
        body = {"priority": priority}
        done = self._transport.send("POST", f"/jobs/{_path(id)}/priority", body, again=True)
        ids: list[int] = done["ids"]
        return ids

    def resize(self, id: JobId, devices: int, key: str = "") -> Json:
        """Resize an elastic job to a number of devices (cores)."""
        return self._order(id, "resize", {"devices": devices}, key)

    def cap(self, id: JobId, share: float, key: str = "") -> Json:
        """Limit a job to a share of what its devices can do; 1 = no cap."""
        return self._order(id, "cap", {"share": share}, key)

    def checkpoint(self, id: JobId, key: str = "") -> Json:
        """Have a running job save a checkpoint."""
        return self._order(id, "checkpoint", {}, key)

    def _order(self, id: JobId, what: str, body: Json, key: str) -> Json:
        return self._transport.send("POST", f"/jobs/{_path(id)}/{what}", body, key or _new_key())

    def why(self, id: JobId) -> Json:
        """Return why a job waits, when it will start, and what would help."""
        return self._transport.get(f"/jobs/{_path(id)}/why")

    def receipt(self, id: JobId) -> Json:
        """Return what a job used and cost."""
        return self._transport.get(f"/jobs/{_path(id)}/receipt")

    def dry_run(self, job: Mapping[str, Any]) -> Json:
        """Return what would happen to a job, without submitting it."""
        return self._transport.send("POST", "/jobs/dry-run", dict(job), again=True)

    def wait(self, id: JobId, timeout: float | None = None) -> Json:
        """Wait until a job has ended, and return it.

        Raises:
            TimeoutError: it has not ended after `timeout` seconds.
        """
        end_s = None if timeout is None else time.monotonic() + timeout
        pause_s = 0.01
        while (job := self.job(id))["state"] not in FINAL:
            left_s = pause_s if end_s is None else end_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"job {id} is {job['state']} after {timeout:g} s")
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, 0.5)
        return job

    def logs(
        self,
        id: JobId,
        follow: bool = False,
        tail: int | None = None,
        attempt: int = 0,
        stderr: bool = False,
    ) -> Iterator[bytes]:
        """Yield what a job printed, in pieces; with `follow`, until it has ended.

        Args:
            stderr: its error output, if the job asked for a separate file for it.
        """
        path = f"/jobs/{_path(id)}/logs"
        stream = "stderr" if stderr else None
        query = {"tail": tail, "attempt": attempt or None, "stream": stream}
        if not follow:
            with self._transport.open(path, query) as answer:
                yield from answer.iter_bytes()
            return
        for frame in self._transport.follow(path, {**query, "follow": "true"}):
            if frame.event == "end":
                return
            yield str(json.loads(frame.data)["text"]).encode("utf-8", "surrogateescape")

    def log_part(self, id: JobId, start: int, attempt: int = 0) -> tuple[bytes, int]:
        """Return what a job printed from a byte on, and the byte after it; for programs that poll.

        Args:
            start: first byte; a negative number means so many bytes before the end.
            attempt: 0 = the last one.
        """
        path, range_ = (
            f"/jobs/{_path(id)}/logs",
            f"bytes={start}-" if start >= 0 else f"bytes={start}",
        )
        try:
            with self._transport.open(
                path, {"attempt": attempt or None}, {"Range": range_}
            ) as answer:
                part = b"".join(answer.iter_bytes())
                stated = answer.headers.get("Content-Range", "").removeprefix("bytes ")
                first = int(stated.partition("-")[0] or 0)
                return part, first + len(part)
        except ApiError as error:
            if error.status in (404, 416):  # nothing printed yet, or nothing new
                return b"", max(start, 0)
            raise

    def progress(self, id: JobId) -> Json:
        """Return the last values that the job reported."""
        values: Json = self._transport.get(f"/jobs/{_path(id)}/report")["values"]
        return values

    # The cluster -----------------------------------------------------------------

    def queue(self, limit: int = 0, **filters: Any) -> list[Json]:
        """Return the active jobs: the running, then the pending, by priority and submission.

        Args:
            limit: maximum number of jobs; 0 = all, by as many requests as it takes.
            filters: user, tenant, name, state (one or several).
        """
        jobs: dict[int, Json] = {}  # a job that starts between two pages may be on both
        cursor: str | None = ""
        while cursor is not None and (not limit or len(jobs) < limit):
            most = min(limit - len(jobs), QUEUE_PAGE) if limit else QUEUE_PAGE
            page = self.queue_page(most, cursor, **filters)
            jobs |= {job["id"]: job for job in page["jobs"]}
            cursor = page["next"]
        return list(jobs.values())

    def queue_page(self, limit: int = 1000, cursor: str = "", **filters: Any) -> Json:
        """Return a page of the queue: `jobs`, `total` and `pending` of all pages, `next` cursor."""
        return self._transport.get("/queue", **filters, limit=limit, cursor=cursor or None)

    def nodes(self) -> list[Json]:
        """Return the nodes."""
        nodes: list[Json] = self._transport.get("/nodes")["nodes"]
        return nodes

    def drain(self, node: str, reason: str = "") -> Json:
        """Start no more jobs on a node until it is resumed."""
        body = {"reason": reason} if reason else {}
        return self._transport.send("POST", f"/nodes/{_path(node)}/drain", body, again=True)

    def resume(self, node: str) -> Json:
        """Let a drained node take jobs again."""
        return self._transport.send("POST", f"/nodes/{_path(node)}/resume", {}, again=True)

    def signals(self) -> Json:
        """Return the present price and carbon intensity; empty where there are none."""
        return self._transport.get("/signals")

    def decisions(self, after: int = 0, limit: int = 100) -> list[Json]:
        """Return decisions, the oldest first."""
        rows: list[Json] = self._transport.get("/decisions", after=after, limit=limit)["decisions"]
        return rows

    def events(
        self, after: int | None = 0, follow: bool = False, kind: Sequence[str] = (), job: int = 0
    ) -> Iterator[Json]:
        """Yield the events after an event, in order; with `follow`, without end.

        Args:
            after: sequence number of that event; None = only future events (with `follow`).
        """
        query: Json = {"kind": list(kind), "job": job or None}
        if follow:
            for frame in self._transport.follow(
                "/events", {**query, "after": after, "follow": "true"}
            ):
                yield json.loads(frame.data)
            return
        seen = after or 0
        while rows := self._transport.get("/events", **query, after=seen)["events"]:
            yield from rows
            seen = rows[-1]["seq"]

    def telemetry(self) -> Json:
        """Return the newest sample of every sensor."""
        return self._transport.get("/telemetry")

    def series(self, name: str, seconds: float = 3600.0) -> Json:
        """Return one series of the last `seconds`."""
        return self._transport.get("/telemetry/series", name=name, seconds=seconds)

    def forecast(self) -> Json:
        """Return when the pending jobs will start."""
        return self._transport.get("/forecast")

    def whoami(self) -> Json:
        """Return the name and role that the token stands for, and its `rights`."""
        return self._transport.get("/whoami")

    def health(self) -> Json:
        """Return `{"ok", "checks"}`, also of a control plane that is not healthy."""
        return self._transport.get("/healthz", good=(200, 503))

    def sensors(self) -> Json:
        """Return the state of the monitoring agent and its sensors: how often each is read, whether
        it measures, why it is absent, how often it failed."""
        return self._transport.get("/telemetry/sensors")

    def fast(self, seconds: float = 60.0) -> Json:
        """Have every sensor read at its fastest rate for a while (1 to 3600 s)."""
        return self._transport.send("POST", "/telemetry/fast", {"seconds": seconds}, again=True)

    def link(self, read_only: bool = False) -> Json:
        """Return a link that opens the dashboard once: `url`, and `expires` in seconds since 1970.

        Args:
            read_only: the browser may look and change nothing.
        """
        answer = self._transport.send("POST", "/links", {"read_only": read_only}, again=True)
        return {"url": f"{self._transport.url}{answer['path']}", "expires": answer["expires"]}

    def smoothed(
        self, name: str, seconds: float = 3600.0, smooth: str = "median", window_s: float = 1.0
    ) -> Json:
        """Return a smoothed series (`median`, `mean`, `exponential`), with its `features` over the
        last 1, 10 and 60 s."""
        return self._transport.get(
            "/telemetry/series",
            name=name, seconds=seconds, smooth=smooth, window_s=window_s, features="true",
        )  # fmt: skip


def _warn(note: Json) -> None:
    """Warn of a field that was stated and has no effect."""
    warnings.warn(f"{note['field']} has no effect: {note['why']}", stacklevel=4)


def _not_a_list(command: str) -> ApiError:
    """Return the error of a command that is one string."""
    try:
        arguments = shlex.split(command)
    except ValueError:  # an unclosed quote
        arguments = command.split()
    return ApiError(
        422, f"the command is the string {command!r}, not a list of arguments",
        f'write submit({arguments!r}), or submit(["/bin/sh", "-c", TEXT]) for a shell', "bad-input",
    )  # fmt: skip


def _batches(jobs: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield request bodies within the limits, in order."""
    texts: list[bytes] = []
    size = 0
    for job in jobs:
        text = json.dumps(dict(job)).encode()
        if texts and (len(texts) == MOST_JOBS or size + len(text) > MOST_BYTES):
            yield b'{"jobs":[' + b",".join(texts) + b"]}"
            texts, size = [], 0
        texts.append(text)
        size += len(text) + 1
    if texts:
        yield b'{"jobs":[' + b",".join(texts) + b"]}"


def _path(id: JobId) -> str:
    """Return an id as part of a path.

    Raises:
        ApiError: it is not an id, and could change the path.
    """
    text = str(id)
    if not text.replace("_", "", 1).isdigit() or not text.isascii():
        raise ApiError(422, f"{text!r} is not a job id", "write e.g. 12, or 12_3", "bad-input")
    return text


def _new_key() -> str:
    return uuid.uuid4().hex
