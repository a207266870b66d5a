"""The `flyball` command: its table of commands, and error handling.

All errors become one line on stderr and an exit code here, in `run`.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from flyball import __version__
from flyball.cli.lazy import LazyGroup, Part
from flyball.cli.suggest import instead_of_command, message_of
from flyball.core.errors import FlyballError

INTERRUPTED = 130
BROKEN_PIPE = 141
TRY_LATER = 75
COMPLETE = "__complete"
"""The first argument of a call by a shell's completion script."""

PARTS = {
    "up": Part("server.up:up", "Queue and run jobs on this machine, or on a Slurm site."),
    "down": Part("server.down:down", "Stop the server cleanly; running jobs keep running."),
    "submit": Part("jobs.submit:submit", "Submit a job; print its number.", kind="Command"),
    "queue": Part("jobs.queue:queue", "List running and waiting jobs, or all jobs with --all."),
    "show": Part(
        "jobs.show:show",
        "Show everything about one job: its request, its state, what it last reported.",
    ),
    "logs": Part("jobs.logs:logs", "Print a job's output; with --stderr, its error file."),
    "cancel": Part(
        "jobs.cancel:cancel",
        "Cancel jobs: waiting ones at once, running ones with SIGTERM and, later, SIGKILL.",
    ),
    "hold": Part(
        "jobs.hold:hold",
        "Keep waiting jobs from starting until they are released.",
        "HOLD_EXAMPLES",
    ),
    "release": Part(
        "jobs.hold:release", "Let held jobs start as soon as they can.", "RELEASE_EXAMPLES"
    ),
    "priority": Part(
        "jobs.hold:priority", "Give jobs another priority; higher goes first.", "PRIORITY_EXAMPLES"
    ),
    "resize": Part(
        "jobs.steer:resize",
        "Change the number of cores or GPUs of a running elastic job.",
        "RESIZE_EXAMPLES",
    ),
    "cap": Part(
        "jobs.steer:cap",
        "Limit a job to a fraction of its cores' time or its GPUs' power.",
        "CAP_EXAMPLES",
    ),
    "checkpoint": Part(
        "jobs.steer:checkpoint",
        "Ask a running job to save a checkpoint and continue.",
        "CHECKPOINT_EXAMPLES",
    ),
    "why": Part(
        "jobs.why:why",
        "Explain why a job waits, which jobs are ahead, when it will start and what would help.",
    ),
    "receipt": Part(
        "jobs.receipt:receipt",
        "Show what a job used: time, cores or GPUs, energy, cost, carbon; what to request next.",
    ),
    "nodes": Part(
        "server.nodes:nodes", "List the nodes: what each has, what is used, and by which jobs."
    ),
    "drain": Part(
        "server.drain:drain",
        "Start no more jobs on nodes until they are resumed; those that run there run on.",
        "DRAIN_EXAMPLES",
    ),
    "resume": Part("server.drain:resume", "Let drained nodes take jobs again.", "RESUME_EXAMPLES"),
    "top": Part(
        "top.command:top",
        "Show devices by job, the queue with reasons and start times, and the log of each job.",
    ),
    "open": Part(
        "server.open:open_dashboard", "Open the dashboard in a browser, by a link that works once."
    ),
    "watch": Part(
        "watch.group:app", "Advise on a queue that another scheduler runs, without changing it."
    ),
    "replay": Part(
        "replay.replay:replay", "Replay a trace on a cluster's twin and compare policies."
    ),
    "report": Part(
        "replay.history_report:report",
        "Write a report on the last days: use, waits, cost, and what else could have been.",
    ),
    "explain": Part(
        "replay.explain:explain",
        "Stop a replay at an instant; explain why each waiting job waits and what would help.",
    ),
    "policies": Part(
        "catalogue:policies", "List the policies and their knobs.", "POLICIES_EXAMPLES"
    ),
    "tuners": Part(
        "tuners:tuners",
        "List the tuners for `replay --tune`, or one tuner's settings for `--tune-set`.",
    ),
    "clusters": Part(
        "catalogue:clusters",
        "List the preset clusters, which can be named instead of a cluster file.",
        "CLUSTERS_EXAMPLES",
    ),
    "devices": Part(
        "catalogue:devices",
        "List the device types with their capability in V100s (ACU) and their power.",
        "DEVICES_EXAMPLES",
    ),
    "doctor": Part(
        "server.doctor:doctor", "Show what this machine offers, what is missing and how to get it."
    ),
    "completion": Part(
        "completion:completion",
        "Print a shell script that completes commands, options, job numbers and policies.",
    ),
    "backup": Part(
        "server.backup:backup",
        "Copy the journal to a file, consistent and verified, even while the server runs.",
        "BACKUP_EXAMPLES",
    ),
    "restore": Part(
        "server.backup:restore",
        "Replace the journal with a backup; the old journal is kept. The server must be stopped.",
        "RESTORE_EXAMPLES",
    ),
    "service": Part(
        "server.service:app", "Run the server as a systemd service of this user, from login on."
    ),
    "token": Part(
        "server.token:app", "Give tokens to users, end them, and replace the state folder's own."
    ),
    "compile": Part(
        "kernels:compile_kernels",
        "Compile the kernels before their first use; about a minute on two cores, once.",
    ),
    "demo": Part(
        "replay.demo:app",
        "Replay a generated week on five mixed nodes under eight policies; `live` runs real jobs.",
    ),
    "trace": Part("trace.group:app", "Describe, convert, generate and export traces."),
    "predict": Part(
        "predict.group:app", "Predict load, run times and demand, with calibrated bands."
    ),
    "learn": Part(
        "learn.group:app", "Train policies that choose the knobs; compare them with simpler ones."
    ),
    "optimize": Part(
        "models.optimize:optimize",
        "Make a model cheaper without changing its results; write it with a report.",
    ),
    "bench": Part("bench.group:app", "Measure this machine, this code and the policies."),
}
"""Every command, in the order in which the help lists them."""


class Flyball(LazyGroup):
    """Groups all commands of `flyball`."""

    parts = PARTS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called; for another tool's name, suggest ours."""
        meant = instead_of_command(args[0]) if args and args[0] not in self.commands else None
        if meant:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="flyball",
    cls=Flyball,
    help="Schedule AI jobs on mixed hardware: run jobs, replay traces, compare policies.",
    epilog="Start with: flyball up, or flyball demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"flyball {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def run(arguments: list[str]) -> int:
    """Run one command and return the exit code; report errors that a user can fix in one line."""
    if arguments[:1] == [COMPLETE]:
        from flyball.cli.completion import print_candidates

        return print_candidates(typer.main.get_group(app), arguments[1:])
    try:
        code = app(args=arguments, prog_name="flyball", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except FlyballError as error:
        code = _report(str(error), error.exit_code)
        if error.details:
            typer.echo(_printable(error.details), err=True)
        return code
    except typer.TyperException as error:
        where = getattr(getattr(error, "ctx", None), "command_path", "flyball")
        message = message_of(error).removesuffix(".")
        return _report(f"{message}; see {where} --help" if message else "", 2)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader of our output has gone; Typer and Rich raise SystemExit only then. Discard
        # the rest of the output, so that Python's final flush does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except MemoryError:
        return _report(
            "not enough memory; use --limit-jobs, fewer --seeds or --workers 1", TRY_LATER
        )
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        return _report(f"{what}{error.strerror or error}; check the path and the disk", 2)


def _report(message: str, code: int) -> int:
    """Print one line on stderr, without control characters, and return the exit code."""
    line = _printable(" ".join(message.split()))
    if line:
        typer.echo(f"flyball: {line}", err=True)
    return code


def _printable(text: str) -> str:
    """Return a text without control characters but with its lines."""
    return "".join(
        character if character.isprintable() or character == "\n" else " " for character in text
    )
