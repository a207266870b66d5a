"""The `flyball` command: its parts, and the one place where errors become a line and a code."""

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
    "up": Part("server.up:up", "Queue and run jobs on this machine."),
    "down": Part("server.down:down", "Stop the server in order; running jobs run on."),
    "submit": Part("jobs.submit:submit", "Submit a job; print its number.", kind="Command"),
    "queue": Part("jobs.queue:queue", "List jobs: those that run and wait, or all with --all."),
    "show": Part(
        "jobs.show:show",
        "Say everything about one job: what it asked for, where it stands, what it last reported.",
    ),
    "logs": Part(
        "jobs.logs:logs", "Print what a job printed, as it is; with --stderr its error file."
    ),
    "cancel": Part(
        "jobs.cancel:cancel",
        "Cancel jobs: those that wait at once, those that run with SIGTERM and, later, SIGKILL.",
    ),
    "hold": Part(
        "jobs.hold:hold",
        "Keep waiting jobs from starting until they are released.",
        "HOLD_EXAMPLES",
    ),
    "release": Part(
        "jobs.hold:release", "Let held jobs start as soon as they can.", "RELEASE_EXAMPLES"
    ),
    "resize": Part(
        "jobs.steer:resize",
        "Let an elastic job go on with another number of cores or GPUs.",
        "RESIZE_EXAMPLES",
    ),
    "cap": Part(
        "jobs.steer:cap", "Keep a job to a part of what its cores or GPUs could do.", "CAP_EXAMPLES"
    ),
    "checkpoint": Part(
        "jobs.steer:checkpoint",
        "Have a running job save what it has, and go on.",
        "CHECKPOINT_EXAMPLES",
    ),
    "why": Part(
        "jobs.why:why",
        "Say why a job waits, who is ahead, when it will start, and what would help.",
    ),
    "receipt": Part(
        "jobs.receipt:receipt",
        "Say what a job took: time, cores or GPUs, energy, cost, carbon; what to ask next time.",
    ),
    "nodes": Part(
        "server.nodes:nodes", "List the nodes: what each has, what is used, and by which jobs."
    ),
    "top": Part(
        "server.top:top",
        "Show nodes, cores and GPUs by job, the queue and rates, until interrupted.",
    ),
    "replay": Part(
        "replay.replay:replay", "Replay a trace on a cluster's twin and compare policies."
    ),
    "explain": Part(
        "replay.explain:explain",
        "Stop a replay at an instant and say why each waiting job waits, and what would help.",
    ),
    "policies": Part(
        "catalogue:policies", "List the policies and their knobs.", "POLICIES_EXAMPLES"
    ),
    "tuners": Part(
        "tuners:tuners",
        "List the tuners, for `replay --tune`; the settings of one, for `--tune-set`.",
    ),
    "clusters": Part(
        "catalogue:clusters",
        "List the clusters that can be named instead of a file.",
        "CLUSTERS_EXAMPLES",
    ),
    "devices": Part(
        "catalogue:devices",
        "List the device types with their capability in V100s (ACU) and their power.",
        "DEVICES_EXAMPLES",
    ),
    "doctor": Part(
        "server.doctor:doctor", "Say what this machine offers, what is missing and how to get it."
    ),
    "completion": Part(
        "completion:completion",
        "Print a script that has a shell complete commands, options, job numbers and policies.",
    ),
    "backup": Part(
        "server.backup:backup",
        "Copy the journal to a file, consistent and checked, also while the server runs.",
        "BACKUP_EXAMPLES",
    ),
    "restore": Part(
        "server.backup:restore",
        "Put a backup in the place of the journal, which is kept. Not while the server runs.",
        "RESTORE_EXAMPLES",
    ),
    "service": Part(
        "server.service:app", "Have systemd run the server for this user, from login on."
    ),
    "token": Part("server.token:app", "Replace the API's token, the secret of the state folder."),
    "compile": Part(
        "kernels:compile_kernels",
        "Compile the kernels ahead of their first use; about a minute on two cores, once.",
    ),
    "demo": Part(
        "replay.demo:app",
        "Replay a generated week on five mixed nodes under eight policies; `live`: run real jobs.",
    ),
    "trace": Part("trace.group:app", "Look at traces, convert them, make them."),
    "predict": Part(
        "predict.group:app", "Predict load, run times and demand, with bands that are checked."
    ),
    "bench": Part("bench.group:app", "Measure this machine, this code and the policies."),
}
"""Every command, in the order of the help."""


class Top(LazyGroup):
    """All of `flyball`."""

    parts = PARTS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called; of one that another tool has, what ours is called."""
        meant = instead_of_command(args[0]) if args and args[0] not in self.commands else None
        if meant:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="flyball",
    cls=Top,
    help="Which job runs where, when and at what power: run jobs, replay history, compare.",
    epilog="Start with: flyball up, or flyball demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
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
    """Run one command; the process's exit code. Whatever a user can mend is one line."""
    if arguments[:1] == [COMPLETE]:
        from flyball.cli.completion import print_candidates

        return print_candidates(typer.main.get_group(app), arguments[1:])
    try:
        code = app(args=arguments, prog_name="flyball", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except FlyballError as error:
        return _say(str(error), error.exit_code)
    except typer.TyperException as error:
        where = getattr(getattr(error, "ctx", None), "command_path", "flyball")
        message = message_of(error).removesuffix(".")
        return _say(f"{message}; see {where} --help" if message else "", 2)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # Whoever read our output has gone (Typer and Rich then exit by themselves, and for
        # nothing else). Let nothing complain about it when Python flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except MemoryError:
        return _say("not enough memory; use --limit-jobs, fewer --seeds or --workers 1", TRY_LATER)
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        return _say(f"{what}{error.strerror or error}; check the path and the disk", 2)


def _say(message: str, code: int) -> int:
    """One line on stderr, whatever the message holds."""
    line = "".join(each if each.isprintable() else " " for each in " ".join(message.split()))
    if line:
        typer.echo(f"flyball: {line}", err=True)
    return code
