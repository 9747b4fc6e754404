"""Health checks of a node: answers in place of its receivers, and what its processes give."""

import ssl
from collections.abc import Callable, Sequence

from distributary.core.clock import Clock
from distributary.server.processes.supervision.health import Health
from distributary.server.processes.supervision.listeners import Listeners
from distributary.server.processes.supervision.probe import Probe
from distributary.server.processes.supervision.watchdog import ProcFolder, Watchdog, WatchedProcess


def probe_of(
    health: Health,
    watched: Sequence[WatchedProcess],
    clock: Clock,
    listeners: Listeners,
    tls: Callable[[bool], ssl.SSLContext] | None,
) -> Probe:
    """Returns the probe of a node, not started.

    Args:
        health: What it answers.
        watched: The processes of the node.
        clock: Measures silence.
        listeners: Where clients and health checks connect.
        tls: See ``Probe``.
    """
    return Probe(
        health,
        Watchdog(watched, ProcFolder(), clock.monotonic_s),
        clock,
        port=listeners.http,
        own=listeners.health,
        tls=tls,
    )
