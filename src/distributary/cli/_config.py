"""``distributary config``: checks settings before a start, and shows those in force.

Callers: ``_commands``. Hides: places in the file, and what is looked at without the server.
"""

import importlib.util
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from distributary.cli import _console
from distributary.cli._options import AsJson, add_command, with_options
from distributary.cli._serve import read_config, setting_options
from distributary.core.errors import SettingsError
from distributary.server import settings
from distributary.server.settings import shown

config = typer.Typer(no_args_is_help=True, help="Check settings, and show those in force.")

CLIENT_ONLY: Final = (
    "files, Java and Spark were not looked at: the server is not installed here (pip install"
    " 'distributary[server]')"
)


def check(
    file: Annotated[str | None, typer.Argument(metavar="FILE", hidden=True)] = None,
) -> None:
    """Look for everything that keeps a server from starting with a configuration.

    Without FILE it takes the file that serve would take. Variables of the environment count, as
    for serve. Each fault is told with its place and what is expected: values and names in the
    file, certificates, keys, Java, the data folder. It changes nothing and takes no port.

    For example:

      distributary config check

      distributary config check /etc/distributary/distributary.toml

    Exit code 0: a server would start; 2: it would not.
    """
    path, text = read_config(file)
    try:
        chosen = settings.load({}, os.environ, text, settings.faults_of_tables)
    except SettingsError as error:
        _tell(str(error).splitlines()[1:], path, text or "")
    server = importlib.util.find_spec("structlog") is not None
    if server:
        from distributary.server import processes  # noqa: PLC0415 - it may be missing

        faults = processes.faults_before_start(chosen)
        if faults:
            _tell(faults, path, text or "")
    said = len(settings.origins({}, os.environ, text))
    tables = sum(len(getattr(chosen, name)) for name in settings.TABLES)
    parts = f"{_console.counted(said, 'setting')} and {_console.counted(tables, 'table')}"
    print(f"{path or 'no file'}: {parts}; a server would start")
    if not server:
        _console.errors().print(CLIENT_ONLY, markup=False)


def _tell(faults: list[str], path: Path | None, text: str) -> None:
    console = _console.errors()
    for fault in faults:
        console.print(settings.placed(fault, path, text), markup=False, style="red")
    count = _console.counted(len(faults), "fault")
    console.print(f"{count}: a server would not start", markup=False)
    raise typer.Exit(_console.UNUSABLE)


def _show(*, config: str | None = None, json: bool = False, **flags: Any) -> None:
    path, text = read_config(config)
    rows = shown.shown_settings(flags, os.environ, path, text)
    _console.show_rows(
        (row._asdict() for row in rows),
        {
            "SETTING": lambda row: row["name"],
            "VALUE": lambda row: row["value"],
            "FROM": lambda row: row["origin"],
        },
        as_json=json,
        none="",
    )


_SHOW_HELP = """Show every setting in force, and where it comes from.

A flag wins over the environment, that over the file, that over the default. Give it the options
that serve gets. Secrets are shown as ***: hashes of keys, secret properties of Spark, arguments
of credential_key_command.

For example:

  distributary config show

  distributary config show --config distributary.toml --port 9000 --json
"""

show = with_options(_show, [*setting_options(), ("json", AsJson, False)], _SHOW_HELP)

add_command(config, "check", check)
add_command(config, "show", show)
