"""Options that several commands share.

Callers: the ``_command_*`` modules, ``_commands``. Hides: how typer reads them.
"""

import inspect
import re
from collections.abc import Callable
from typing import Annotated

import typer

__all__ = [
    "DEFAULT_URL",
    "Exact",
    "Prefix",
    "Source",
    "Sql",
    "Suffix",
    "Text",
    "Types",
    "Url",
    "help_of",
]

DEFAULT_URL = "http://127.0.0.1:8080"
"""Where ``serve`` listens unless told otherwise."""

Url = Annotated[
    str, typer.Option("--url", envvar="DISTRIBUTARY_URL", metavar="URL", help="The server.")
]
Text = str | None
"""Text that may be left unsaid."""

# Which events: the same words, whether a filter is tried or a subscription made.
Types = Annotated[
    list[str] | None, typer.Option("--type", help="An event type; several: any of them.")
]
Source = Annotated[Text, typer.Option(help="Exact event source.")]
Sql = Annotated[
    list[str] | None, typer.Option(metavar="EXPR", help="A CloudEvents SQL expression.")
]
Exact = Annotated[
    list[str] | None, typer.Option(metavar="NAME=TEXT", help="Attribute equals text.")
]
Prefix = Annotated[
    list[str] | None, typer.Option(metavar="NAME=TEXT", help="Attribute begins with text.")
]
Suffix = Annotated[
    list[str] | None, typer.Option(metavar="NAME=TEXT", help="Attribute ends with text.")
]


def help_of(command: Callable[..., None]) -> str:
    """Help of a command from its docstring, lines of a paragraph joined: typer would keep them."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(re.sub(r"\s+", " ", paragraph) for paragraph in paragraphs)
