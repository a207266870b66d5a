"""The `flyball` command: its parts, and the one place where errors become a line and a code."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from flyball import __version__
from flyball.cli import (
    bench,
    cancel,
    catalogue,
    demo,
    doctor,
    explain,
    kernels,
    logs,
    nodes,
    orders,
    predict,
    queue,
    receipt,
    replay,
    show,
    submit,
    top,
    trace,
    tuners,
    up,
    why,
)
from flyball.core.errors import FlyballError

INTERRUPTED = 130
BROKEN_PIPE = 141
TRY_LATER = 75

app = typer.Typer(
    name="flyball",
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


app.command("up", epilog=up.EXAMPLES)(up.up)
app.command("submit", cls=submit.Command, epilog=submit.EXAMPLES)(submit.submit)
app.command("queue", epilog=queue.EXAMPLES)(queue.queue)
app.command("show", epilog=show.EXAMPLES)(show.show)
app.command("logs", epilog=logs.EXAMPLES)(logs.logs)
app.command("cancel", epilog=cancel.EXAMPLES)(cancel.cancel)
app.command("resize", epilog=orders.RESIZE_EXAMPLES)(orders.resize)
app.command("cap", epilog=orders.CAP_EXAMPLES)(orders.cap)
app.command("checkpoint", epilog=orders.CHECKPOINT_EXAMPLES)(orders.checkpoint)
app.command("why", epilog=why.EXAMPLES)(why.why)
app.command("receipt", epilog=receipt.EXAMPLES)(receipt.receipt)
app.command("nodes", epilog=nodes.EXAMPLES)(nodes.nodes)
app.command("top", epilog=top.EXAMPLES)(top.top)
app.add_typer(demo.app, name="demo")
app.command("replay", epilog=replay.EXAMPLES)(replay.replay)
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
app.add_typer(trace.app, name="trace")
app.add_typer(predict.app, name="predict")
app.command("policies", epilog=catalogue.POLICIES_EXAMPLES)(catalogue.policies)
app.command("tuners", epilog=tuners.EXAMPLES)(tuners.tuners)
app.command("clusters", epilog=catalogue.CLUSTERS_EXAMPLES)(catalogue.clusters)
app.command("devices", epilog=catalogue.DEVICES_EXAMPLES)(catalogue.devices)
app.add_typer(bench.app, name="bench")
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
app.command("compile", epilog=kernels.EXAMPLES)(kernels.compile_kernels)


def run(arguments: list[str]) -> int:
    """Run one command; the process's exit code. Whatever a user can mend is one line."""
    try:
        code = app(args=arguments, prog_name="flyball", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except FlyballError as error:
        return _say(str(error), error.exit_code)
    except typer.TyperException as error:
        where = getattr(getattr(error, "ctx", None), "command_path", "flyball")
        message = error.format_message().strip()
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
