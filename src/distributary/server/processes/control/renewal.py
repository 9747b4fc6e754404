"""Wires what the control process renews for deliveries: access tokens, and consents of sinks."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from distributary.core.clock import Clock, SystemRandom
from distributary.core.database import StorePlace
from distributary.core.meter import Meter
from distributary.datadir import DataDir
from distributary.datadir.shared_signs import signs_of
from distributary.knative.reconcile import FailureFiles
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from distributary.resource import CLEARTEXT, Reach
from distributary.subscriptions.consent import Agreements, ConsentKeeper, HttpAsker
from distributary.subscriptions.refresh import HttpTokenEndpoint, Refresher
from distributary.subscriptions.store import Directory, Sealer
from distributary.subscriptions.store.consent_rows import ConsentRows
from distributary.subscriptions.store.credentials_rows import CredentialRows

NAMED_MAX: Final = 20
"""Most subscriptions that the warning about cleartext names: a line that people read."""

_log = structlog.get_logger(__name__)


class Renewal:
    """Keeps access tokens fresh, and asks sinks for consent, while the server runs.

    Args:
        paths: Paths of the data directory; the store must exist.
        new_sealer: Makes a sealer: the refresher and the keeper of consents use theirs in
            different threads.
        clock: For waits and expiries.
        meter: Counts refreshes and questions.
        reach: Addresses allowed for sinks and token endpoints (decision 22, private addresses), and
            who is asked for consent.
        agreements: Told which routes wait for a consent.
        place: Where the resource store lies.
    """

    def __init__(
        self,
        paths: DataDir,
        new_sealer: Callable[[], Sealer],
        clock: Clock,
        meter: Meter,
        reach: Reach,
        *,
        agreements: Agreements,
        place: StorePlace,
    ) -> None:
        url, leader = place
        self._reach = reach
        # Each with a resolver of its own: silent names of webhooks hold up no renewal of a token.
        renewing, connector = (
            Connector(AddressRule.of(reach), CachingResolver(SystemResolver(), clock))
            for _ in range(2)
        )
        self._rows = CredentialRows(url, new_sealer(), leader=leader)
        self._refresher = Refresher(
            self._rows,
            HttpTokenEndpoint(renewing),
            clock,
            SystemRandom(),
            count=meter.add,
            may_have_news=signs_of(url),
        )
        self._consents = ConsentRows(url, leader=leader)
        self._directory = Directory(url, new_sealer())
        self._failures = FailureFiles(paths.failing(p) for p in range(reach.consent.partitions))
        self._keeper = ConsentKeeper(
            self._consents,
            self._directory,
            HttpAsker(connector),
            connector.endpoint_of,
            reach,
            agreements=agreements,
            failing=self._failing,
            clock=clock,
            random=SystemRandom(),
            count=meter.add,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _failing(self) -> dict[str, str]:
        found = self._failures.look() or {}
        return {uid: row.reason for uid, row in found.items()}

    def start(self) -> None:
        """Begin."""
        self._tasks = [
            asyncio.create_task(self._refresh(), name="refresher"),
            asyncio.create_task(self._keeper.run(), name="consents"),
        ]

    async def _refresh(self) -> None:
        held_back: list[str] = []
        try:
            held_back = await asyncio.to_thread(self._rows.held_back, self._reach.rule())
        except Exception as error:  # noqa: BLE001 - it may cost the warning, and no token
            _log.warning("held-back-not-read", reason=str(error) or repr(error))
        if held_back:
            _log.warning(
                "credentials-held-back",
                count=len(held_back),
                subscriptions=held_back[:NAMED_MAX],
                reason=CLEARTEXT,
            )
        await self._refresher.run()

    async def stop(self) -> None:
        """Stop; tokens that an endpoint has issued are stored first."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._rows.close()
        self._consents.close()
        self._directory.close()
