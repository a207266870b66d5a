"""Asks the server, in threads, for what the application shows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from flyball.cli.formats import Job
from flyball.cli.top.frame import Snapshot, recent_rates, take_snapshot
from flyball.cli.top.rows import Starts
from flyball.core.jobs import ACTIVE
from flyball.sdk.errors import ApiError

if TYPE_CHECKING:
    from flyball.cli.top.frame import Rates
    from flyball.sdk.client import Client

SLOW_S = 5.0
"""How often rates and start times, which cost more, are refreshed."""
LOG_BYTES = 64 * 1024
"""How much of the end of a log is shown first."""


class Moment(NamedTuple):
    """A snapshot with the predicted starts."""

    snapshot: Snapshot
    starts: Starts


class JobMoment(NamedTuple):
    """A job, why it waits if it does, and what it printed since the last one."""

    job: Job
    why: dict[str, Any]
    lines: list[str]


class LogPlace:
    """How far a job's log has been read."""

    def __init__(self) -> None:
        self.attempt = 0
        self.offset = -LOG_BYTES
        self.rest = b""


class Poll:
    """Asks for moments; not to be used from two threads at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rates: Rates | None = None
        self._starts: Starts = {}
        self._slow_s = 0.0

    def moment(self) -> Moment:
        """Return what is true now; rates and start times are a few seconds old at most.

        Raises:
            ApiError: the server does not answer.
        """
        now_s = time.monotonic()
        if self._rates is None or now_s - self._slow_s >= SLOW_S:
            self._rates, self._slow_s = recent_rates(self._client), now_s
            rows = self._client.forecast()["starts"]
            self._starts = {row["id"]: (row["p50_s"], row["p90_s"]) for row in rows}
        return Moment(take_snapshot(self._client, self._rates), self._starts)

    def job(self, id: int, place: LogPlace) -> JobMoment:
        """Return a job, with the answer to `why` while it waits, and the new part of its log."""
        job = self._client.job(id)
        why = self._client.why(id) if job["state"] == "PENDING" else {}
        return JobMoment(job, why, self._new_lines(job, place) if job["attempts"] else [])

    def _new_lines(self, job: Job, place: LogPlace) -> list[str]:
        """Return whole lines; the last one as well once the job has ended."""
        lines = []
        if place.attempt not in (0, job["attempts"]):
            lines.append(f"--- attempt {job['attempts']} ---")
            place.offset, place.rest = 0, b""
        place.attempt = int(job["attempts"])
        first = place.offset < 0
        part, offset = self._client.log_part(job["id"], place.offset, place.attempt)
        if not part and first:
            return lines
        if first and offset > LOG_BYTES:  # it begins within a line
            part = part.partition(b"\n")[2]
        place.offset = offset
        *whole, place.rest = (place.rest + part).split(b"\n")
        if job["state"] not in ACTIVE and place.rest:
            whole, place.rest = [*whole, place.rest], b""
        return lines + [line.decode(errors="replace") for line in whole]

    def cancel(self, id: int) -> list[int]:
        """Cancel a job; return what was stopped."""
        return self._client.cancel(id)

    def role(self) -> tuple[str, str]:
        """Return name and role of the token; of an older server, those of its owner."""
        try:
            answer = self._client.whoami()
        except ApiError as error:
            if error.status != 404:
                raise
            return "", "operator"
        return str(answer["name"]), str(answer["role"])

    def may_change(self, user: str) -> str:
        """Return "" if the token may change jobs of a user, else why not."""
        name, role = self.role()
        if role == "operator" or (role == "user" and name == user):
            return ""
        if role == "viewer":
            return f"{name} has the role viewer, which may change nothing"
        return f"the job belongs to {user or 'the owner of the state folder'}, not to {name}"
