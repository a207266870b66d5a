"""The options of Slurm's `sbatch`: which are supported, ignored or refused here.

Those of a job's fields come from the table of fields.

An option is kept as it was written, under its long name, whether it came from a script or from the
command line; `parse_job` turns options into a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flyball.core.errors import BadInput, UnknownName
from flyball.core.job_fields import FIELDS

_OPTIONS = [row for row in FIELDS.values() if row.option or row.off]
NTASKS = ("ntasks", "n")
"""Slurm's number of tasks, which is not a field: a job gets as many times its cores per task."""

SHORT = {
    **{
        name.removeprefix("-"): row.long_option
        for row in _OPTIONS
        for name in row.option
        if not name.startswith("--")
    },
    NTASKS[1]: NTASKS[0],
    "w": "nodelist",
    "x": "exclude",
    "W": "wait",
    "i": "input",
    "L": "licenses",
    "m": "distribution",
    "B": "extra-node-info",
    "S": "core-spec",
    "M": "clusters",
    "F": "nodefile",
    "k": "no-kill",
    "O": "overcommit",
    "s": "oversubscribe",
    "Q": "quiet",
    "v": "verbose",
}
SAME = {
    **{
        name.removeprefix("--"): row.long_option
        for row in _OPTIONS
        for name in row.option[1:]
        if name.startswith("--")
    },
    "test-only": "dry-run",
}
"""Synonyms of options."""
VALUED = (
    *(row.long_option for row in _OPTIONS if not row.is_switch),
    NTASKS[0],
    *("ntasks-per-gpu", "cpus-per-gpu", "gpus-per-node", "gpus-per-task", "gres"),
    *("mem-per-cpu", "mem-per-gpu"),
)
FLAGS = (
    *(
        name.removeprefix("--")
        for row in _OPTIONS
        if row.is_switch
        for name in (*row.option[:1], row.off)
        if name
    ),
    *("wait", "dry-run", "parsable", "quiet", "verbose"),
)
"""Options without a value. The last three change nothing: only a number is printed anyway."""
REPEATABLE = ("notify",)
"""Options that may be repeated; their values are kept as one text."""
SEPARATOR = "\0"
"""Separates the values of a repeated option; no command-line argument can contain it."""

ONE_NODE = "there is only one node"
ITS_CORES = "a job has exclusive use of its cores"
NO_SUCH = "not supported"
IGNORED = {
    "comment": "",
    "prefer": ONE_NODE,
    "nodelist": ONE_NODE,
    "nodefile": ONE_NODE,
    "exclude": ONE_NODE,
    "contiguous": ONE_NODE,
    "switches": ONE_NODE,
    "spread-job": ONE_NODE,
    "use-min-nodes": ONE_NODE,
    "no-kill": ONE_NODE,
    "wait-all-nodes": ONE_NODE,
    "clusters": "there is only one cluster",
    "reservation": NO_SUCH,
    "licenses": NO_SUCH,
    "exclusive": "a job has exclusive use of its cores and GPUs; request them with -c and -G",
    "oversubscribe": "cores are not shared",
    "overcommit": "cores are not shared",
    "hint": ITS_CORES,
    "threads-per-core": ITS_CORES,
    "cores-per-socket": ITS_CORES,
    "sockets-per-node": ITS_CORES,
    "ntasks-per-core": ITS_CORES,
    "ntasks-per-socket": ITS_CORES,
    "extra-node-info": ITS_CORES,
    "distribution": ITS_CORES,
    "cpu-bind": ITS_CORES,
    "mem-bind": ITS_CORES,
    "gpu-bind": ITS_CORES,
    "gres-flags": ITS_CORES,
    "core-spec": ITS_CORES,
    "thread-spec": ITS_CORES,
    "mincpus": "use -c",
    "tmp": "disk space is not managed",
    "mail-type": "no mail is sent; see --notify",
    "mail-user": "no mail is sent; see --notify",
    "open-mode": "output is appended by every attempt",
    "get-user-env": "see --export",
    "propagate": "resource limits are not propagated",
    "profile": "all jobs are monitored: flyball top, flyball receipt",
    "acctg-freq": "all jobs are monitored: flyball top, flyball receipt",
    "cpu-freq": "flyball cap limits a job's power",
    "gpu-freq": "flyball cap limits a job's power",
    "time-min": "use --estimate",
    "wckey": "use --account",
    "kill-on-invalid-dep": "a job whose dependency can never be met is cancelled",
}
"""Options that have no effect here, and why."""
BARE = frozenset(
    {
        *("contiguous", "spread-job", "use-min-nodes", "no-kill", "exclusive", "oversubscribe"),
        *("overcommit", "get-user-env", "propagate"),
    }
)
"""Ignored options that take no value, or only one after `=`."""
REFUSED = {
    "input": ("a job's standard input is empty", "write '< FILE' after the command in the script"),
    "gpus-per-socket": ("sockets are not distinguished", "use --gpus"),
    "wrap": ("allowed only on the command line", "write the command into the script"),
}
"""Options that would matter and are not supported: why, and what to do instead."""
EVERY = (*VALUED, *FLAGS, *IGNORED, *SAME, *REFUSED)


def long_name(word: str, where: str) -> tuple[str, str | None]:
    """Return the long name of an option and its value, if the same word holds it.

    Args:
        where: the line of the script, for messages.

    Raises:
        UnknownName: not an option of Slurm.
    """
    if word.startswith("--"):
        name, equals, rest = word[2:].partition("=")
        value = rest if equals else None
        if name not in EVERY:
            raise UnknownName(
                f"option in {where}:", f"--{name}", [f"--{option}" for option in EVERY]
            )
    else:
        letter = word[1:2]
        if not word.startswith("-") or letter not in SHORT:
            raise UnknownName(f"option in {where}:", word, [f"-{option}" for option in SHORT])
        name, value = SHORT[letter], word[2:].removeprefix("=") or None
    return SAME.get(name, name), value


def read_words(words: Sequence[str], where: str) -> dict[str, str]:
    """Return the options of a script's line by long name; a flag's value is "".

    Raises:
        BadInput: not understood, or not supported; names the line.
    """
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, value = long_name(word, where)
        if name in REFUSED:
            why, remedy = REFUSED[name]
            raise BadInput(f"{where}: --{name}: {why}", remedy)
        if name in FLAGS or name in BARE:
            options[name] = ""
        else:
            options = joined(options, {name: _needed(value, rest, word, where)})
    return options


def joined(earlier: Mapping[str, str], later: Mapping[str, str]) -> dict[str, str]:
    """Merge options: later ones take precedence, repeatable ones add up."""
    both = {
        name: f"{earlier[name]}{SEPARATOR}{later[name]}"
        for name in REPEATABLE
        if name in earlier and name in later
    }
    return {**earlier, **later, **both}


def _needed(value: str | None, rest: Iterator[str], word: str, where: str) -> str:
    if value is None:
        value = next(rest, None)
    if not value:
        raise BadInput(f"{where}: {word} needs a value", f"write {word}=VALUE")
    return value


def take(args: Sequence[str], listed: Mapping[str, bool]) -> tuple[list[str], dict[str, str]]:
    """Split a command line into what Typer parses and options of Slurm that the help does not list.

    Args:
        args: read up to the first word that is not an option; the rest is the job's command.
        listed: the options that the help lists, with their dashes, and whether each has a value.

    Returns:
        The remaining words, and the options that were taken out.

    Raises:
        BadInput: an option that is not supported.
    """
    kept: list[str] = []
    taken: dict[str, str] = {}
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--"):
        word = args[at]
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        of_slurm = name[2:] in EVERY if name.startswith("--") else name[1:] in SHORT
        count = 1
        if name in listed or not of_slurm:
            count += bool(listed.get(name)) and name == word
            kept += args[at : at + count]
        else:
            long = long_name(word, "")[0]
            alone = long in FLAGS or long in BARE or name != word
            count += not alone
            taken |= read_words(args[at : at + count], "the command line")
        at += count
    return [*kept, *args[at:]], taken


def notes_of(options: Mapping[str, str], origins: Mapping[str, str]) -> list[str]:
    """Return notes on options that have no effect here.

    Args:
        origins: the script's line of each option that comes from a script.
    """
    return [_note(name, origins) for name in options if name in IGNORED]


def _note(name: str, origins: Mapping[str, str]) -> str:
    why = IGNORED[name]
    text = f"--{name} has no effect" + (f": {why}" if why else "")
    return f"{origins[name]}: {text}" if name in origins else text
