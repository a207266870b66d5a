"""`flyball completion`: scripts that complete commands, options and job numbers in a shell.

A script calls `flyball __complete WORDS` and gets one candidate per line. Only the command that is
being completed is imported, and the server is queried only where a job number is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer

from flyball.cli.lazy import LazyCommand
from flyball.core.errors import BadInput

EXAMPLES = """\b
Examples:
  source <(flyball completion bash)
  flyball completion bash > ~/.local/share/bash-completion/completions/flyball
  flyball completion zsh > ~/.zfunc/_flyball
  flyball completion fish > ~/.config/fish/completions/flyball.fish
"""

MAX_JOBS = 100
"""Maximum number of job numbers offered."""

BASH = """\
_flyball() {
    local IFS=$'\\n'
    COMPREPLY=($(flyball __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _flyball flyball
"""
ZSH = """\
#compdef flyball
_flyball() {
    local -a candidates
    local line
    while IFS=$'\\t' read -r name help; do
        candidates+=("${name//:/\\\\:}:$help")
    done < <(flyball __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#candidates} )); then
        _describe 'flyball' candidates
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_flyball" ]; then
    _flyball "$@"
else
    compdef _flyball flyball
fi
"""
FISH = """\
function __flyball_complete
    set -l words (commandline -opc) (commandline -ct)
    flyball __complete $words[2..-1] 2>/dev/null
end
complete -c flyball -a '(__flyball_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

Candidate = tuple[str, str]
"""A completion, and its description."""


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a shell script that completes commands, options, job numbers and policies."""
    if shell not in SCRIPTS:
        raise BadInput(f"no completion for {shell!r}", f"choose one of {', '.join(SCRIPTS)}")
    typer.echo(SCRIPTS[shell], nl=False)


def print_candidates(root: Any, words: Sequence[str]) -> int:
    """Print `word<TAB>meaning` lines for the script and return an exit code; nothing on errors.

    Args:
        root: the group of all commands.
        words: what was typed after `flyball`; the last is incomplete, perhaps empty.
    """
    try:
        lines = [f"{word}\t{meaning}" for word, meaning in candidates(root, words or [""])]
    except Exception:  # a traceback must not disturb the line that is being typed
        return 1
    if lines:
        typer.echo("\n".join(lines))
    return 0


def candidates(root: Any, words: Sequence[str]) -> Iterator[Candidate]:
    """Yield completions of the last word."""
    *before, typed = words
    command, rest = _command_of(root, before)
    if "--" in rest:
        return
    for word, meaning in _possible(command, rest, typed):
        if word.startswith(typed):
            yield word, " ".join(meaning.split())


def _command_of(root: Any, words: Sequence[str]) -> tuple[Any, Sequence[str]]:
    """Return the command that the words name, and the words after its name."""
    command, rest = root, list(words)
    while rest and not isinstance(command, LazyCommand) and rest[0] in _commands(command):
        command = _commands(command)[rest.pop(0)]
        if isinstance(command, LazyCommand):
            command = command.part.load(command.called)
    return command, rest


def _commands(command: Any) -> dict[str, Any]:
    commands: dict[str, Any] = getattr(command, "commands", {})
    return commands


def _possible(command: Any, rest: Sequence[str], typed: str) -> Iterable[Candidate]:
    """Return candidates by context: values of an option, options, commands or jobs."""
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    last = next((parameter for parameter in options if rest and rest[-1] in parameter.opts), None)
    if last is not None and not last.is_flag:
        return _values(rest[-1])
    if typed.startswith("-"):
        return [(name, parameter.help or "") for parameter in options for name in _names(parameter)]
    if children := _commands(command):
        return [(name, parameter.get_short_help_str(80)) for name, parameter in children.items()]
    if any(
        parameter.param_type_name == "argument" and "ID" in (parameter.metavar or "")
        for parameter in command.params
    ):
        return _jobs(command.name)
    if command.name == "completion":
        return [(shell, "") for shell in SCRIPTS]
    return []


def _names(option: Any) -> list[str]:
    return [name for name in (*option.opts, *option.secondary_opts) if name.startswith("--")]


def _values(option: str) -> Iterable[Candidate]:
    source = VALUES.get(option)
    return source() if source is not None else []


def _policies() -> Iterable[Candidate]:
    from flyball.schedule.policies.registry import names

    return [(name, "policy") for name in names()]


def _states() -> Iterable[Candidate]:
    from flyball.core.jobs import JobState

    return [(state.value, "") for state in JobState]


VALUES: dict[str, Callable[[], Iterable[Candidate]]] = {
    "--policy": _policies,
    "--states": _states,
}
"""Options whose values can be completed, and the functions that list them."""


def _jobs(command: str) -> Iterable[Candidate]:
    """Return job numbers: active jobs for commands that change jobs, else the newest."""
    from itertools import islice

    from flyball.sdk.client import Client

    with Client() as client:
        if command in ("cancel", "resize", "cap", "checkpoint"):
            jobs = client.queue(MAX_JOBS)
        else:
            jobs = list(islice(client.jobs(limit=MAX_JOBS), MAX_JOBS))
    return [(str(job["label"]), f"{job['name']} {job['state']}") for job in jobs]
