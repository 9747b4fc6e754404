"""One source: runs its consumer, restarts it with backoff, and reports its state.

Called by ``server.processes.source_process``. Hides states, backoff, counters and log lines.

::

    CONNECTING --first message, or STEADY_S without an end--> READING
        |  ^                                                     |
        |  '--------------- pause ------------- FAILING <--------'  TransportError
        '------------------------------------------^
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from distributary.core.clock import Clock
from distributary.core.deliver import TimerHandle, Timers, Transport
from distributary.core.deliver.endpoint import UNIX
from distributary.core.errors import TransportError
from distributary.core.meter import Meter
from distributary.core.source import Consumer, Message, SourceSpec
from distributary.sources._handover import Handover

UNSETTLED_MAX: Final = 256
"""Unsettled messages of one source: four times the requests in flight at the receiver, so that the
next message is at hand when one is settled."""

UNSETTLED_TOTAL_MAX: Final = 2_048
"""The same for all sources together, shared evenly: 2 MiB of events of 1 KB, 2 GiB of the largest
that the receiver accepts (1 MiB by default)."""

RECONNECT_S_FIRST: Final = 0.2
"""First pause, doubled up to ``RECONNECT_S_MAX``: one lost connection is made again at once."""
RECONNECT_S_MAX: Final = 5.0
"""Backoff between connections, doubled each time: a broker that is back is found within 5 s."""

STEADY_S: Final = 12.0
"""A consumer that ran so long is connected (no dial takes longer than 10 s), which resets the
backoff; the first message does so at once."""

LINES_A_MINUTE_MAX: Final = 10
"""Log lines about refused messages, for each source: a topic of other messages would fill the
disk. All are counted, and the next line has the number of those without one."""

_MINUTE_S: Final = 60.0


class SourceState(enum.StrEnum):
    """State of a source; the module draws the transitions."""

    CONNECTING = "connecting"
    READING = "reading"
    FAILING = "failing"
    STOPPED = "stopped"


class Source:
    """Copies messages from one place at one broker to the log, until it is stopped.

    At least once: a message is acknowledged after the log has its event. A crash or a lost
    connection in between makes a second event with the same ``id``.

    Args:
        spec: What to read.
        consumer: Reads it.
        transport: HTTP, to the receiver.
        base: Scheme, host and port of the receiver; or ``unix:`` and the path of its socket.
        token: Shows the receiver on whose behalf events are published.
        body_bytes_max: Largest body that the receiver accepts.
        unsettled_max: Limit of unsettled messages, up to ``UNSETTLED_MAX``.
        meter: Counts.
        clock: For the limit of log lines a minute.
        timers: For backoff towards the receiver, and for ``STEADY_S``.
        sleep: For backoff between connections, seconds.
    """

    def __init__(
        self,
        spec: SourceSpec,
        consumer: Consumer,
        transport: Transport,
        base: str,
        *,
        token: str = "",
        body_bytes_max: int,
        unsettled_max: int,
        meter: Meter,
        clock: Clock,
        timers: Timers,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._spec = spec
        self._consumer = consumer
        self._unsettled_max = min(unsettled_max, UNSETTLED_MAX)
        dial = base if base.startswith(UNIX) else None
        uri = (base if dial is None else "http://localhost") + spec.to
        self._handover = Handover(
            transport, uri, body_bytes_max, timers, self, token=token, dial=dial
        )
        self._meter = meter
        self._clock = clock
        self._timers = timers
        self._sleep = sleep
        self._log = structlog.get_logger().bind(source=spec.name)
        self._why_failing = ""
        self._pause_s = RECONNECT_S_FIRST
        self._waits = False
        self._minute_s = float("-inf")
        self._lines = 0
        self._untold = 0
        self._task: asyncio.Task[None] | None = None
        self.state = SourceState.CONNECTING
        for result in ("taken", "refused", "retried"):
            self._count(result, 0)

    # -- beginning and end --------------------------------------------------------------------

    def start(self) -> None:
        """Start ``run`` as a task of the running loop."""
        self._task = asyncio.get_running_loop().create_task(self.run())

    async def run(self) -> None:
        """Run the consumer, restarting it with backoff, until cancelled."""
        while True:
            self.state = SourceState.CONNECTING
            steady = self._timers.call_later(STEADY_S, self._is_connected)
            why = await self._run_once(steady)
            self._fails(why)
            await self._sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, RECONNECT_S_MAX)

    async def _run_once(self, steady: TimerHandle) -> str:
        """Run the consumer until it ends. Returns the reason."""
        try:
            await self._consumer.run(self._take, self._unsettled_max)
        except TransportError as error:
            return f"{error.reason}: {error}"
        # A bug here or in a client library: restart this source as after any other end, and leave
        # the other sources of this process alone.
        except Exception as error:  # noqa: BLE001 - see above
            why = f"bug: {type(error).__name__}"
            if why != self._why_failing:  # its trace fills a screen, and every pause may bring it
                self._log.exception("source-bug")
            return why
        finally:
            steady.cancel()
            self._handover.forget()
        return "closed: the broker has ended the connection"

    async def stop(self, drain_s: float) -> None:
        """Send nothing new, settle what is in flight, and disconnect.

        The broker redelivers what is not settled.

        Args:
            drain_s: Longest wait for requests in flight.
        """
        self._handover.close()
        if self._handover.in_flight:
            idle = asyncio.Event()
            self._handover.idle = idle.set
            try:
                async with asyncio.timeout(drain_s):
                    await idle.wait()
            except TimeoutError:
                self._log.warning("source-not-drained", in_flight=self._handover.in_flight)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.state = SourceState.STOPPED

    # -- callbacks of the consumer and the hand-over ----------------------------------------------

    def _take(self, message: Message) -> None:
        self._is_connected()
        self._handover.take(message)

    def taken(self) -> None:
        """Count an event that the log has."""
        self._count("taken")
        if self._waits:
            self._waits = False
            self._log.info("source-goes-on", waiting=self._handover.waiting)

    def refused(self, message: Message, why: str) -> None:
        """Count a refused message, and log it."""
        self._count("refused")
        now_s = self._clock.monotonic_s()
        if now_s - self._minute_s >= _MINUTE_S:
            self._minute_s, self._lines = now_s, 0
        if self._lines >= LINES_A_MINUTE_MAX:
            self._untold += 1
            return
        self._lines += 1
        self._log.warning("source-refused", where=message.where, why=why, untold=self._untold)
        self._untold = 0

    def retried(self, why: str) -> None:
        """Count an event that is sent again; log the first."""
        self._count("retried")
        if not self._waits:
            self._waits = True
            self._log.warning("source-waits", why=why, to=self._spec.to)

    # -- state ----------------------------------------------------------------------------------

    def _is_connected(self) -> None:
        if self.state is SourceState.READING:
            return
        self.state = SourceState.READING
        self._pause_s = RECONNECT_S_FIRST
        self._why_failing = ""
        self._log.info("source-reading", protocol=self._spec.protocol, place=self._spec.place)

    def _fails(self, why: str) -> None:
        self.state = SourceState.FAILING
        if why != self._why_failing:
            self._why_failing = why
            self._log.warning("source-failing", why=why, again_in_s=self._pause_s)

    def _count(self, result: str, count: int = 1) -> None:
        self._meter.add(
            f'source_messages_total{{source="{self._spec.name}",result="{result}"}}', count
        )

    def gauge(self) -> None:
        """Update the gauges of the source."""
        label = f'{{source="{self._spec.name}"}}'
        self._meter.gauges[f"source_reading{label}"] = float(self.state is SourceState.READING)
        self._meter.gauges[f"source_unsettled{label}"] = (
            self._handover.waiting + self._handover.in_flight
        )
