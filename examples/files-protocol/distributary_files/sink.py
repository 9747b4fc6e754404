"""The transport: one thread writes, the loop goes on meanwhile."""

import asyncio
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from distributary.protocols.kit import (
    Acknowledgement,
    Answer,
    Clock,
    Connector,
    Destination,
    Done,
    Event,
    Reach,
    TransportError,
    json_format,
)
from distributary_files import FileSettings


def make(
    _connector: Connector, _clock: Clock, loop: asyncio.AbstractEventLoop, _reach: Reach
) -> "FilesTransport":
    """The transport of a process that delivers; it dials nobody."""
    return FilesTransport(Path(os.environ["FILES_FOLDER"]), loop)


class FilesTransport:
    """See ``Transport``: every attempt is answered once, and never from inside ``send``."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._folder = folder
        self._loop = loop
        self._writer = ThreadPoolExecutor(1, "files")
        self._attempts: set[asyncio.Task[Answer]] = set()

    def send(
        self,
        event: Event,
        destination: Destination,
        timeout_s: float,
        done: Done,
        identity: str = "",
        *,
        carried: bytes = b"",
    ) -> None:
        """Start one attempt."""
        del identity, carried  # for protocols that have a place for them
        attempt = self._loop.create_task(self._attempt(event, destination, timeout_s))
        self._attempts.add(attempt)
        attempt.add_done_callback(lambda ended: self._answered(ended, done))

    async def _attempt(self, event: Event, to: Destination, timeout_s: float) -> Answer:
        settings = to.settings
        assert isinstance(settings, FileSettings)
        path = self._folder / settings.name
        line = json_format.encode(event) + b"\n"
        try:
            async with asyncio.timeout(timeout_s):
                await self._loop.run_in_executor(self._writer, _append, path, line, settings.sync)
        except TimeoutError:
            return TransportError("timeout", f"Not written within {timeout_s:g} s")
        except OSError as error:
            code = errno.errorcode.get(error.errno or 0, "other")
            return Acknowledgement(to.protocol, code, error.strerror or "")
        return Acknowledgement(to.protocol, "written")

    def _answered(self, attempt: asyncio.Task[Answer], done: Done) -> None:
        self._attempts.discard(attempt)
        closed = TransportError("closed", "The transport is closed")
        done(closed if attempt.cancelled() else attempt.result())

    async def close(self) -> None:
        """Stop; attempts under way end as ``closed``."""
        for attempt in self._attempts:
            attempt.cancel()
        await asyncio.gather(*self._attempts, return_exceptions=True)
        self._writer.shutdown()


def _append(path: Path, line: bytes, sync: bool) -> None:
    with path.open("ab") as file:
        file.write(line)
        file.flush()
        if sync:
            os.fsync(file.fileno())
