"""The options of Slurm's `sbatch`: which mean something here, which do not, which cannot be had.

An option is kept as it was written, under its long name, whether it came from a script or from the
command line; `drafts` makes a job of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flyball.core.errors import BadInput, UnknownName

SHORT = {
    "J": "job-name",
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "G": "gpus",
    "t": "time",
    "p": "partition",
    "d": "dependency",
    "a": "array",
    "D": "chdir",
    "o": "output",
    "e": "error",
    "A": "account",
    "C": "constraint",
    "w": "nodelist",
    "q": "qos",
    "x": "exclude",
    "W": "wait",
    "b": "begin",
    "H": "hold",
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
SAME = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir", "test-only": "dry-run"}
"""Other words, and what they are called here."""
VALUED = (
    *("job-name", "nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task"),
    *("cpus-per-gpu", "gpus", "gpus-per-node", "gpus-per-task", "gres", "mem", "mem-per-cpu"),
    *("mem-per-gpu", "time", "estimate", "dependency", "array", "chdir", "output", "error"),
    *(
        "begin",
        "export",
        "nice",
        "account",
        "priority",
        "signal",
        "class",
        "model",
        "notify",
        "elastic",
        "partition",
    ),
)
FLAGS = (
    "hold",
    "requeue",
    "no-requeue",
    "no-preempt",
    "wait",
    "dry-run",
    "parsable",
    "quiet",
    "verbose",
)
"""The last three: only a number is printed anyway."""
REPEATABLE = ("notify",)
"""Options of which every one counts, not the last; their values are kept as one text."""
SEPARATOR = "\0"
"""Between those: no argument of a command can hold it."""

ONE_NODE = "there is one node here"
ITS_CORES = "a job has the cores it is given to itself, and may use them as it likes"
NO_SUCH = "there are none here"
IGNORED = {
    "partition": "there is one queue here",
    "comment": "",
    "qos": "use --priority or --account",
    "constraint": ONE_NODE,
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
    "clusters": "there is one cluster here",
    "reservation": NO_SUCH,
    "licenses": NO_SUCH,
    "exclusive": "its cores and GPUs are its own; -c and -G ask for all that it needs",
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
    "tmp": "the room on disks is not given out",
    "mail-type": "no mail is sent; see --notify",
    "mail-user": "no mail is sent; see --notify",
    "open-mode": "output is appended by every attempt",
    "get-user-env": "see --export",
    "propagate": "limits are not carried over",
    "profile": "all jobs are watched: flyball top, flyball receipt",
    "acctg-freq": "all jobs are watched: flyball top, flyball receipt",
    "cpu-freq": "flyball cap keeps a job to a part of its power",
    "gpu-freq": "flyball cap keeps a job to a part of its power",
    "time-min": "use --estimate",
    "deadline": "use --priority",
    "wckey": "use --account",
    "kill-on-invalid-dep": "a job whose dependency cannot hold is cancelled",
}
"""Options that change nothing here, and why."""
BARE = frozenset(
    {
        *("contiguous", "spread-job", "use-min-nodes", "no-kill", "exclusive", "oversubscribe"),
        *("overcommit", "get-user-env", "propagate"),
    }
)
"""Ignored options that have no value, or one that stands after `=` only."""
REFUSED = {
    "input": ("a job reads nothing", "write '< FILE' after the command in the script"),
    "gpus-per-socket": ("sockets are not told apart", "use --gpus"),
    "wrap": ("it goes on the command line", "write the command into the script"),
}
"""Options that would change what happens and cannot be had: why, and what to do."""
EVERY = (*VALUED, *FLAGS, *(name for name in IGNORED if name not in VALUED), *SAME, *REFUSED)


def long_name(word: str, where: str) -> tuple[str, str | None]:
    """The long name of an option and its value, if the same word holds it.

    Args:
        where: the line of the script.

    Raises:
        BadInput: no option of Slurm, or one that cannot be had here.
    """
    if word.startswith("--"):
        name, equals, rest = word[2:].partition("=")
        value = rest if equals else None
        if name not in EVERY:
            raise UnknownName(f"option in {where}:", f"--{name}", [f"--{each}" for each in EVERY])
    else:
        letter = word[1:2]
        if not word.startswith("-") or letter not in SHORT:
            raise UnknownName(f"option in {where}:", word, [f"-{each}" for each in SHORT])
        name, value = SHORT[letter], word[2:].removeprefix("=") or None
    return SAME.get(name, name), value


def read_words(words: Sequence[str], where: str) -> dict[str, str]:
    """The options of a line of a script, by long name; a flag's value is "".

    Raises:
        BadInput: not understood, or not to be had here; names the line.
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
    """Options of which the later ones win, except where every one counts."""
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


def take(args: Sequence[str], own: Mapping[str, bool]) -> tuple[list[str], dict[str, str]]:
    """A command line without those options of Slurm that the command does not list itself.

    Args:
        args: up to the first word that is no option; what follows is the job's own.
        own: options of the command, with their dashes: whether each has a value.

    Returns:
        What is left, and what was taken out.

    Raises:
        BadInput: an option that cannot be had here.
    """
    kept: list[str] = []
    taken: dict[str, str] = {}
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--"):
        word = args[at]
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        known = name[2:] in EVERY if name.startswith("--") else name[1:] in SHORT
        count = 1
        if name in own or not known:
            count += bool(own.get(name)) and name == word
            kept += args[at : at + count]
        else:
            found = long_name(word, "")[0]
            alone = found in FLAGS or found in BARE or name != word
            count += not alone
            taken |= read_words(args[at : at + count], "the command line")
        at += count
    return [*kept, *args[at:]], taken


def notes_of(options: Mapping[str, str], wheres: Mapping[str, str]) -> list[str]:
    """What is to be said about options that have no effect here.

    Args:
        wheres: the line of the script from which an option is, if it is from one.
    """
    return [_said(name, wheres) for name in options if name in IGNORED]


def _said(name: str, wheres: Mapping[str, str]) -> str:
    why = IGNORED[name]
    said = f"--{name} has no effect" + (f": {why}" if why else "")
    return f"{wheres[name]}: {said}" if name in wheres else said
