"""The table of commands: names, options and help texts; other modules carry them out.

Callers: ``main``, which is the console script. Hides: typer.
"""

import contextlib
import os
import sys
from typing import Annotated, Any, ClassVar

import typer

import distributary
from distributary.cli import _console, _extras
from distributary.cli._lazy import LazyGroup, Place
from distributary.cli._tls import CaFile, ClientCertFile, ClientKeyFile, ClientTls, choose
from distributary.core import protocol
from distributary.core.errors import DistributaryError, EventError


class _Commands(LazyGroup):
    """All commands; each is imported when it is called, or explained."""

    table: ClassVar = {
        "serve": Place("_serve", "serve", protocols=True),
        "send": Place("_send", "send"),
        "subscribe": Place("_subscribe", "subscribe", protocols=True),
        "subscriptions": Place("_subscriptions", "subscriptions", protocols=True),
        "dead-letters": Place("_dead_letters", "dead_letters"),
        "events": Place("_events", "events"),
        "runs": Place("_runs", "runs"),
        "history": Place("_history", "history"),
        "key": Place("_keys", "key"),
        "whoami": Place("_keys", "whoami"),
        "can": Place("_keys", "can"),
        "status": Place("_status", "status"),
        "listen": Place("_listen", "listen"),
        "filter": Place("_filter", "filter_", protocols=True),
        "kubeconfig": Place("_kubeconfig", "kubeconfig"),
        "import": Place("_import", "import_"),
        "config": Place("_config", "config"),
        "backup": Place("_backup", "backup"),
        "restore": Place("_backup", "restore"),
        "migrate": Place("_migrate", "migrate"),
        "demo": Place("_server_commands", "demo"),
        "archive": Place("_archive", "archive"),
        "archive-classes": Place("_server_commands", "archive_classes"),
        "version": Place("_commands", "version"),
    }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that *args* name, and tell what is wrong with protocols it may use."""
        name, command, rest = super().resolve_command(ctx, args)
        if name and self.table[name].protocols:
            for refusal in protocol.refused():
                text = f"{refusal.code}: {refusal}"
                _console.errors().print(text, style="yellow", markup=False, soft_wrap=True)
        return name, command, rest


_EXIT_CODES = "\n".join(f"  {code:<3}  {means}" for code, means in _console.EXIT_CODES.items())

app = typer.Typer(
    cls=_Commands,
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

Exit codes:

\b
{_EXIT_CODES}
""",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(distributary.__version__)
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_say_version),
    ] = False,
    ca_file: CaFile = None,
    client_cert_file: ClientCertFile = None,
    client_key_file: ClientKeyFile = None,
) -> None:
    """Options before a command."""
    choose(ClientTls(ca_file, client_cert_file, client_key_file))


def version() -> None:
    """Print the version."""
    print(distributary.__version__)


def main() -> None:
    """Run the command line and exit; ``--help`` lists the exit codes."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # while its failure can still be told
    except EventError as error:
        rows = [{"path": fault.path, "message": fault.message} for fault in error.faults]
        console = _console.errors()
        console.print("[bold red]error:[/] this is no event, so it was not sent")
        console.print(_console.faults_table(rows))
        sys.exit(_console.UNUSABLE)
    except DistributaryError as error:
        _console.errors().print(str(error), style="red", markup=False)
        sys.exit(_console.UNUSABLE)
    except ModuleNotFoundError as error:
        needed = _extras.missing(error)
        if needed is None:
            raise
        _console.errors().print(str(needed), style="red", markup=False)
        sys.exit(_console.UNUSABLE)
    except UnicodeEncodeError as error:
        text = _console.fits_one_line(ascii(error.object))
        _console.errors().print(f"This text is no UTF-8: {text}", style="red", markup=False)
        sys.exit(_console.UNUSABLE)
    except BrokenPipeError:
        _drop_output()
        sys.exit(_console.FAILED)  # the reader of our output has closed it
    except OSError as error:
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        _console.errors().print(f"{where}{error.strerror}", style="red", markup=False)
        sys.exit(_console.UNUSABLE)


def _drop_output() -> None:
    """Let Python write nothing more at its end: what failed would fail again, with code 120."""
    with contextlib.suppress(OSError, ValueError):  # a test's output has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
