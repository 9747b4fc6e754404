"""The control process of a node that leads: everything but receivers; see ``node.led``."""

import functools
import os
import pickle
import sys

import msgspec
import structlog
import uvloop

from distributary.core.cluster import take_places
from distributary.core.errors import DistributaryError
from distributary.datadir import PARENT, DataDir
from distributary.server.processes._serve import Server
from distributary.server.processes.base import ground
from distributary.server.processes.node.led import EXIT_LED, Led, LedStart, end_when_not_led
from distributary.server.processes.supervision.children import end_with_parent
from distributary.server.processes.supervision.ends import exit_code, starting
from distributary.server.settings import Settings


def read_settings(paths: DataDir) -> Settings:
    """The settings that the node process has written, for its own user alone.

    Raises:
        DistributaryError: They cannot be read.
    """
    try:
        found = pickle.loads(paths.control_settings.read_bytes())  # noqa: S301 - our own file
    except OSError as error:
        raise DistributaryError(f"no settings of the node: {error.strerror}") from error
    assert isinstance(found, Settings)
    return found


def main(arguments: list[str]) -> int:
    """Entry point of the process: ``LedStart`` as JSON."""
    end_with_parent(int(os.environ[PARENT]))
    os.umask(ground.UMASK)
    start = msgspec.json.decode(arguments[0], type=LedStart)
    paths = DataDir.of(start.data_dir)
    end_when_not_led(paths)
    places = take_places(os.environ)
    assert places is not None

    read = functools.partial(read_settings, paths)

    def run() -> int:
        server = Server(read(), read, lambda *given: Led(start, places, *given))
        return uvloop.run(_serve(server))

    return starting(run, EXIT_LED)


async def _serve(server: Server) -> int:
    """Run *server*; where it fails, end at once: the node process starts another one."""
    try:
        return await server.run()
    except (DistributaryError, OSError) as error:
        structlog.get_logger().error("control-failed", reason=str(error))
        os._exit(exit_code(error, EXIT_LED))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
