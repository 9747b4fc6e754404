"""A group of commands whose modules are imported when somebody asks for the command.

``send`` starts in a third of the time that importing all commands takes.

Callers: ``_commands``. Hides: how typer makes a command, and keeps it.
"""

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperGroup

from distributary.cli import _options


class Place(NamedTuple):
    """Where a command is.

    Attributes:
        module: Its module below ``distributary.cli``.
        name: The function, or the ``typer.Typer`` of a group, in it.
        protocols: Whether it uses delivery protocols: what is wrong with them is told first.
    """

    module: str
    name: str
    protocols: bool = False


class LazyGroup(TyperGroup):
    """The group; a subclass has the table."""

    table: ClassVar[Mapping[str, Place]] = {}
    """Name of a command -> its place, in the order of the help."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(self.table)


class _Commands(MutableMapping[str, Any]):
    """Name -> command, made when it is first looked up."""

    def __init__(self, table: Mapping[str, Place]) -> None:
        self._table = table
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made(name, self._table[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._table), **dict.fromkeys(self._made)})

    def __len__(self) -> int:
        return len(self._table.keys() | self._made.keys())


def _made(name: str, place: Place) -> Any:
    """Import the command and let typer build it, in a group that is thrown away."""
    found = getattr(importlib.import_module(f"distributary.cli.{place.module}"), place.name)
    around = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    around.callback()(_nothing)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name)
    else:
        _options.add_command(around, name, found)
    group: Any = typer.main.get_command(around)
    return group.commands[name]


def _nothing() -> None:
    """The group's own options: none."""
