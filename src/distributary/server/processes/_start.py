"""Starts a server: that of one machine, or one of several nodes."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import uvloop

from distributary.core.cluster import SharedPlaces
from distributary.core.errors import DistributaryError
from distributary.server.processes._serve import Server
from distributary.server.processes.base import ground
from distributary.server.processes.base.early import say
from distributary.server.processes.node.shared_places import shared_places
from distributary.server.processes.supervision.ends import exit_code
from distributary.server.settings import Settings

if TYPE_CHECKING:
    from distributary.server.processes.node.node import Node

EXIT_FAILED: Final = 1
"""Exit code: the server could not start; the message says what to do."""


def serve(settings: Settings, read_settings: Callable[[], Settings] | None = None) -> int:
    """Run the server until SIGTERM or Ctrl-C; see ``processes.serve``."""
    os.umask(ground.UMASK)
    try:
        read = read_settings or (lambda: settings)
        places = shared_places(settings, os.environ)
        server = Server(settings, read) if places is None else _node_of(settings, read, places)
        try:
            return uvloop.run(server.run())
        finally:
            server.release()
    except DistributaryError as error:
        say(settings.log_format, "error", "cannot-start", str(error))
        return EXIT_FAILED
    except OSError as error:  # not the code of wrong settings: a restart may mend it
        say(settings.log_format, "error", "cannot-start", str(error))
        return exit_code(error, EXIT_FAILED)


def _node_of(settings: Settings, read: Callable[[], Settings], places: SharedPlaces) -> "Node":
    # Loads the clients of log and store, which a server of one machine does without.
    from distributary.server.processes.node.node import Node  # noqa: PLC0415 - see above

    return Node(settings, read, places)
