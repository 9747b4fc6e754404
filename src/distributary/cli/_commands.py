"""The table of commands: names, options and help texts; other modules carry them out.

Callers: ``main``, which is the console script. Hides: typer.
"""

import sys
from typing import Annotated

import typer

import distributary
from distributary.cli import _console, _serve
from distributary.cli._dead_letters import dead_letters
from distributary.cli._filter import filter_
from distributary.cli._history import history
from distributary.cli._import import import_
from distributary.cli._kubeconfig import kubeconfig
from distributary.cli._listen import listen
from distributary.cli._options import add_command
from distributary.cli._send import send
from distributary.cli._subscribe import subscribe, subscriptions
from distributary.core import protocol
from distributary.core.errors import DistributaryError, EventError

app = typer.Typer(
    name="distributary",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=f"""A CloudEvents subscription manager and event router.

First steps, each in a separate terminal:

\b
  distributary serve
  distributary listen --port 9000
  distributary subscribe --sink http://127.0.0.1:9000 --prefix type=com.
  distributary send --type com.example.hello --data '{{"who": "world"}}'

{_console.EXIT_CODES}
""",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(distributary.__version__)
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_say_version),
    ] = False,
) -> None:
    """Options before a command."""


def demo() -> None:
    """Show everything at work: real events, several sinks, one that fails and recovers.

    Starts a separate server on free ports in a temporary folder, and checks the outcome of
    every event. Takes less than two minutes, and leaves nothing behind.
    """
    from distributary.cli.demo import run  # noqa: PLC0415 - one command needs it

    raise typer.Exit(run())


def version() -> None:
    """Print the version."""
    print(distributary.__version__)


add_command(app, "serve", _serve.command())
add_command(app, "send", send)
add_command(app, "subscribe", subscribe)
app.add_typer(subscriptions, name="subscriptions")
app.add_typer(dead_letters, name="dead-letters")
add_command(app, "history", history)
add_command(app, "listen", listen)
add_command(app, "filter", filter_)
add_command(app, "kubeconfig", kubeconfig)
add_command(app, "import", import_)
add_command(app, "demo", demo)
add_command(app, "version", version)


def main() -> None:
    """Run the command line and exit; ``--help`` lists the exit codes."""
    for refusal in protocol.refused():
        text = f"{refusal.code}: {refusal}"
        _console.errors().print(text, style="yellow", markup=False, soft_wrap=True)
    try:
        app()
    except EventError as error:
        rows = [{"path": fault.path, "message": fault.message} for fault in error.faults]
        console = _console.errors()
        console.print("[bold red]error:[/] this is no event, so it was not sent")
        console.print(_console.faults_table(rows))
        sys.exit(_console.UNUSABLE)
    except DistributaryError as error:
        _console.errors().print(str(error), style="red", markup=False)
        sys.exit(_console.UNUSABLE)
    except BrokenPipeError:
        sys.exit(_console.FAILED)  # the reader of our output has closed it
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _console.errors().print(f"{where}{error.strerror}", style="red", markup=False)
        sys.exit(_console.UNUSABLE)
