"""`flyball submit`: submits a command, a script with `#SBATCH` lines, or a job file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from flyball.cli.formats import clean, count_text, heading, start_text
from flyball.cli.jobs import sbatch, slurm_options
from flyball.cli.jobs.job_file import ENDINGS, Draft
from flyball.cli.jobs.job_options import with_job_options, written
from flyball.cli.jobs.parse_job import Request, parse_command, parse_wrapped
from flyball.cli.live import JOB_ID, State, connected
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.core.errors import BadInput
from flyball.core.job_fields import FIELDS
from flyball.core.jobs import JobState
from flyball.sdk.submitter import user_name

if TYPE_CHECKING:
    from flyball.sdk.client import Client

EXAMPLES = """\b
Examples:
  flyball submit -- python train.py --epochs 3
  flyball submit -c 2 --elastic 1-4 -- python train.py
  flyball submit -J sweep -c 2 --mem 4G -t 1:30:00 -a 0-9%4 -- python sweep.py
  flyball submit -d afterok:12 --wait -- python evaluate.py
  flyball submit train.sh           (a script, with #SBATCH lines or without)
  flyball submit jobs.yaml          (one job, or several that wait for each other)
  flyball submit --notify https://example.org/hook --notify "./mail.sh me" -- python train.py
  flyball submit --wrap "python train.py | tee log.txt"
  flyball submit --profile optimised/report.json --calls 100000 -- python serve.py
  flyball submit --dry-run -c 2 -- python train.py
\b
Keys of job files and all options: docs/reference/jobs.md. Most other options of
sbatch work too: --gres, --mem-per-cpu, --ntasks-per-node, --gpus-per-task, ...
"""

TIME_LIMIT_CODE = 124
"""Exit code of --wait if a job reached its time limit, as `timeout` has it."""
DASHES = "flyball.dashes"
TAKEN = "flyball.taken"


class Command(TyperCommand):
    """Takes options only before the command, except for a job file, which may come first."""

    allow_interspersed_args = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Record whether `--` precedes the command; move options after a job file before it.

        Options of Slurm that this command does not list are taken out and recorded as well.
        """
        args, ctx.meta[TAKEN] = slurm_options.take(args, self._listed_options())
        values, _left, _order = self.make_parser(ctx).parse_args(args=list(args))
        rest = list(values.get("command") or ())
        before = args[: len(args) - len(rest)]
        ctx.meta[DASHES] = before[-1:] == ["--"]
        if len(rest) > 1 and rest[0].endswith(ENDINGS) and not ctx.meta[DASHES]:
            args = [*before, *rest[1:], rest[0]]
        return super().parse_args(ctx, args)

    def _listed_options(self) -> dict[str, bool]:
        """Return the options that the help lists, and whether each takes a value."""
        options = [parameter for parameter in self.params if parameter.param_type_name == "option"]
        return {
            name: not getattr(parameter, "is_flag", False)
            for parameter in options
            for name in (*parameter.opts, *parameter.secondary_opts)
        } | {"--help": False}


@with_job_options
def submit(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--] COMMAND...", help="A command, a script or a job file."),
    ] = None,
    wrap: Annotated[
        str | None,
        typer.Option("--wrap", metavar="TEXT", help="Shell command to run instead of COMMAND."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print where and when it would run; submit nothing.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="FILE",
            help="report.json of `flyball optimize`: sets cores, memory and, with --calls, time.",
        ),
    ] = None,
    calls: Annotated[
        float | None,
        typer.Option("--calls", metavar="N", help="With --profile: calls of the model in the job."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", "-W", help="Wait until it ends; exit with its exit code.")
    ] = False,
    as_json: AsJson = False,
    state: State = None,
    **stated: Any,
) -> None:
    """Submit a job; print its number."""
    # 1. Collect the options as they were written.
    options = written(stated) | ctx.meta.get(TAKEN, {})
    options |= _profiled(profile, calls, options)
    # 2. Parse them.
    if bool(command) == (wrap is not None):
        what = "both a command and --wrap" if command else "no command"
        raise BadInput(what, "e.g. flyball submit -- python train.py")
    request = (
        parse_wrapped(wrap, options)
        if wrap is not None
        else parse_command(command or [], options, bool(ctx.meta.get(DASHES)))
    )
    drafts = request.drafts
    remarks = Remarks(request)
    # 3. Send it.
    with connected(state) as client:
        if dry_run or "dry-run" in request.flags:
            _print_dry_run(client, drafts, remarks, as_json)
            return
        client.on_note = remarks.take
        ids = send(client, drafts)
        try:
            _print_ids(drafts, ids, remarks, as_json)
            code = wait_for(client, ids) if wait or "wait" in request.flags else 0
        except KeyboardInterrupt:
            note(f"submitted jobs continue; flyball cancel {ids[0][0]} ends {ids[0][0]}")
            raise
    raise typer.Exit(code)


def _profiled(
    profile: str | None, calls: float | None, options: Mapping[str, str]
) -> dict[str, str]:
    """Return the options that --profile fills in."""
    if profile is not None:
        from flyball.cli.jobs.profile import is_profile, profile_options

        if is_profile(profile):
            return profile_options(Path(profile), calls, options)
    if calls is not None:
        raise BadInput("--calls needs --profile report.json", "or state --estimate")
    return {} if profile is None else {"profile": profile}  # Slurm's option, which is noted


class Remarks:
    """Prints notes on a submission, each once, and keeps them for `--json`."""

    def __init__(self, request: Request) -> None:
        self._origins = request.origins
        self.rows: list[str] = []
        for remark in request.notes:
            self._print(remark)

    def take(self, row: Mapping[str, Any]) -> None:
        """Print the server's note on a field that has no effect, by the name of its option."""
        field = FIELDS.get(row["field"])
        option = field.long_option if field else ""
        name = f"--{option}" if option else str(row["field"])
        origin = f"{self._origins[option]}: " if option in self._origins else ""
        self._print(clean(f"{origin}{name} has no effect: {row['why']}"))

    def _print(self, remark: str) -> None:
        if remark not in self.rows:
            self.rows.append(remark)
            note(f"note: {remark}")


# Sending ----------------------------------------------------------------------------


def send(client: Client, drafts: Sequence[Draft]) -> list[list[int]]:
    """Submit drafts and return the ids of each; a job goes after those it waits for by name."""
    ids: list[list[int]] = [[] for _ in drafts]
    named = {draft.name: at for at, draft in enumerate(drafts) if "name" in draft.values}
    left = list(range(len(drafts)))
    try:
        while left:
            ready = [at for at in left if _is_ready(drafts[at], named, ids)]
            singles = [at for at in ready if drafts[at].tasks is None]
            if singles:
                jobs = [as_job(client, drafts[at], named, ids) for at in singles]
                for at, job_id in zip(singles, client.submit_many(jobs), strict=True):
                    ids[at] = [job_id]
            for at in ready:
                if tasks := drafts[at].tasks:
                    first = client.submit_job(as_job(client, drafts[at], named, ids))
                    ids[at] = list(range(first, first + len(tasks.indices)))
            left = [at for at in left if not ids[at]]
    except BaseException:
        if accepted := [job_id for job_ids in ids for job_id in job_ids]:
            note(f"submitted before that: {', '.join(map(str, accepted))}")
        raise
    return ids


def _is_ready(draft: Draft, named: Mapping[str, int], ids: Sequence[list[int]]) -> bool:
    return all(JOB_ID.fullmatch(job) or ids[named[job]] for _how, job in draft.after)


def as_job(
    client: Client, draft: Draft, named: Mapping[str, int], ids: Sequence[list[int]]
) -> dict[str, Any]:
    """Return the job as it is sent to the server."""
    exported = sbatch.exported(draft.export, os.environ)
    job: dict[str, Any] = {"user": user_name(), **draft.values}
    job["env"] = {**exported, **draft.values.get("env", {})}
    if draft.tasks:
        job["array"] = draft.tasks.text
        job["env"] |= array_variables(draft.tasks)
    after = []
    for how, other in draft.after:
        numbers = ids[named[other]] if other in named else numbers_of(client, other)
        after += [[how, number] for number in numbers]
    if after:
        job["after"] = after
    return job


def array_variables(tasks: sbatch.Tasks) -> dict[str, str]:
    """Return the variables that describe the whole array to each of its tasks."""
    first, last, count = tasks.indices[0], tasks.indices[-1], len(tasks.indices)
    values = {"COUNT": count, "MIN": first, "MAX": last}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in values.items()}


def numbers_of(client: Client, job: str) -> list[int]:
    """Return the ids that a job number stands for: an array's number means all its tasks."""
    row = client.job(job)
    if "_" in job or not row["array_id"] or row["array_id"] != row["id"]:
        return [row["id"]]
    return sorted(int(task["id"]) for task in client.jobs(array=row["id"]))


def _print_ids(
    drafts: Sequence[Draft], ids: Sequence[list[int]], remarks: Remarks, as_json: bool
) -> None:
    if not as_json:
        for job_ids in ids:
            typer.echo(job_ids[0])
        return
    rows = [
        {"id": job_ids[0], "ids": job_ids} if draft.tasks else {"id": job_ids[0]}
        for draft, job_ids in zip(drafts, ids, strict=True)
    ]
    answer = rows[0] if len(rows) == 1 else {"jobs": rows}
    print_json({**answer, "notes": remarks.rows} if remarks.rows else answer)


def _print_dry_run(
    client: Client, drafts: Sequence[Draft], remarks: Remarks, as_json: bool
) -> None:
    rows = []
    for draft in drafts:
        outside = [(how, job) for how, job in draft.after if JOB_ID.fullmatch(job)]
        alone = Draft(draft.values, outside, draft.tasks, draft.export)
        rows.append({"name": draft.name, **client.dry_run(as_job(client, alone, {}, []))})
        for row in rows[-1].get("notes", ()):
            remarks.take(row)
        if len(outside) < len(draft.after):
            note(f"note: {draft.name}: its dependencies within this file are ignored")
    if as_json:
        print_json(rows[0] if len(rows) == 1 else rows)
        return
    for row in rows:
        typer.echo(dry_run_text(row))


def dry_run_text(row: Mapping[str, Any]) -> str:
    """Return a sentence on where and when a job would run."""
    devices = row.get("devices")
    where = f" on {_devices_text(devices, row)}" if devices else ""
    if not row.get("would_start"):
        return f"{row['name']}: would not start{where} as things stand."
    return f"{row['name']}: would start {start_text(row, where)}."


def _devices_text(count: int, row: Mapping[str, Any]) -> str:
    """Return `2 cores`, or `2 x A100`."""
    is_core = row.get("unit") == "core"
    return count_text(count, "core") if is_core else f"{count} x {row.get('device')}"


# Waiting ----------------------------------------------------------------------------


def wait_for(client: Client, ids: Sequence[list[int]]) -> int:
    """Wait until all jobs have ended; return the exit code, the highest of several."""
    codes = []
    for job_id in (job_id for job_ids in ids for job_id in job_ids):
        job = client.wait(job_id)
        codes.append(exit_code(job))
        if job["state"] != JobState.COMPLETED:
            note(heading(job) + (f" ({clean(job['reason'])})" if job["reason"] else ""))
    return max(codes)


def exit_code(job: Mapping[str, Any]) -> int:
    """Return a job's exit code; 124 after its time limit, 128 + n after signal n."""
    if job["state"] == JobState.TIMEOUT:
        return TIME_LIMIT_CODE
    if job["state"] == JobState.COMPLETED:
        return 0
    if job.get("signal"):
        return 128 + int(job["signal"])
    return int(job["exit_code"] or 1)
