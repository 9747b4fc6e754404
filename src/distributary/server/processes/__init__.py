"""The composition root: builds clock, stores and transports, and starts the processes.

Called by ``cli`` (``serve``) and by the child processes. Decides nothing about events: ``core``
and the other packages do. Two flows between processes are wired here: the control process
appends route records through the ingest process (``_route_wire``), and the pipeline reads what
ingest appended.
"""

from collections.abc import Callable

from distributary.server.processes._early import end_when_asked
from distributary.server.settings import Settings


def serve(settings: Settings, read_settings: Callable[[], Settings] | None = None) -> int:
    """Run ``distributary serve``; returns the program's exit code.

    Args:
        settings: Validated settings.
        read_settings: Reads them again at SIGHUP; raises ``SettingsError`` with all faults. None:
            SIGHUP changes nothing.
    """
    # The child processes import this package too and need no API and no supervisor.
    from distributary.server.processes._serve import serve as run  # noqa: PLC0415

    return run(settings, read_settings)
