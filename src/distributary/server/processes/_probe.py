"""Answers questions after health whatever hangs, and has hanging processes replaced.

Called by ``_serve``. Works in a thread with a loop of its own, so that neither the API's loop nor
the ingest process can keep it from answering. On ``health_port`` it always answers. On the main
port the ingest process does; while that gives no sign of life, this thread takes the connections
that wait there: it answers ``/healthz`` and ``/readyz``, and everything else 503.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable

import structlog

from distributary.core.clock import Clock
from distributary.server.ingest import Persistence, Responses
from distributary.server.processes._ground import listen
from distributary.server.processes._health import Health
from distributary.server.processes._watchdog import Watchdog

LOOK_S = 0.25
"""How often processes are looked at: as often as they give signs of life."""
ANSWERING_MAX = 256
"""Connections under way at one time; more wait in the kernel's queue."""
HEAD_S = 2.0
"""Longest wait for the head of a request: a question after health is one packet."""
HEAD_BYTES_MAX = 16 * 1024
"""Longest head of a request that is read."""
LINGER_S = 1.0
"""After the answer we read on this long: closing with bytes unread would take the answer along."""
BACKLOG = 64
"""Connections that wait at the health port: probes come one at a time."""


def listen_for_health(host: str, port: int | None) -> socket.socket | None:
    """The socket of the health port; None where none is wanted.

    Raises:
        SettingsError: It cannot be had.
    """
    if port is None:
        return None
    purpose = " for questions after health"
    return listen(host, port, flag="--health-port", purpose=purpose, backlog=BACKLOG)


class Probe:
    """The thread that answers and watches.

    Args:
        health: How the processes are.
        watchdog: Replaces those that hang.
        clock: For dates.
        port: The main port; not closed here.
        own: The health port, of ``listen_for_health``; belongs to this from now on.
    """

    def __init__(
        self,
        health: Health,
        watchdog: Watchdog,
        clock: Clock,
        *,
        port: socket.socket,
        own: socket.socket | None,
    ) -> None:
        self._health = health
        self._watchdog = watchdog
        self._clock = clock
        self._port = port
        self._own = own
        self._log = structlog.get_logger()
        self._stopping = threading.Event()
        self._watching = True
        self._stands_in = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)

    def start(self) -> None:
        """Begin to answer and to watch."""
        self._thread.start()

    def rest(self) -> None:
        """Watch no longer: the processes are being stopped. Health is answered on."""
        self._watching = False

    def stop(self) -> None:
        """End; the health port is closed."""
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
            except OSError as error:  # no descriptors left: for now
                self._log.error("look-failed", error=str(error))
            self._listen(loop)
            await asyncio.sleep(LOOK_S)
        for task in self._tasks:
            task.cancel()
        for listener in (self._port, self._own):
            if listener is not None:
                loop.remove_reader(listener)

    def _stand_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the main port's connections while the ingest process gives no sign of life."""
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
        """Take connections, again where there was no room for more at the last look."""
        if self._own is not None:
            loop.add_reader(self._own, self._accept, self._own, self._answer_of_own)
        if self._stands_in:
            loop.add_reader(self._port, self._accept, self._port, self._answer_of_port)

    def _accept(self, listener: socket.socket, answer: Callable[[bytes, bytes], bytes]) -> None:
        loop = asyncio.get_running_loop()
        if listener is self._port and not self._health.ingest_silent:
            self._stand_in(loop)  # it has come back since the last look
            return
        if len(self._tasks) >= ANSWERING_MAX:
            loop.remove_reader(listener)  # until the next look: it would be told of them for ever
            return
        try:
            connection, _ = listener.accept()
        except BlockingIOError:  # another process took it
            return
        except OSError:  # there are no descriptors
            loop.remove_reader(listener)
            return
        connection.setblocking(False)
        task = loop.create_task(self._serve(connection, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, connection: socket.socket, answer: Callable[[bytes, bytes], bytes]
    ) -> None:
        loop = asyncio.get_running_loop()
        with connection, contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(HEAD_S):
                head = b""
                while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
                    part = await loop.sock_recv(connection, HEAD_BYTES_MAX)
                    if not part:
                        return
                    head += part
                method, _, rest = head.partition(b" ")
                target = rest.partition(b" ")[0].partition(b"?")[0]
                await loop.sock_sendall(connection, answer(method, target))
            connection.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(LINGER_S):
                while await loop.sock_recv(connection, HEAD_BYTES_MAX):
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
        if not well:
            return self._problem("unavailable", "; ".join(reasons), method)
        body = b"ok\n" if target == b"/healthz" else b'{"ready":true}'
        kind = b"text/plain; charset=utf-8" if target == b"/healthz" else b"application/json"
        fields = b"content-type: %s\r\ncontent-length: %d\r\n" % (kind, len(body))
        return Responses(self._clock.wall_ms()).build(
            b"HTTP/1.1 200 OK\r\n",
            b"connection: close\r\n",
            fields,
            b"" if method == b"HEAD" else body,
        )

    def _problem(self, code: str, detail: str, method: bytes) -> bytes:
        return Responses(self._clock.wall_ms()).problem(
            code, detail, Persistence.CLOSE, without_body=method == b"HEAD"
        )


_QUESTIONS = frozenset({b"/healthz", b"/readyz"})
_READING = frozenset({b"GET", b"HEAD"})
