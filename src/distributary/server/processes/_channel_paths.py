"""The receiver's Brokers and Channels: read from the store at its start, and when they change.

The control process writes them and says when the receiver must look again; it answers when it
has. A look at a number in the store, four times a second, catches what nobody said.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from distributary.core.errors import StoreError

Learn = Callable[[Mapping[str, str]], None]


class Book(Protocol):
    """``knative.apiserver.objects.AddressBook``; used from one thread."""

    def read(self) -> dict[str, str]:
        """Path -> address, all of them."""

    def version(self) -> int:
        """Differs once ``read`` would give something else."""

    def close(self) -> None:
        """Close the connections."""


class ChannelPaths:
    """What the receiver knows of Brokers and Channels. What cannot be read stays as it was.

    Args:
        open_book: Opens the store; called again until it has succeeded.
        report: Told why the addresses cannot be read, once for each reason.

    Attributes:
        paths: Path -> address; None: nothing could be read yet.
    """

    def __init__(self, open_book: Callable[[], Book], report: Callable[[str], None]) -> None:
        self.paths: Mapping[str, str] | None = None
        self._open_book = open_book
        self._report = report
        self._learn: Learn = lambda _paths: None
        self._thread = ThreadPoolExecutor(1, "addresses")  # of one, so looks are in their order
        self._book: Book | None = None
        self._version: int | None = None
        self._reason: str | None = None

    def tell(self, learn: Learn) -> None:
        """Tell *learn* what is known, now and after each change."""
        self._learn = learn
        if self.paths is not None:
            learn(self.paths)

    async def look(self) -> str | None:
        """Read them all; when this returns, *learn* has been told.

        Returns:
            None, or why they could not be read.
        """
        return await self._take(self._read)

    async def look_if_changed(self) -> None:
        """Read them if they are others than at the last look: else one number is read."""
        await self._take(self._read_if_changed)

    async def _take(self, read: Callable[[], dict[str, str] | None]) -> str | None:
        reason: str | None = None
        try:
            paths = await asyncio.get_running_loop().run_in_executor(self._thread, read)
        except StoreError as error:
            reason = str(error)
        else:
            if paths is not None:
                self.paths = paths
                self._learn(paths)
        if reason is not None and reason != self._reason:
            self._report(reason)
        self._reason = reason
        return reason

    # -- in the thread ------------------------------------------------------------------------

    def _read(self) -> dict[str, str]:
        book = self._opened()
        version = book.version()  # before the read, so that a change between is looked at again
        paths = book.read()
        self._version = version
        return paths

    def _read_if_changed(self) -> dict[str, str] | None:
        return None if self._opened().version() == self._version else self._read()

    def _opened(self) -> Book:
        if self._book is None:
            self._book = self._open_book()
        return self._book

    def close(self) -> None:
        """Let the store go, after a look that is under way."""

        def close() -> None:
            if self._book is not None:
                self._book.close()

        self._thread.submit(close)
        self._thread.shutdown()
