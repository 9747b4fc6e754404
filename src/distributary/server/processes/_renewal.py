"""Wires the refresher of access tokens, which runs in the control process."""

import asyncio
import contextlib

from distributary.core.clock import Clock, SystemRandom
from distributary.core.meter import Meter
from distributary.core.sqlite import sqlite_url
from distributary.datadir import DataDir
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from distributary.resource import Reach
from distributary.subscriptions.refresh import HttpTokenEndpoint, Refresher
from distributary.subscriptions.store import Sealer
from distributary.subscriptions.store.credentials_rows import CredentialRows


class Renewal:
    """Keeps access tokens fresh while the server runs.

    Args:
        paths: Paths of the data directory; the store must exist.
        sealer: Not shared with the store, which another thread uses.
        clock: For waits and expiries.
        meter: Counts refreshes.
        reach: Addresses allowed for sinks and token endpoints (decision 22, private addresses).
    """

    def __init__(
        self,
        paths: DataDir,
        sealer: Sealer,
        clock: Clock,
        meter: Meter,
        reach: Reach,
    ) -> None:
        connector = Connector(AddressRule.of(reach), CachingResolver(SystemResolver(), clock))
        self._rows = CredentialRows(sqlite_url(paths.state_db), sealer)
        self._refresher = Refresher(
            self._rows, HttpTokenEndpoint(connector), clock, SystemRandom(), count=meter.add
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._refresher.run(), name="refresher")

    async def stop(self) -> None:
        """Stop; tokens that an endpoint has issued are stored first."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._rows.close()
