"""`flyball submit`: submits a command, a script with `#SBATCH` lines, or a job file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from flyball.cli.formats import clean, count_text, heading, start_text
from flyball.cli.jobs import sbatch, slurm_options
from flyball.cli.jobs.job_file import ENDINGS, Draft
from flyball.cli.jobs.parse_job import parse_command, parse_wrapped
from flyball.cli.live import JOB_ID, State, connected
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.core.errors import BadInput
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


def option(names: str, help: str, metavar: str = "TEXT") -> Any:
    """Declare an option whose text is parsed later, together with the options of scripts."""
    return typer.Option(*names.split(), help=help, metavar=metavar, show_default=False)


Text = str | None


def submit(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--] COMMAND...", help="A command, a script or a job file."),
    ] = None,
    name: Annotated[Text, option("--job-name --name -J", "Name shown in lists.")] = None,
    nodes: Annotated[
        Text, option("--nodes -N", "Number of nodes; only 1 is supported.", "N")
    ] = None,
    ntasks: Annotated[
        Text, option("--ntasks -n", "Tasks; the job gets -n times -c cores.", "N")
    ] = None,
    cpus: Annotated[Text, option("--cpus-per-task -c", "Cores per task.", "N")] = None,
    gpus: Annotated[Text, option("--gpus -G", "GPUs, or a fraction of one: 0.25.", "N")] = None,
    elastic: Annotated[
        Text,
        option("--elastic", "It can run on any number of cores or GPUs in this range.", "MIN-MAX"),
    ] = None,
    mem: Annotated[Text, option("--mem", "Host memory limit: 512M, 4G.", "SIZE")] = None,
    max_processes: Annotated[
        Text, option("--max-processes", "Limit of processes and threads at a time.", "N")
    ] = None,
    time_limit: Annotated[
        Text, option("--time -t", "Time limit: minutes, HH:MM:SS, D-HH:MM, 90s, 2h.", "TIME")
    ] = None,
    estimate: Annotated[Text, option("--estimate", "Estimated run time.", "TIME")] = None,
    dependency: Annotated[
        Text, option("--dependency -d", "afterok:ID[:ID], afterany:..., afternotok:...")
    ] = None,
    array: Annotated[
        Text, option("--array -a", "Task numbers: 0-9, 1,3,5-7:2; %4 = at most four at a time.")
    ] = None,
    chdir: Annotated[
        Text, option("--chdir -D", "Folder it runs in. [default: the current one]", "DIR")
    ] = None,
    output: Annotated[
        Text, option("--output -o", "File for its output; %j job, %A array, %a task, %x name.")
    ] = None,
    error: Annotated[
        Text, option("--error -e", "Separate file for its stderr; % as in --output.", "FILE")
    ] = None,
    export: Annotated[
        Text,
        option(
            "--export", "Environment variables: ALL, NONE, A,B=2. [default: PATH and a few others]"
        ),
    ] = None,
    nice: Annotated[Text, option("--nice", "Niceness of its processes, 0 to 19.", "N")] = None,
    account: Annotated[
        Text, option("--account -A", "Account (tenant) that the job counts for.")
    ] = None,
    priority: Annotated[
        Text, option("--priority", "Jobs with a higher priority go first.", "N")
    ] = None,
    requeue: Annotated[
        bool | None,
        typer.Option("--requeue/--no-requeue", help="Whether to run it again if its node is lost."),
    ] = None,
    no_preempt: Annotated[bool, typer.Option("--no-preempt", help="Never preempt it.")] = False,
    begin: Annotated[
        Text, option("--begin -b", "Earliest start: now+1hour, 16:00, tomorrow, 2030-01-20T12:34.")
    ] = None,
    hold: Annotated[
        bool, typer.Option("--hold", "-H", help="Do not start it before flyball release ID.")
    ] = False,
    signal: Annotated[
        Text, option("--signal", "Signal to send before its time limit: [B:]USR1[@60] (seconds).")
    ] = None,
    notify: Annotated[
        list[str] | None,
        option("--notify", "Notify this when it ends; may be repeated.", "URL|COMMAND"),
    ] = None,
    kind: Annotated[
        Text, option("--class", "Workload class: compute-intensive, memory-bound, ...")
    ] = None,
    model: Annotated[Text, option("--model", "Model it trains.")] = None,
    wrap: Annotated[Text, option("--wrap", "Shell command line to run instead of COMMAND.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print where and when it would run; submit nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", "-W", help="Wait until it ends; exit with its exit code.")
    ] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Submit a job; print its number."""
    # 1. Collect the options as they were written.
    stated = {
        "job-name": name, "nodes": nodes, "ntasks": ntasks, "cpus-per-task": cpus, "gpus": gpus,
        "elastic": elastic,
        "mem": mem, "max-processes": max_processes, "time": time_limit, "estimate": estimate,
        "dependency": dependency,
        "array": array, "chdir": chdir, "output": output, "error": error,
        "export": export, "nice": nice,
        "account": account, "priority": priority, "signal": signal, "class": kind, "model": model,
        "requeue": "" if requeue else None, "no-requeue": "" if requeue is False else None,
        "no-preempt": "" if no_preempt else None, "begin": begin, "hold": "" if hold else None,
        "notify": slurm_options.SEPARATOR.join(notify) if notify else None,
    }  # fmt: skip
    options = {key: value for key, value in stated.items() if value is not None}
    options |= ctx.meta.get(TAKEN, {})
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
    for remark in request.notes:
        note(f"note: {remark}")
    # 3. Send it.
    with connected(state) as client:
        if dry_run or "dry-run" in request.flags:
            _print_dry_run(client, drafts, as_json)
            return
        ids = send(client, drafts)
        try:
            _print_ids(drafts, ids, as_json)
            code = wait_for(client, ids) if wait or "wait" in request.flags else 0
        except KeyboardInterrupt:
            note(f"submitted jobs continue; flyball cancel {ids[0][0]} ends {ids[0][0]}")
            raise
    raise typer.Exit(code)


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


def _print_ids(drafts: Sequence[Draft], ids: Sequence[list[int]], as_json: bool) -> None:
    if not as_json:
        for job_ids in ids:
            typer.echo(job_ids[0])
        return
    rows = [
        {"id": job_ids[0], "ids": job_ids} if draft.tasks else {"id": job_ids[0]}
        for draft, job_ids in zip(drafts, ids, strict=True)
    ]
    print_json(rows[0] if len(rows) == 1 else {"jobs": rows})


def _print_dry_run(client: Client, drafts: Sequence[Draft], as_json: bool) -> None:
    rows = []
    for draft in drafts:
        outside = [(how, job) for how, job in draft.after if JOB_ID.fullmatch(job)]
        alone = Draft(draft.values, outside, draft.tasks, draft.export)
        rows.append({"name": draft.name, **client.dry_run(as_job(client, alone, {}, []))})
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
