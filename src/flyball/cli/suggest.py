"""Suggestions for commands and options that do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

COMMANDS = {
    **dict.fromkeys(("status", "ps", "ls", "list", "jobs", "stat", "squeue", "qstat"), "queue"),
    **dict.fromkeys(("kill", "stop", "rm", "delete", "abort", "scancel", "qdel"), "cancel"),
    **dict.fromkeys(("run", "sbatch", "srun", "salloc", "qsub", "exec"), "submit"),
    **dict.fromkeys(("sinfo", "node", "hosts", "pbsnodes"), "nodes"),
    **dict.fromkeys(("sacct", "history"), "queue --all"),
    **dict.fromkeys(("scontrol", "info", "describe", "inspect", "get"), "show"),
    **dict.fromkeys(("output", "tail", "cat"), "logs"),
    **dict.fromkeys(("sstat", "htop", "monitor"), "top"),
    **dict.fromkeys(("start", "serve", "server", "daemon"), "up"),
    **dict.fromkeys(("shutdown", "halt", "quit"), "down"),
    **dict.fromkeys(("seff", "usage", "bill", "cost"), "receipt"),
    **dict.fromkeys(("simulate", "sim", "twin"), "replay"),
    "compare": "bench compare",
    "generate": "trace generate",
    "help": "--help",
}
"""Names of commands in other tools, and our commands."""

OPTIONS = {
    **dict.fromkeys(("--cpu", "--cpus", "--core", "--cores", "--threads"), "--cpus-per-task"),
    **dict.fromkeys(("--gpu", "--device", "--devices", "--accelerators"), "--gpus"),
    **dict.fromkeys(("--memory", "--ram", "--mem-mib"), "--mem"),
    **dict.fromkeys(("--limit", "--timeout", "--walltime", "--time-limit"), "--time"),
    **dict.fromkeys(("--state", "--status"), "--states"),
    **dict.fromkeys(("--policies", "--scheduler"), "--policy"),
    **dict.fromkeys(("--depends", "--after"), "--dependency"),
    **dict.fromkeys(("--tenant", "--project"), "--account"),
    **dict.fromkeys(("--stdout", "--out", "--log"), "--output"),
    **dict.fromkeys(("--stderr", "--err"), "--error"),
    **dict.fromkeys(("--cwd", "--workdir", "--directory"), "--chdir"),
    "--follow": "--watch",
    "--job": "--name",
}
"""Names of options in other tools, and ours; suggested if the command has the option."""
CLOSENESS = 0.7
"""Minimum similarity, from 0 to 1, of an option that is suggested."""


def instead_of_command(typed: str) -> str | None:
    """Return our command line for another tool's command `typed`; None = unknown."""
    return f"flyball {COMMANDS[typed]}" if typed in COMMANDS else None


def instead_of_option(typed: str, valid: Sequence[str]) -> str | None:
    """Return the option that was probably meant; None = none is close.

    Args:
        valid: all options of the command, including the short ones.
    """
    other = OPTIONS.get(typed)
    if other in valid:
        return other
    long = [option for option in valid if option.startswith("--")]
    longer = [option for option in long if option.startswith(typed)]
    from difflib import get_close_matches

    close = get_close_matches(typed, long, 1, CLOSENESS)
    return next(iter([*longer, *close]), None)


def message_of(error: Any) -> str:
    """Return a usage error's message; for an unknown option, with a suggestion."""
    typed, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if typed is None or context is None or not hasattr(error, "possibilities"):
        return str(error.format_message()).strip()
    valid = [
        name
        for parameter in context.command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]
    meant = instead_of_option(typed, valid)
    return f"No such option '{typed}'." + (f" Did you mean '{meant}'?" if meant else "")
