"""Commands that need the server on this machine, and no running one.

Callers: ``_commands``, by name.
"""

import typer

from distributary.cli import _extras


def demo() -> None:
    """Show everything at work: real events, several sinks, one that fails and recovers.

    Starts a separate server on free ports in a temporary folder, and checks the outcome of
    every event. Takes less than two minutes, and leaves nothing behind.
    """
    _extras.need_server()
    from distributary.cli.demo import run  # noqa: PLC0415 - after the check

    raise typer.Exit(run())


def archive_classes() -> None:
    """Prepare faster starts of the server: archive the classes that Spark loads, once.

    Takes half a minute and 170 MB beside the installed packages. Every later start on this
    installation needs half the time of two processors. Repeat it after an update of Spark or Java.
    """
    _extras.need_server()
    from distributary.server import processes  # noqa: PLC0415 - as above

    print(processes.archive_classes())
