"""Loads the logging library without what it would use on a terminal alone.

structlog imports rich where that is installed (the command line needs it): 80 modules for coloured
tracebacks, a seventh of what a process of the server takes to import. Those processes write JSON
to a pipe.
"""

import importlib
import sys

_OF_TERMINALS = "rich"


def load_logging() -> None:
    """Import structlog, as it is where rich is not installed; nothing where either is loaded."""
    if "structlog" in sys.modules or _OF_TERMINALS in sys.modules:
        return
    sys.modules[_OF_TERMINALS] = None  # type: ignore[assignment]  # imports of it fail meanwhile
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules[_OF_TERMINALS]
