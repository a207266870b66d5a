"""`flyball submit`: a command, a script with `#SBATCH` lines, or a job file becomes jobs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from flyball.cli.jobs import sbatch, slurm_options
from flyball.cli.jobs.job_file import ENDINGS, Draft
from flyball.cli.jobs.parse_job import described, wrapped
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.cli.server.live_options import (
    JOB_ID,
    State,
    clean,
    connected,
    count_text,
    heading,
    start_text,
)
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
Keys of job files and all options: docs/reference/jobs.md. Most others of Slurm's
are known too: --gres, --mem-per-cpu, --ntasks-per-node, --gpus-per-task, ...
"""

TIME_LIMIT = 124
DASHES = "flyball.dashes"
TAKEN = "flyball.taken"


class Command(TyperCommand):
    """Options come before the command, whose own are not ours; a job file may stand anywhere."""

    allow_interspersed_args = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note whether a `--` stands before the command; put options after a job file in front.

        Slurm's options that are not listed here are taken out and noted as well.
        """
        args, ctx.meta[TAKEN] = slurm_options.take(args, self._own())
        found, _left, _order = self.make_parser(ctx).parse_args(args=list(args))
        rest = list(found.get("command") or ())
        before = args[: len(args) - len(rest)]
        ctx.meta[DASHES] = before[-1:] == ["--"]
        if len(rest) > 1 and rest[0].endswith(ENDINGS) and not ctx.meta[DASHES]:
            args = [*before, *rest[1:], rest[0]]
        return super().parse_args(ctx, args)

    def _own(self) -> dict[str, bool]:
        """Options that are listed here: whether each has a value."""
        options = [each for each in self.params if each.param_type_name == "option"]
        return {
            name: not getattr(each, "is_flag", False)
            for each in options
            for name in (*each.opts, *each.secondary_opts)
        } | {"--help": False}


def option(names: str, help: str, metavar: str = "TEXT") -> Any:
    """An option of the job: kept as it is written, and read where scripts' options are read."""
    return typer.Option(*names.split(), help=help, metavar=metavar, show_default=False)


Text = str | None


def submit(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--] COMMAND...", help="A command, a script or a job file."),
    ] = None,
    name: Annotated[Text, option("--job-name --name -J", "Name, for people.")] = None,
    nodes: Annotated[Text, option("--nodes -N", "Nodes; only 1 here.", "N")] = None,
    ntasks: Annotated[Text, option("--ntasks -n", "Tasks; cores are -n times -c.", "N")] = None,
    cpus: Annotated[Text, option("--cpus-per-task -c", "Cores of a task.", "N")] = None,
    gpus: Annotated[Text, option("--gpus -G", "GPUs, or a share of one: 0.25.", "N")] = None,
    elastic: Annotated[
        Text, option("--elastic", "It can go on with this many cores or GPUs.", "MIN-MAX")
    ] = None,
    mem: Annotated[Text, option("--mem", "Host memory, a limit: 512M, 4G.", "SIZE")] = None,
    max_processes: Annotated[
        Text, option("--max-processes", "Processes and threads at a time, a limit.", "N")
    ] = None,
    time_limit: Annotated[
        Text, option("--time -t", "Limit: minutes, HH:MM:SS, D-HH:MM, 90s, 2h.", "TIME")
    ] = None,
    estimate: Annotated[Text, option("--estimate", "What it will take, about.", "TIME")] = None,
    dependency: Annotated[
        Text, option("--dependency -d", "afterok:ID[:ID], afterany:..., afternotok:...")
    ] = None,
    array: Annotated[
        Text, option("--array -a", "Tasks: 0-9, 1,3,5-7:2; %4 = four at a time.")
    ] = None,
    chdir: Annotated[Text, option("--chdir -D", "Where it runs. [default: here]", "DIR")] = None,
    output: Annotated[
        Text, option("--output -o", "File for its output; %j job, %A array, %a task, %x name.")
    ] = None,
    error: Annotated[
        Text, option("--error -e", "File for its stderr alone, named as for --output.", "FILE")
    ] = None,
    export: Annotated[
        Text, option("--export", "Variables it gets: ALL, NONE, A,B=2. [default: PATH and such]")
    ] = None,
    nice: Annotated[Text, option("--nice", "Niceness of its processes, 0 to 19.", "N")] = None,
    account: Annotated[Text, option("--account -A", "On whose account (tenant).")] = None,
    priority: Annotated[Text, option("--priority", "Higher goes first.", "N")] = None,
    requeue: Annotated[
        bool | None,
        typer.Option("--requeue/--no-requeue", help="Run again if its node is lost, or not."),
    ] = None,
    no_preempt: Annotated[
        bool, typer.Option("--no-preempt", help="It may not be set aside.")
    ] = False,
    begin: Annotated[
        Text, option("--begin -b", "Not before: now+1hour, 16:00, tomorrow, 2030-01-20T12:34.")
    ] = None,
    hold: Annotated[
        bool, typer.Option("--hold", "-H", help="Not before flyball release ID.")
    ] = False,
    signal: Annotated[
        Text, option("--signal", "Sent before its time limit: [B:]USR1[@60] (seconds).")
    ] = None,
    notify: Annotated[
        list[str] | None,
        option("--notify", "Told of its end; may be given several times.", "URL|COMMAND"),
    ] = None,
    kind: Annotated[Text, option("--class", "compute-intensive, memory-bound, ...")] = None,
    model: Annotated[Text, option("--model", "What it trains.")] = None,
    wrap: Annotated[Text, option("--wrap", "A line for the shell, instead of a command.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say where and when it would run; submit nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", "-W", help="Wait for its end; exit with its exit code.")
    ] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Submit a job; print its number."""
    # 1. What was asked for, as it was written.
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
    # 2. What that means.
    if bool(command) == (wrap is not None):
        what = "a command as well as --wrap" if command else "no command"
        raise BadInput(what, "e.g. flyball submit -- python train.py")
    asked = (
        wrapped(wrap, options)
        if wrap is not None
        else described(command or [], options, bool(ctx.meta.get(DASHES)))
    )
    drafts = asked.drafts
    for each in asked.notes:
        note(f"note: {each}")
    # 3. Send it.
    with connected(state) as client:
        if dry_run or "dry-run" in asked.flags:
            _print_dry_run(client, drafts, as_json)
            return
        ids = send(client, drafts)
        try:
            _print_ids(drafts, ids, as_json)
            code = wait_for(client, ids) if wait or "wait" in asked.flags else 0
        except KeyboardInterrupt:
            note(f"what was submitted goes on; flyball cancel {ids[0][0]} ends {ids[0][0]}")
            raise
    raise typer.Exit(code)


# Sending ----------------------------------------------------------------------------


def send(client: Client, drafts: Sequence[Draft]) -> list[list[int]]:
    """Submit drafts; the ids of each. Those that wait for a name go after it has a number."""
    ids: list[list[int]] = [[] for _ in drafts]
    named = {draft.name: at for at, draft in enumerate(drafts) if "name" in draft.values}
    left = list(range(len(drafts)))
    try:
        while left:
            ready = [at for at in left if _is_ready(drafts[at], named, ids)]
            singles = [at for at in ready if drafts[at].tasks is None]
            if singles:
                jobs = [as_job(client, drafts[at], named, ids) for at in singles]
                for at, each in zip(singles, client.submit_many(jobs), strict=True):
                    ids[at] = [each]
            for at in ready:
                if tasks := drafts[at].tasks:
                    first = client.submit_job(as_job(client, drafts[at], named, ids))
                    ids[at] = list(range(first, first + len(tasks.indices)))
            left = [at for at in left if not ids[at]]
    except BaseException:
        if accepted := [each for made in ids for each in made]:
            note(f"submitted before that: {', '.join(map(str, accepted))}")
        raise
    return ids


def _is_ready(draft: Draft, named: Mapping[str, int], ids: Sequence[list[int]]) -> bool:
    return all(JOB_ID.fullmatch(job) or ids[named[job]] for _how, job in draft.after)


def as_job(
    client: Client, draft: Draft, named: Mapping[str, int], ids: Sequence[list[int]]
) -> dict[str, Any]:
    """What the server is sent."""
    given = sbatch.exported(draft.export, os.environ)
    job: dict[str, Any] = {"user": user_name(), **draft.values}
    job["env"] = {**given, **draft.values.get("env", {})}
    if draft.tasks:
        job["array"] = draft.tasks.text
        job["env"] |= array_variables(draft.tasks)
    after = []
    for how, other in draft.after:
        numbers = ids[named[other]] if other in named else numbers_of(client, other)
        after += [[how, each] for each in numbers]
    if after:
        job["after"] = after
    return job


def array_variables(tasks: sbatch.Tasks) -> dict[str, str]:
    """What each task is told of all of them."""
    first, last, count = tasks.indices[0], tasks.indices[-1], len(tasks.indices)
    values = {"COUNT": count, "MIN": first, "MAX": last}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in values.items()}


def numbers_of(client: Client, job: str) -> list[int]:
    """The ids that a number means: that of an array means all its tasks."""
    found = client.job(job)
    if "_" in job or not found["array_id"] or found["array_id"] != found["id"]:
        return [found["id"]]
    return sorted(int(each["id"]) for each in client.jobs(array=found["id"]))


def _print_ids(drafts: Sequence[Draft], ids: Sequence[list[int]], as_json: bool) -> None:
    if not as_json:
        for each in ids:
            typer.echo(each[0])
        return
    rows = [
        {"id": made[0], "ids": made} if draft.tasks else {"id": made[0]}
        for draft, made in zip(drafts, ids, strict=True)
    ]
    print_json(rows[0] if len(rows) == 1 else {"jobs": rows})


def _print_dry_run(client: Client, drafts: Sequence[Draft], as_json: bool) -> None:
    rows = []
    for draft in drafts:
        outside = [(how, job) for how, job in draft.after if JOB_ID.fullmatch(job)]
        alone = Draft(draft.values, outside, draft.tasks, draft.export)
        rows.append({"name": draft.name, **client.dry_run(as_job(client, alone, {}, []))})
        if len(outside) < len(draft.after):
            note(f"note: {draft.name}: without the jobs of this file it would wait for")
    if as_json:
        print_json(rows[0] if len(rows) == 1 else rows)
        return
    for row in rows:
        typer.echo(dry_run_text(row))


def dry_run_text(row: Mapping[str, Any]) -> str:
    """Where and when a job would run, in a sentence."""
    devices = row.get("devices")
    where = f" on {_devices_text(devices, row)}" if devices else ""
    if not row.get("would_start"):
        return f"{row['name']}: would not start{where} as things stand."
    return f"{row['name']}: would start {start_text(row, where)}."


def _devices_text(count: int, row: Mapping[str, Any]) -> str:
    """`2 cores`, or `2 x A100`."""
    is_core = row.get("unit") == "core"
    return count_text(count, "core") if is_core else f"{count} x {row.get('device')}"


# Waiting ----------------------------------------------------------------------------


def wait_for(client: Client, ids: Sequence[list[int]]) -> int:
    """Wait until all have ended; the exit code: that of the job, or the highest of several."""
    codes = []
    for each in (each for made in ids for each in made):
        job = client.wait(each)
        codes.append(exit_code(job))
        if job["state"] != JobState.COMPLETED:
            note(heading(job) + (f" ({clean(job['reason'])})" if job["reason"] else ""))
    return max(codes)


def exit_code(job: Mapping[str, Any]) -> int:
    """A job's own exit code; 124 after its time limit, 128 + n after signal n."""
    if job["state"] == JobState.TIMEOUT:
        return TIME_LIMIT
    if job["state"] == JobState.COMPLETED:
        return 0
    if job.get("signal"):
        return 128 + int(job["signal"])
    return int(job["exit_code"] or 1)
