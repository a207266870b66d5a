"""Our attempts in Slurm's queue: submit, release, watch, withdraw. Runs in a thread of its own.

Every step may fail at any time, as slurmctld may be down or be killed at any time; what was done is
found again in Slurm's list of our jobs, by their comments.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flyball.core.errors import BadInput, FlyballError
from flyball.engines.local import claim
from flyball.engines.slurm.own_attempts import (
    ADOPTING,
    HELD,
    NEW,
    OVER,
    RELEASE,
    WAITING,
    OwnAttempt,
    as_text,
)
from flyball.engines.slurm.own_jobs import OVER as OVER_IN_SLURM
from flyball.engines.slurm.own_jobs import OwnJob, OwnJobs, Token
from flyball.engines.slurm.own_nodes import OwnNodes
from flyball.engines.slurm.own_request import (
    SlurmSettings,
    options_of,
    request_of,
    script_of,
)
from flyball.engines.slurm.shared_folder import SharedFolder

if TYPE_CHECKING:
    from flyball.engines.slurm.engine import SlurmEngine

IDLE_S, MOST_PAUSE_S = 10.0, 15.0
PATIENCE_S = 2.0
"""How long a released job may wait before that is reported."""
GONE_S = 1.0
"""How long Slurm must not have a job before that counts: two polls agree."""

logger = logging.getLogger("flyball.engine")


class OwnQueue:
    """Does with Slurm what the attempts need.

    Attributes:
        failures: turns in a row that failed.
        id_reuses: how often Slurm gave a number of ours to another job.
    """

    def __init__(
        self,
        engine: SlurmEngine,
        jobs: OwnJobs,
        nodes: OwnNodes,
        shared: SharedFolder,
        settings: SlurmSettings,
    ) -> None:
        self._engine, self._jobs, self._nodes = engine, jobs, nodes
        self._shared, self._settings = shared, settings
        self._withdrawn: dict[Token, int] = {}
        self._polled_s = float("-inf")
        self._trouble = ""
        self.failures = 0
        self.id_reuses = 0

    def has_work(self) -> bool:
        """Whether something is to be submitted or released. Hold the engine's lock."""
        return any(
            attempt.phase in (NEW, RELEASE) and not attempt.stop
            for attempt in self._engine.attempts.by_token.values()
        )

    def turn(self) -> float:
        """Do what is due; return how long to rest."""
        try:
            # 1. Adopt what an earlier control plane left before anything new is submitted.
            if self._any(ADOPTING) or self._poll_is_due():
                self._poll()
            # 2. Release what is on record, then submit.
            for attempt in self._of(RELEASE):
                self._release(attempt)
            for attempt in self._of(NEW):
                self._submit(attempt)
            # 3. Cancel what was withdrawn.
            for token, number in list(self._withdrawn.items()):
                self._jobs.cancel(number, token)
                del self._withdrawn[token]
            if self._nodes.due:
                self._nodes.read()
            self._note("")
            self.failures = 0
        except FlyballError as error:
            self.failures += 1
            self._note(str(error))
        except OSError as error:
            self.failures += 1
            self._note(f"the shared folder cannot be used: {error.strerror}")
        if self.failures:
            return min(MOST_PAUSE_S, 0.5 * 2.0 ** min(self.failures, 8))
        return self._settings.poll_s if self._open() else IDLE_S

    def _note(self, trouble: str) -> None:
        """Log a failure once, and tell of the attempts that wait for it to pass."""
        if trouble != self._trouble:
            if trouble:
                logger.warning("slurm: %s", trouble)
            else:
                logger.info("slurm answers again")
            self._trouble = trouble
        if trouble:
            with self._engine.lock:
                for attempt in self._engine.attempts.by_token.values():
                    if attempt.phase != OVER and not attempt.claimed:
                        what = "unknown" if attempt.phase == ADOPTING else "queued"
                        self._engine.attempts.tell(attempt, what, trouble)
            self._engine.tell_loop()

    # What attempts need ------------------------------------------------------------------

    def _of(self, phase: int) -> list[OwnAttempt]:
        with self._engine.lock:
            return [
                attempt
                for attempt in self._engine.attempts.by_token.values()
                if attempt.phase == phase and not attempt.stop and not attempt.claimed
            ]

    def _any(self, phase: int) -> bool:
        return bool(self._of(phase))

    def _open(self) -> bool:
        with self._engine.lock:
            return bool(self._engine.attempts.by_token) or bool(self._withdrawn)

    def _poll_is_due(self) -> bool:
        """Whether Slurm should be asked: often while something waits there, seldom otherwise."""
        age_s = time.monotonic() - self._polled_s
        if age_s < self._settings.poll_s:
            return False
        with self._engine.lock:
            attempts = list(self._engine.attempts.by_token.values())
            waits = any(
                attempt.phase != OVER and (attempt.killed or not attempt.claimed)
                for attempt in attempts
            )
            silent = any(
                attempt.claimed
                and attempt.phase != OVER
                and self._engine.attempts.silent_s(attempt) > self._settings.lease_s / 2
                for attempt in attempts
            )
        return waits or silent or bool(self._withdrawn) or age_s >= IDLE_S

    def _submit(self, attempt: OwnAttempt) -> None:
        """Submit an attempt, held; one that may have been submitted before is adopted instead."""
        launch = attempt.launch
        assert launch is not None, attempt
        if claim.read(self._shared.claims, *attempt.token) is not None:
            with self._engine.lock:
                attempt.phase = WAITING  # of a history that this journal does not have
            return
        try:
            options = options_of(launch, self._nodes.by_name(), self._settings)
            request = request_of(
                launch, self._shared, self._settings, self._nodes.addresses, self._engine.access
            )
            self._shared.write("requests", attempt.name, as_text(request))
            output = f"--output={self._shared.file('slurm', attempt.name)}.out"
            script = script_of(self._shared, attempt.token, self._settings)
            number = self._jobs.submit(attempt.token, [*options, output], script)
        except BadInput as error:
            self._refused(attempt, str(error))
            return
        except FlyballError:
            with self._engine.lock:
                attempt.phase = ADOPTING  # it is not known whether Slurm took it
            raise
        self._take(attempt, number)

    def _take(self, attempt: OwnAttempt, number: int) -> None:
        """Note Slurm's number of an attempt; it is released once that is in the journal."""
        self._shared.write("slurm", attempt.name, str(number))
        with self._engine.lock:
            attempt.number, attempt.absent_s = number, 0.0
            if attempt.phase in (NEW, ADOPTING):
                attempt.phase = HELD
        self._engine.tell_loop()

    def _refused(self, attempt: OwnAttempt, why: str) -> None:
        """End an attempt that Slurm will never take; nothing else may have begun it."""
        with self._engine.lock:
            if self._engine.attempts.make_void(attempt, why):
                now_us = self._engine.attempts.over[attempt.token].time_us
                values = {"exit_code": 127, "signal": 0, "why": "boot", "message": why}
                self._engine.attempts.end(attempt, "ended", now_us, values)
        self._engine.tell_loop()

    def _release(self, attempt: OwnAttempt) -> None:
        listed = self._jobs.listed([attempt.number])
        if not any(job.token == attempt.token for job in listed):
            self._poll()
            return
        self._jobs.release(attempt.number, attempt.token)
        with self._engine.lock:
            if attempt.phase == RELEASE:
                attempt.phase, attempt.released_s = WAITING, time.monotonic()

    # What Slurm says ---------------------------------------------------------------------

    def _poll(self) -> None:
        """Compare Slurm's list of our jobs with the attempts."""
        asked_s = time.monotonic()
        with self._engine.lock:
            asked = dict(self._engine.attempts.by_token)
        listed = self._jobs.listed()
        self._polled_s = time.monotonic()
        present: dict[Token, OwnJob] = {}
        for job in sorted(listed, key=lambda job: job.id):
            if job.state not in OVER_IN_SLURM:
                present[job.token] = job
        self._note_reuses(listed, asked.values())
        tokens = {job.token for job in listed}
        for token, attempt in asked.items():
            if attempt.killed:
                with self._engine.lock:
                    self._engine.attempts.judge(attempt, token in tokens)
            self._compare(attempt, present.get(token), asked_s)
        with self._engine.lock:
            strays = [job for job in present.values() if job.token not in asked]
            known = self._engine.attempts.by_token
            for job in strays:
                if job.token not in known and job.state in ("PD", "R", "S"):
                    self._withdraw(job)
        self._engine.tell_loop()

    def _note_reuses(self, listed: Iterable[OwnJob], asked: Iterable[OwnAttempt]) -> None:
        """Notice numbers of attempts that now belong to another job."""
        token_of = {job.id: job.token for job in listed}
        for attempt in asked:
            other = token_of.get(attempt.number)
            if attempt.number and other is not None and other != attempt.token:
                self.id_reuses += 1
                logger.warning(
                    "slurm gave the number %d of attempt %s to %d.%d: it had forgotten the former",
                    attempt.number, attempt.name, *other,
                )  # fmt: skip
                with self._engine.lock:
                    attempt.number = 0

    def _withdraw(self, job: OwnJob) -> None:
        """Cancel a job of ours that the journal does not expect, and keep it from beginning."""
        head = {"job": job.token[0], "attempt": job.token[1], "pid": 0, "time_us": 0}
        try:
            os.close(claim.make(self._shared.claims, head))
        except OSError:  # it has begun, or has ended
            record = claim.read(self._shared.claims, *job.token)
            if record is not None and not record.void and record.exit is None:
                stray = OwnAttempt(job.token, None, WAITING, job.id, "cancel", stray=True)
                self._engine.attempts.by_token[job.token] = stray
                return
        self._withdrawn[job.token] = job.id

    def _compare(self, attempt: OwnAttempt, job: OwnJob | None, asked_s: float) -> None:
        if job is not None:
            if attempt.phase == ADOPTING:
                self._adopt(attempt, job)
            attempt.absent_s = 0.0
            if attempt.phase == OVER:
                if not attempt.claimed:
                    self._withdrawn[attempt.token] = job.id
            elif attempt.claimed and job.state == "PD":
                # It has begun: slurmctld came back with a state from before, and forgot that.
                if self._lose_if_silent(attempt):
                    self._withdrawn[attempt.token] = job.id
            elif attempt.claimed:
                self._check_silence(attempt, "Slurm says that it runs" * (job.state == "R"))
            elif attempt.phase == WAITING and job.state in ("PD", "CF"):
                self._check_wait(attempt, job)
            elif attempt.phase == WAITING:
                self._check_begin(attempt, job)
            return
        if attempt.phase == OVER or (attempt.phase == NEW and not attempt.number):
            return
        attempt.absent_s = attempt.absent_s or asked_s
        if attempt.claimed:
            self._lose_if_silent(attempt)
        elif attempt.phase == ADOPTING or time.monotonic() - attempt.absent_s >= GONE_S:
            self._give_up(attempt, self._why_gone(attempt))

    def _adopt(self, attempt: OwnAttempt, job: OwnJob) -> None:
        """Take over a job that was submitted by a control plane, or an sbatch, that is gone."""
        self._take(attempt, job.id)
        if job.state != "PD" or "held" not in job.reason.lower():
            with self._engine.lock:
                attempt.phase, attempt.released_s = WAITING, time.monotonic()

    def _lose_if_silent(self, attempt: OwnAttempt) -> bool:
        """Take an attempt as lost that Slurm does not run, once its lease is over."""
        if self._engine.attempts.silent_s(attempt) <= self._settings.lease_s:
            self._check_silence(attempt, "")
            return False
        with self._engine.lock:
            self._engine.attempts.lose(attempt)
        return True

    def _check_silence(self, attempt: OwnAttempt, but: str) -> None:
        silent_s = self._engine.attempts.silent_s(attempt)
        if silent_s > self._settings.lease_s / 2:
            message = f"no sign of life for {self._settings.lease_s / 2:g} s or more"
            message += f", but {but}" if but else ""
            with self._engine.lock:
                self._engine.attempts.tell(attempt, "unknown", message)

    def _check_wait(self, attempt: OwnAttempt, job: OwnJob) -> None:
        """Report that Slurm lets an attempt wait; withdraw it when that takes too long."""
        waited_s = time.monotonic() - attempt.released_s
        if waited_s > self._settings.queue_s:
            why = f"Slurm let it wait for {self._settings.queue_s:g} s ({job.reason})"
            with self._engine.lock:
                self._engine.attempts.tell(attempt, "queued", why)
            self._withdraw_late(attempt, job, why)
        elif waited_s > PATIENCE_S and job.reason:
            with self._engine.lock:
                self._engine.attempts.tell(attempt, "queued", f"Slurm: {job.reason}")

    def _check_begin(self, attempt: OwnAttempt, job: OwnJob) -> None:
        """Withdraw an attempt that runs by Slurm's word, but never began: its node may be gone.

        That is safe, since it is claimed first: it cannot begin any more.
        """
        attempt.running_s = attempt.running_s or time.monotonic()
        limit_s = max(self._settings.begin_s, self._settings.queue_s)
        if time.monotonic() - attempt.running_s > limit_s:
            why = f"by Slurm's word it runs on {job.node_list}, but did not begin in {limit_s:g} s"
            self._withdraw_late(attempt, job, why)

    def _withdraw_late(self, attempt: OwnAttempt, job: OwnJob, why: str) -> None:
        """Give an attempt up that takes too long, and leave its nodes alone for a while."""
        if self._give_up(attempt, why):
            self._withdrawn[attempt.token] = job.id
            if attempt.launch is not None:
                self._nodes.leave_alone(attempt.launch.nodes, why)

    def _why_gone(self, attempt: OwnAttempt) -> str:
        said = self._shared.read("slurm", f"{attempt.name}.out").strip()[:300]
        return said or "Slurm does not have it, and it had not begun"

    def _give_up(self, attempt: OwnAttempt, why: str) -> bool:
        """Keep an attempt from ever beginning; False if it has begun meanwhile."""
        with self._engine.lock:
            given_up = self._engine.attempts.make_void(attempt, why)
        if not given_up:
            return False
        logger.warning("attempt %s did not begin: %s", attempt.name, why)
        if attempt.launch is not None and "see the shared folder" in why:
            self._nodes.leave_alone(attempt.launch.nodes, why)
        return True
