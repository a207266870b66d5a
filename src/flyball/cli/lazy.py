"""Commands that are imported only when they are called: listing them imports none."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class Part(NamedTuple):
    """Names a command or a group of commands, and where to import it from."""

    source: str
    """`module:name` below `flyball.cli`; the name of a function or of a `typer.Typer`."""
    summary: str
    """First line of its docstring, or of a group's help."""
    examples: str = "EXAMPLES"
    """Name, in the module, of the examples that a function's help ends with."""
    kind: str = ""
    """Name, in the module, of the function's command class; "" = Typer's."""

    def load(self, name: str) -> Any:
        """Import the command and build it under this name, as Typer would at start-up."""
        path, _, attribute = self.source.partition(":")
        module = import_module(f"flyball.cli.{path}")
        command = getattr(module, attribute)
        holder = typer.Typer(rich_markup_mode=None, add_completion=False)
        if isinstance(command, typer.Typer):
            holder.add_typer(command, name=name)
        else:
            cls = getattr(module, self.kind) if self.kind else None
            holder.command(name, cls=cls, epilog=getattr(module, self.examples))(command)
        return get_group(holder).commands[name]


class LazyCommand(TyperCommand):
    """Stands for a command in its group's help, and loads it when it is called."""

    def __init__(self, name: str, part: Part) -> None:
        super().__init__(name, help=part.summary, rich_markup_mode=None)
        self.called, self.part = name, part

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return the context of the real command, so that Typer runs that one."""
        command = self.part.load(self.called)
        return command.make_context(info_name, args, parent=parent, **extra)


class LazyGroup(TyperGroup):
    """Lists the commands of a table, after those that are already imported."""

    parts: ClassVar[Mapping[str, Part]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, part in self.parts.items():
            self.add_command(LazyCommand(name, part))
