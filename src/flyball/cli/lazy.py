"""Commands that are imported when they are called: help of all of them loads none."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class Part(NamedTuple):
    """A command, or a group of commands, and where it is found."""

    source: str
    """`module:name` in this folder; the name of a function or of a Typer."""
    summary: str
    """What the first line of its docstring, or of a group's help, says."""
    examples: str = "EXAMPLES"
    """Name of a function's examples in its module."""
    kind: str = ""
    """Name of a function's command class in its module, if it has one of its own."""

    def load(self, name: str) -> Any:
        """Import it, and build the command of this name as Typer would at the start."""
        place, _, attribute = self.source.partition(":")
        module = import_module(f"flyball.cli.{place}")
        found = getattr(module, attribute)
        holder = typer.Typer(rich_markup_mode=None, add_completion=False)
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=name)
        else:
            cls = getattr(module, self.kind) if self.kind else None
            holder.command(name, cls=cls, epilog=getattr(module, self.examples))(found)
        return get_group(holder).commands[name]


class LazyCommand(TyperCommand):
    """Stands for a command in the help of its group; becomes it when it is called."""

    def __init__(self, name: str, part: Part) -> None:
        super().__init__(name, help=part.summary, rich_markup_mode=None)
        self.called, self.part = name, part

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """The context of the command it stands for, which is thus what is run."""
        command = self.part.load(self.called)
        return command.make_context(info_name, args, parent=parent, **extra)


class LazyGroup(TyperGroup):
    """A group with a table of its commands; those that are imported already come first."""

    parts: ClassVar[Mapping[str, Part]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, part in self.parts.items():
            self.add_command(LazyCommand(name, part))
