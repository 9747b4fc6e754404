"""Responds to health checks whatever hangs, and runs the watchdog.

Runs in a separate thread and event loop, so that neither the API's loop nor the ingest process can
block it. It always serves ``health_port``. The ingest process serves the main port; while its
heartbeat is missing, this thread accepts the connections there: it serves ``/healthz`` and
``/readyz``, and responds 503 to everything else.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable

import structlog

from distributary.core.clock import Clock
from distributary.server.ingest import (
    BROWSER_FIELDS,
    NOT_STORED_FIELD,
    Persistence,
    Responses,
)
from distributary.server.processes.base.ground import listen
from distributary.server.processes.supervision.health import Health
from distributary.server.processes.supervision.watchdog import Watchdog

LOOK_S = 0.25
"""How often processes are checked: as often as their heartbeats come."""
GRACE_S = 0.25
"""How long a connection of the main port waits for a receiver before it is answered here: one that
lives takes it, although a stalled machine kept its heartbeat back."""
ANSWERING_MAX = 256
"""Connections under way at one time; more wait in the kernel's queue."""
HEAD_S = 2.0
"""Longest wait for the head of a request: a health check is one packet."""
HEAD_BYTES_MAX = 16 * 1024
"""Longest head of a request that is read."""
LINGER_S = 1.0
"""Time to read on after the response: closing with unread bytes would reset the connection and
discard it."""
BACKLOG = 64
"""Connections that wait at the health port: probes come one at a time."""


def listen_for_health(host: str, port: int | None) -> socket.socket | None:
    """Returns the socket of the health port; None where none is configured.

    Raises:
        SettingsError: The port is unusable.
    """
    if port is None:
        return None
    purpose = " for questions after health"
    return listen(host, port, flag="--health-port", purpose=purpose, backlog=BACKLOG)


class Probe:
    """The thread of health checks and watchdog.

    Args:
        health: State of the processes.
        watchdog: Replaces processes that hang.
        clock: For dates.
        port: Socket of the main port; not closed here. None: another process stands in there.
        own: Socket of the health port, from ``listen_for_health``; closed by ``stop``.
        tls: Returns the context for the next connection, of the main port or not; None: no TLS.
    """

    def __init__(
        self,
        health: Health,
        watchdog: Watchdog,
        clock: Clock,
        *,
        port: socket.socket | None,
        own: socket.socket | None,
        tls: Callable[[bool], ssl.SSLContext] | None = None,
    ) -> None:
        self._health = health
        self._watchdog = watchdog
        self._clock = clock
        self._port = port
        self._own = own
        self._tls = tls
        self._log = structlog.get_logger()
        self._stopping = threading.Event()
        self._watching = True
        self._stands_in = False
        self._grace: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def rest(self) -> None:
        """Pause the watchdog, since the processes are being stopped; health checks continue."""
        self._watching = False

    def stop(self) -> None:
        """End the thread and close the health port."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._own is not None:
            self._own.close()

    def _run(self) -> None:
        asyncio.run(self._turn())

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            try:
                if self._watching:
                    self._watchdog.look()
                self._stand_in(loop)
            except OSError as error:  # descriptors are short for now
                self._log.error("watchdog-look-failed", error=str(error))
            self._listen(loop)
            await asyncio.sleep(LOOK_S)
        for task in self._tasks:
            task.cancel()
        if self._grace is not None:
            self._grace.cancel()
        for listener in (self._port, self._own):
            if listener is not None:
                loop.remove_reader(listener)

    def _stand_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accept the main port's connections while the ingest process has no heartbeat."""
        if self._port is None:
            return
        wanted = self._watching and not self._health.alive()[0] and self._health.ingest_silent
        if wanted == self._stands_in:
            return
        self._stands_in = wanted
        if wanted:
            self._log.warning("ingest-silent", doing="the main port is answered 503 meanwhile")
        else:
            self._log.info("ingest-answers")
            loop.remove_reader(self._port)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accept connections; resumes where the last check found too many under way."""
        if self._own is not None:
            loop.add_reader(self._own, self._accept, self._own, self._answer_of_own)
        if self._stands_in and self._port is not None and self._grace is None:
            loop.add_reader(self._port, self._await_receiver, loop, self._port)

    def _await_receiver(self, loop: asyncio.AbstractEventLoop, port: socket.socket) -> None:
        """Leave a connection of the main port to a receiver for ``GRACE_S``."""
        loop.remove_reader(port)
        self._grace = loop.call_later(GRACE_S, self._accept_left, loop, port)

    def _accept_left(self, loop: asyncio.AbstractEventLoop, port: socket.socket) -> None:
        """Accept what no receiver has taken; the next check listens again."""
        self._grace = None
        self._stand_in(loop)  # it may have come back since the last check
        while self._stands_in and self._accept(port, self._answer_of_port):
            pass

    def _accept(self, listener: socket.socket, answer: Callable[[bytes, bytes], bytes]) -> bool:
        """Accept one connection, if one waits and there is room; returns whether it did."""
        loop = asyncio.get_running_loop()
        if len(self._tasks) >= ANSWERING_MAX:
            loop.remove_reader(listener)  # until the next check: the event would repeat for ever
            return False
        try:
            connection, _ = listener.accept()
        except BlockingIOError:  # another process took it
            return False
        except OSError:  # there are no descriptors
            loop.remove_reader(listener)
            return False
        connection.setblocking(False)
        task = loop.create_task(self._serve(connection, answer, main=listener is self._port))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _serve(
        self, connection: socket.socket, answer: Callable[[bytes, bytes], bytes], *, main: bool
    ) -> None:
        tls = None if self._tls is None else self._tls(main)
        reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX)
        protocol = asyncio.StreamReaderProtocol(reader)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, TimeoutError):
            try:
                async with asyncio.timeout(HEAD_S):
                    transport, _ = await loop.connect_accepted_socket(
                        lambda: protocol,
                        connection,
                        ssl=tls,
                        ssl_shutdown_timeout=None if tls is None else LINGER_S,
                    )
            except BaseException:
                connection.close()
                raise
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            try:
                await self._converse(reader, writer, answer)
            finally:
                writer.close()
                await writer.wait_closed()

    async def _converse(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Callable[[bytes, bytes], bytes],
    ) -> None:
        """Answer one request, and read on until the client closes."""
        async with asyncio.timeout(HEAD_S):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                head = await reader.read(HEAD_BYTES_MAX)
            method, _, rest = head.partition(b" ")
            target = rest.partition(b" ")[0].partition(b"?")[0]
            writer.write(answer(method, target))
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
            async with asyncio.timeout(LINGER_S):
                while await reader.read(HEAD_BYTES_MAX):
                    pass

    def _answer_of_own(self, method: bytes, target: bytes) -> bytes:
        if target not in _QUESTIONS:
            detail = "this port answers /healthz and /readyz alone"
            return self._problem("notfound", detail, method)
        return self._answer(method, target)

    def _answer_of_port(self, method: bytes, target: bytes) -> bytes:
        if target not in _QUESTIONS or method not in _READING:
            return self._problem("unavailable", "ingest does not answer; it is replaced", method)
        return self._answer(method, target)

    def _answer(self, method: bytes, target: bytes) -> bytes:
        if method not in _READING:
            return self._problem("method-not-allowed", "ask with GET or HEAD", method)
        well, reasons = self._health.alive() if target == b"/healthz" else self._health.ready()
        if not well and target == b"/readyz":
            reasons = ["not ready"]  # why is for who observes, and nobody is asked here
        if not well:
            return self._problem("unavailable", "; ".join(reasons), method)
        body = b"ok\n" if target == b"/healthz" else b'{"ready":true}'
        kind = b"text/plain; charset=utf-8" if target == b"/healthz" else b"application/json"
        fields = b"content-type: %s\r\ncontent-length: %d\r\n" % (kind, len(body))
        fields += BROWSER_FIELDS + NOT_STORED_FIELD
        return self._responses().build(
            b"HTTP/1.1 200 OK\r\n",
            b"connection: close\r\n",
            fields,
            b"" if method == b"HEAD" else body,
        )

    def _problem(self, code: str, detail: str, method: bytes) -> bytes:
        return self._responses().problem(
            code, detail, Persistence.CLOSE, without_body=method == b"HEAD"
        )

    def _responses(self) -> Responses:
        return Responses(self._clock.wall_ms(), secure=self._tls is not None)


_QUESTIONS = frozenset({b"/healthz", b"/readyz"})
_READING = frozenset({b"GET", b"HEAD"})
