"""Options that several commands share.

Callers: the modules of the commands. Hides: their declarations for typer.
"""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from distributary.core.errors import SettingsError
from distributary.core.named_files import SOURCE_HELP
from distributary.core.tenant import NAME_EXPECTED, is_namespace

DEFAULT_URL = "http://127.0.0.1:8080"
"""Where ``serve`` listens by default."""

Url = Annotated[
    str, typer.Option("--url", envvar="DISTRIBUTARY_URL", metavar="URL", help="The server.")
]
TokenFrom = Annotated[
    str | None,
    typer.Option(
        "--token-from",
        metavar=SOURCE_HELP,
        help="Where the API key or token is; default: env:DISTRIBUTARY_TOKEN.",
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        envvar="DISTRIBUTARY_NAMESPACE",
        metavar="NAME",
        help="The tenant whose things are meant.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")]
Files = Annotated[
    list[str] | None,
    # The help text explains it, without the type that typer would show.
    typer.Argument(metavar="FILE", hidden=True),
]
Text = str | None
"""Text that may be omitted."""

# Which events: the same names in ``filter`` and ``subscribe``.
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TEXT", help="An event type; several: any of them."),
]
Source = Annotated[Text, typer.Option(metavar="TEXT", help="Exact event source.")]
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


class Command(TyperCommand):
    """A command whose usage shows arguments as manuals do: ``ID...``, and ``[FILE]...``."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line, without the braces that typer puts around arguments."""
        return [re.sub(r"\{(\w+)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; what a value must be is said without words of pydantic."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            text = error.message.removeprefix("Value error, ")
            error.message = re.sub(r"^Input should be", "must be", text)
            raise


def add_command(app: typer.Typer, name: str, command: Callable[..., None]) -> None:
    """Add *command* to *app* as *name*, with its docstring as its help."""
    summary = (inspect.getdoc(command) or "").partition("\n\n")[0]
    app.command(name, cls=Command, help=_help_of(command), short_help=summary)(command)


def with_options(
    command: Callable[..., None], options: Iterable[tuple[str, Any, Any]], text: str
) -> Callable[..., None]:
    """Give *command*, which takes any keyword, a signature for typer to read.

    Args:
        command: The function that does the work.
        options: Name, annotation and default of each parameter, in the order of the help.
        text: The docstring.
    """
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, annotation, default in options
    ]
    # typer reads these of a function.
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = text
    return command


def _help_of(command: Callable[..., None]) -> str:
    """Help of a command from its docstring: prose is wrapped, indented text is kept.

    Line breaks in examples survive, so that they can be pasted.
    """
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(
        f"\b\n{paragraph}" if paragraph.startswith(" ") else re.sub(r"\s+", " ", paragraph)
        for paragraph in paragraphs
    )


def checked_namespace(text: str) -> str:
    """Return *text*.

    Raises:
        SettingsError: It cannot name a namespace.
    """
    if not is_namespace(text):
        raise SettingsError(f"--namespace: {NAME_EXPECTED}; got {text!r}")
    return text
