"""The receivers of a server: their processes, start parameters, and what they share."""

import contextlib
import functools
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from distributary.core.errors import SettingsError
from distributary.core.meter import Meter
from distributary.datadir import DataDir, TenantCounts, make_node_counts, make_tenant_counts
from distributary.resource import Reach
from distributary.server.ingest import HELD_BYTES_MAX_DEFAULT, IngestSettings, Tenants
from distributary.server.processes.base.owned import ROLE, role_of
from distributary.server.processes.base.where import names_of
from distributary.server.processes.ingest_process import IngestStart
from distributary.server.processes.receiver.retention import RetentionLimits
from distributary.server.processes.supervision.children import Child, program
from distributary.server.processes.supervision.listeners import Listeners
from distributary.server.processes.supervision.telemetry import otlp_of
from distributary.server.settings import Settings, read_namespaces

INGEST_DRAIN_S: Final = 3.0
"""Time for connections that are still sending, at the stop of a receiver; then the same time for
events that other receivers pass on."""


def append_sockets(paths: DataDir, receivers: int) -> list[Path]:
    """Returns the sockets for route records, by number of the receiver."""
    return [paths.append_socket(number) for number in range(receivers)]


def seen_files(paths: DataDir) -> list[Path]:
    """Returns the files of types and sources of all receivers that the server ever had."""
    return sorted(paths.run.glob("seen*.json"))


def prepare(paths: DataDir, receivers: int, secret: bytes = b"") -> None:
    """Make what *receivers* receivers share, and end the gauges of those that are no more.

    Args:
        paths: Paths of the data directory.
        receivers: Number of receivers.
        secret: Of the nodes that share a store; empty: this is none.

    Raises:
        SettingsError: The data directory is not writable, or full.
    """
    with contextlib.suppress(OSError):  # counts of metrics, which are not needed
        for number in range(receivers, len(list(paths.meter(ROLE).parent.glob(f"{ROLE}*.json")))):
            Meter(paths.meter(role_of(number))).save()
    try:
        make_node_counts(paths.node_counts, receivers)
        make_tenant_counts(paths.tenant_counts, receivers, secret)
    except OSError as error:
        raise SettingsError(
            f"cannot write {paths.node_counts}: {error.strerror or error}."
            " Make it writable, or free some space"
        ) from error


def tenants_of(paths: DataDir, receivers: int) -> Tenants:
    """Returns the meters of the control process, for calls that reach it by no receiver.

    Raises:
        OSError: What ``prepare`` has made cannot be opened.
    """
    return Tenants(time.monotonic, TenantCounts(paths.tenant_counts, receivers))


def ingest_start(
    settings: Settings,
    paths: DataDir,
    reach: Reach,
    listeners: Listeners,
    *,
    tls_fd: int | None,
    partitions: int,
    receivers: int,
) -> IngestStart:
    """Returns the start parameters of every receiver.

    Args:
        settings: The settings in force.
        paths: Paths of the data directory.
        reach: This server's addresses.
        listeners: The listening sockets.
        tls_fd: Memory with the certificates; None: no TLS.
        partitions: Number of partitions of the log.
        receivers: Number of receivers. The memory for bodies is divided among them; all other
            limits hold for their sum, whoever has the connections.
    """
    limits = IngestSettings(
        body_bytes_max=settings.event_bytes_max,
        batch_events_max=settings.batch_events_max,
        connections_max=settings.connections_max,
        connections_per_address_max=settings.connections_per_address_max or None,
        quotas=read_namespaces(settings.namespaces)[0],
        held_bytes_max=_held_bytes_max(settings.event_bytes_max, receivers),
    )
    return IngestStart(
        listen_fd=listeners.http.fileno(),
        own_fd=listeners.own.fileno(),
        unix_fd=None if listeners.unix is None else listeners.unix.fileno(),
        tls_fd=tls_fd,
        data_dir=str(paths.root),
        partitions=partitions,
        receivers=receivers,
        hosts=names_of(settings, reach.own),
        public_url=settings.public_url,
        allowed_hosts=settings.allowed_hosts,
        trusted_proxies=settings.trusted_proxies,
        log_level=settings.log_level,
        limits=limits,
        retention=RetentionLimits(
            settings.retention_bytes_max // partitions,
            settings.retention_age_max_s,
            settings.archive,
        ),
        disk_free_bytes_min=settings.disk_free_bytes_min,
        drain_s=INGEST_DRAIN_S,
        shares_calls=listeners.counts_calls,
        otlp=otlp_of(settings),
        once=settings.once,
    )


def _held_bytes_max(body_bytes_max: int, receivers: int) -> int:
    """A receiver's part of the memory for bodies; one body always fits."""
    return max(body_bytes_max, HELD_BYTES_MAX_DEFAULT // receivers)


def receiver_children(
    start: IngestStart,
    line: Callable[[str], None],
    *,
    withheld: Collection[str],
    ended: Callable[[int], bool],
    worked: Callable[[int, int, int], bool],
    environ: Mapping[str, str] | None = None,
) -> list[Child]:
    """Returns the processes of all receivers, by number.

    Args:
        start: Start parameters of each.
        line: Called with each line of their standard error.
        withheld: Variables of this process that they do not inherit.
        ended: See ``Child``.
        worked: The same, called with the number of the receiver first.
        environ: Variables added to their environment.
    """
    first = program("distributary.server.processes.ingest_process", start)
    return [
        Child(
            role_of(number),
            [*first, str(number)] if number else first,
            line=line,
            environ=environ,
            withheld=withheld,
            pass_fds=start.fds,
            ended=ended,
            worked=functools.partial(worked, number),
        )
        for number in range(start.receivers)
    ]
