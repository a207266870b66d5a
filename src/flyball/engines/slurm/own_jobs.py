"""Slurm's commands on jobs of this control plane: submit held, pin and release, cancel, list.

A job of ours has the comment `flyball:CLUSTER:JOB.ATTEMPT` and the name `fly-JOB.ATTEMPT`. Slurm's
numbers are no fencing tokens: slurmctld that is killed forgets what it accepted a moment ago and
gives the same number to another job. So each command on a number also names the job, and does
nothing to another one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flyball.core.errors import BadInput, DataAbsent, FlyballError, Unavailable
from flyball.engines.slurm.commands import clean_environment, failure
from flyball.engines.slurm.queue_text import NOTHING, cpus_of, memory_mib, requested_gpus

Token = tuple[int, int]
TIME_LIMIT_S = 20.0
COLUMNS = {
    "JobID": 12,
    "StateCompact": 4,
    "Reason": 64,
    "Comment": 64,
    "Name": 40,
    "NodeList": 128,
    "NumNodes": 8,
    "tres-alloc": 160,
    "tres-per-job": 48,
    "tres-per-node": 48,
}
RECORD_BYTES = sum(COLUMNS.values()) + 1
TRANSIENT = (
    *("temporarily unable to accept", "resource temporarily unavailable", "try again"),
    *("job submit limit", "maxsubmit", "submission limit", "slurm_persist_conn"),
)
"""Texts, in lower case, of a refusal that may pass."""
OVER = ("CD", "CA", "F", "TO", "NF", "BF", "DL", "OOM", "PR", "RV")
"""States of squeue in which a job is over."""
_COMMENT = re.compile(r"flyball:([0-9a-f]{12}):(\d{1,15})\.(\d{1,9})")


class OwnJob(NamedTuple):
    """Holds a job of ours as squeue shows it: number, token, state, reason, nodes.

    Attributes:
        cpus, gpus, memory_mib: what Slurm gave it, or would, on all its nodes together.
    """

    id: int
    token: Token
    state: str
    reason: str
    node_list: str
    cpus: int = 0
    gpus: int = 0
    memory_mib: int = 0


def name_of(token: Token) -> str:
    """Return the name of a job."""
    return f"fly-{token[0]}.{token[1]}"


class OwnJobs:
    """Runs the commands for the jobs of one control plane."""

    def __init__(
        self, cluster: str, environment: Mapping[str, str] | None = None,
        limit_s: float = TIME_LIMIT_S,
    ) -> None:  # fmt: skip
        """
        Args:
            cluster: twelve hexadecimal digits that tell this control plane from others.
            environment: where PATH and SLURM_CONF are taken from; None = that of this process.
        """
        self.cluster, self._limit_s = cluster, limit_s
        self._environment = clean_environment(os.environ if environment is None else environment)

    def submit(self, token: Token, options: Sequence[str], script: str) -> int:
        """Submit a held job; return Slurm's number of it.

        Raises:
            BadInput: Slurm refuses it for good.
            Unavailable: slurmctld does not answer, or not now; it may have taken the job.
        """
        comment = f"flyball:{self.cluster}:{token[0]}.{token[1]}"
        try:
            text = self._run(
                "sbatch",
                [
                    *("--hold", "--parsable", "--no-requeue", f"--comment={comment}"),
                    *(f"--job-name={name_of(token)}", *options),
                ],
                script.encode(),
            )
        except (Unavailable, DataAbsent):
            raise
        except FlyballError as error:
            if any(part in str(error).lower() for part in TRANSIENT):
                raise Unavailable(str(error), "Slurm may take it later") from None
            raise BadInput(f"Slurm refuses it: {error}", "") from None
        number = text.decode("ascii", "replace").strip().partition(";")[0]
        if not number.isdecimal():
            raise Unavailable(f"sbatch printed {text[:80]!r} instead of a number")
        return int(number)

    def release(self, job_id: int, token: Token) -> None:
        """Let a held job start, if the number still is its own."""
        assert any(job.id == job_id and job.token == token for job in self.listed([job_id])), token
        self._run("scontrol", ["release", str(job_id)])

    def cancel(self, job_id: int, token: Token) -> None:
        """Cancel a job; one that has its number by now has another name, and is left alone."""
        self._run("scancel", ["--quiet", f"--name={name_of(token)}", "--me", str(job_id)])

    def listed(self, numbers: Sequence[int] = ()) -> list[OwnJob]:
        """Return our jobs that Slurm knows of.

        Args:
            numbers: only these, all if empty.
        """
        columns = ",".join(f"{name}:{width}" for name, width in COLUMNS.items())
        only = [f"--jobs={','.join(map(str, numbers))}"] if numbers else []
        try:
            text = self._run("squeue", ["--me", "--noheader", "--states=all", *only, "-O", columns])
        except FlyballError as error:
            if numbers and "invalid job id" in str(error).lower():
                return []
            raise
        return read_own(text, self.cluster)

    def holding(self) -> dict[int, OwnJob]:
        """Return our jobs that have nodes, by number."""
        return {job.id: job for job in self.listed() if job.node_list and job.state not in OVER}

    def _run(self, name: str, arguments: Sequence[str], text: bytes | None = None) -> bytes:
        path = shutil.which(name, path=self._environment.get("PATH", os.defpath))
        if path is None:
            raise DataAbsent(
                f"no {name} in PATH",
                "run this where Slurm's commands are installed, or add their folder to PATH",
            )
        try:
            done = subprocess.run(
                [path, *arguments], input=text or b"", capture_output=True,
                timeout=self._limit_s, env=self._environment, check=False, cwd="/",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"{name} did not answer within {self._limit_s:g} s",
                "slurmctld is down or slow; try `scontrol ping`, or again later",
            ) from None
        except OSError as error:
            raise Unavailable(f"{path} cannot be run ({error.strerror})", "check it") from None
        if done.returncode:
            raise failure(name, done.returncode, done.stderr)
        return done.stdout


def read_own(output: bytes, cluster: str) -> list[OwnJob]:
    """Return the jobs in squeue's output whose comment and name are ours, and agree.

    Raises:
        BadInput: the output does not have the columns that were asked for.
    """
    if len(output) % RECORD_BYTES:
        raise BadInput(
            f"squeue printed other columns than were asked for ({len(output)} bytes are no whole "
            f"number of {RECORD_BYTES})",
            "tested with Slurm 22.05; report your version (`squeue --version`) and its output",
        )
    jobs = []
    for begin in range(0, len(output), RECORD_BYTES):
        texts, at = {}, begin
        for column, width in COLUMNS.items():
            texts[column] = output[at : at + width].decode("utf-8", "replace").strip(" ")
            at += width
        match = _COMMENT.fullmatch(texts["Comment"])
        if match is None or match[1] != cluster or not texts["JobID"].isdecimal():
            continue
        token = int(match[2]), int(match[3])
        if texts["Name"] == name_of(token):
            nodes = "" if texts["NodeList"] in NOTHING else texts["NodeList"]
            reason = "" if texts["Reason"] in NOTHING else texts["Reason"]
            tres = texts["tres-alloc"]
            jobs.append(
                OwnJob(
                    int(texts["JobID"]), token, texts["StateCompact"], reason, nodes,
                    cpus_of(tres), requested_gpus(texts)[0], memory_mib(tres),
                )
            )  # fmt: skip
    return jobs
