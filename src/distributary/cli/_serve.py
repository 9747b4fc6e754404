"""``distributary serve``: runs a server with settings from flags, environment and file.

Its options are generated from the settings, so a new setting gets its flag, its help and its row
in the documentation from one place. Options are passed as text: ``server.settings.load`` reports
the faults of all of them at once.

Callers: ``_commands``. Hides: how typer gets those options.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from distributary.cli._options import with_options
from distributary.core.errors import SettingsError
from distributary.server import settings


def read_config(config: str | None) -> tuple[Path | None, str | None]:
    """The configuration file and its text; None: there is none.

    Args:
        config: Value of ``--config``; None: not given.

    Raises:
        SettingsError: It is missing or unreadable.
    """
    path = settings.config_file(config, os.environ, Path.cwd())
    if path is None:
        return None, None
    try:
        return path, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The configuration file {path} cannot be read: {error}") from error


def load_settings(flags: dict[str, Any], config: str | None) -> settings.Settings:
    """Load settings from the command line, the environment and the file.

    Raises:
        SettingsError: Some are invalid; the message lists every fault.
    """
    path, text = read_config(config)
    if path is None:
        return settings.load(flags, os.environ, None)
    return settings.load(flags, os.environ, text, settings.faults_of_tables)


def command() -> Callable[..., None]:
    """Make the function that typer turns into the command, with an option for each setting."""

    def serve(*, config: str | None = None, **flags: str | bool | None) -> None:
        chosen = load_settings(flags, config)
        # Loading Spark takes seconds; no other command needs it.
        from distributary.server import processes as app  # noqa: PLC0415 - see above

        app.end_when_asked(chosen.log_format)
        raise typer.Exit(app.serve(chosen, lambda: load_settings(flags, config)))

    return with_options(serve, setting_options(), _HELP)


def setting_options() -> list[tuple[str, Any, None]]:
    """The options of all settings, for ``with_options``."""
    options = [_option("config", "--config", "FILE", "TOML file of settings.", "")]
    return options + [
        _option(row.name, row.flag, _metavar(row), _about(row), row.default)
        for row in settings.settings_table()
    ]


_HELP = """Run the server: ingest, log, pipeline and deliveries, all on this machine.

Every option is also an environment variable (--data-dir: DISTRIBUTARY_DATA_DIR) and a
key of the TOML file (data_dir); a flag wins over the environment, that over the file.
Sources (brokers to read events from) are in the file only: tables [[sources]].

For example:

  distributary serve

  distributary serve --host 0.0.0.0 --auth off --allowed-hosts events.shop.svc

  DISTRIBUTARY_PORT=9000 distributary serve --config distributary.toml

SIGHUP reads the settings again: sources, allowed sinks and hosts, limits of requests and
connections and the log level apply at once; the log names changes that need a restart.

Ctrl-C or SIGTERM drains deliveries in flight, then stops. Acknowledged events are on disk:
the next start continues from there.
"""


_CHOICES = "one of "
"""Begins what a setting expects that has a few values; they are listed behind it."""


def _metavar(row: settings.SettingsRow) -> str | None:
    if row.expects == settings.SWITCH:
        return None
    if row.expects.startswith(_CHOICES):
        return row.expects.removeprefix(_CHOICES).replace(", ", "|")
    for word, metavar in (
        ("size", "SIZE"),
        ("duration", "DURATION"),
        ("URL", "URL"),
        ("whole number", "N"),
    ):
        if word in row.expects.split(" such as")[0]:
            return metavar
    return "PATH" if row.expects.startswith("the path of") else "TEXT"


def _about(row: settings.SettingsRow) -> str:
    """What the setting means, and what a text has to look like where no word says it."""
    if _metavar(row) != "TEXT" or not _has_form(row.expects):
        return row.about
    return f"{row.about} It takes {row.expects}."


def _has_form(expects: str) -> bool:
    return any(sign in expects for sign in (" such as ", "://", "separated"))


def _option(
    name: str, flag: str, metavar: str | None, about: str, default: str
) -> tuple[str, Any, None]:
    help_text = f"{about} [default: {default}]" if default else about
    kind = str if metavar else bool  # a switch has no value
    option = typer.Option(flag, metavar=metavar, help=help_text, show_default=False)
    return name, Annotated[kind | None, option], None


serve = command()
