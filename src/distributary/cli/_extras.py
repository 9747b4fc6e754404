"""What the installed package lacks, and the command that installs it.

``pip install distributary`` brings what a client needs; ``serve`` and the commands that read the
data directory need the extra ``server``, with Spark.

Callers: ``_commands``, ``_server_commands``. Hides: which packages the extra brings.
"""

import importlib.util
from typing import Final

from distributary.core.errors import SettingsError

SERVER_MODULES: Final = frozenset(
    {
        "cryptography",
        "jsonpatch",
        "jwt",
        "pandas",
        "prometheus_client",
        "psycopg",
        "py4j",
        "pyarrow",
        "pyspark",
        "sqlalchemy",
        "starlette",
        "structlog",
        "uvicorn",
        "uvloop",
        "websockets",
    }
)
"""Modules of the packages that the extra ``server`` brings, but for client libraries of brokers;
``py4j`` comes with ``pyspark``."""

INSTALL: Final = "pip install 'distributary[server]'"


class ServerMissingError(SettingsError):
    """The extra ``server`` is not installed; the message has the cure."""

    def __init__(self, module: str) -> None:
        super().__init__(
            f"This needs the server, which is not installed here (there is no {module}). Install"
            f" it: {INSTALL}"
        )


def need_server() -> None:
    """Check that the extra ``server`` is installed.

    Raises:
        ServerMissingError: It is not.
    """
    for module in sorted(SERVER_MODULES):
        if importlib.util.find_spec(module) is None:
            raise ServerMissingError(module)


def missing(error: ModuleNotFoundError) -> ServerMissingError | None:
    """What *error* means to whoever typed the command; None: it is a fault of the package."""
    module = (error.name or "").partition(".")[0]
    return ServerMissingError(module) if module in SERVER_MODULES else None
