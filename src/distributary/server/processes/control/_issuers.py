"""Wires the keeper of issuers' keys, which runs in the control process."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import msgspec
import structlog

from distributary.access import Gate, IssuerRecord, decode_snapshot
from distributary.core.clock import Clock, SystemRandom
from distributary.core.meter import Meter
from distributary.datadir import DataDir, PolledFile
from distributary.net import AddressRule, CachingResolver, SystemResolver
from distributary.resource import Reach
from distributary.server.issuers import HttpDocuments, IssuerSettings, KeyKeeper

_log = structlog.get_logger(__name__)


class IssuerKeys:
    """Keeps the keys of issuers fresh while the server runs.

    Args:
        paths: Paths of the data directory.
        clock: For intervals and ages.
        receivers: Number of receivers, each of which may ask for keys.
        gate: That of this process, which may ask too.
        publish: Called with the issuers when their keys have changed.
    """

    def __init__(
        self,
        paths: DataDir,
        clock: Clock,
        receivers: int,
        gate: Gate,
        publish: Callable[[tuple[IssuerRecord, ...]], None],
    ) -> None:
        self._paths = paths
        self._gate = gate
        self._asking = [PolledFile(paths.asked_keys(number)) for number in range(receivers)]
        self._meter: Meter | None = None
        self._resolver = CachingResolver(SystemResolver(), clock)
        self._keeper = KeyKeeper(
            clock, SystemRandom(), publish, asked=self._asked, count=self._count
        )
        self._configured: tuple[tuple[IssuerSettings, ...], Reach] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def records(self) -> tuple[IssuerRecord, ...]:
        """The issuers with the keys that are known."""
        return self._keeper.records

    def configure(self, issuers: tuple[IssuerSettings, ...], reach: Reach) -> None:
        """Trust *issuers* from now on; keys of those that stay are kept.

        Args:
            issuers: All of them.
            reach: Addresses allowed for sinks, and so for issuers (decision 22, private addresses).
        """
        if (issuers, reach) == self._configured:
            return
        known = self._known_before() if self._configured is None else ()
        self._configured = issuers, reach
        rule = AddressRule.of(reach)
        self._keeper.configure(
            [(each, HttpDocuments(each, rule, self._resolver)) for each in issuers], known
        )

    def start(self, meter: Meter) -> None:
        """Begin to fetch.

        Args:
            meter: Counts fetches.
        """
        self._meter = meter
        self._task = asyncio.create_task(self._keeper.run(), name="issuer keys")

    async def stop(self) -> None:
        """Stop; a fetch under way is abandoned."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _known_before(self) -> tuple[IssuerRecord, ...]:
        """What receivers were told before this process started."""
        try:
            return decode_snapshot(self._paths.access.read_bytes()).issuers
        except (OSError, msgspec.MsgspecError):
            return ()  # the first start, or the file of another version

    def _asked(self) -> Iterator[str]:
        yield from self._gate.take_asked()
        for file in self._asking:
            try:
                data = file.look()
                yield from () if data is None else msgspec.json.decode(data, type=list[str])
            except (OSError, msgspec.MsgspecError) as error:
                _log.warning("asked-keys-not-read", reason=str(error))

    def _count(self, name: str, increase: float) -> None:
        assert self._meter is not None
        self._meter.add(name, increase)
