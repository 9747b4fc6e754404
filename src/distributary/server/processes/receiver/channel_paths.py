"""The receiver's paths of Brokers and Channels: read from the store at its start and at changes.

The control process writes them and asks the receiver to read again; the receiver responds once it
has. It also polls a version number in the store, four times a second, for missed notifications.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from distributary.core.errors import StoreError
from distributary.datadir import DataDir

Learn = Callable[[Mapping[str, str]], None]


class Book(Protocol):
    """``knative.apiserver.objects.AddressBook``; used from one thread."""

    def read(self) -> dict[str, str]:
        """Returns address by path, of all Brokers and Channels."""

    def version(self) -> object:
        """Returns a value that changes whenever the result of ``read`` does."""

    def close(self) -> None:
        """Close the connections."""


class ChannelPaths:
    """A cache of the paths of Brokers and Channels. A failed read leaves it unchanged.

    Args:
        open_book: Opens the store; retried until it succeeds.
        report: Called with the reason why the addresses cannot be read, once for each reason.
        may_have_news: Whether the store may have changed since its last call: cheap.

    Attributes:
        paths: Address by path; None before the first successful read.
    """

    def __init__(
        self,
        open_book: Callable[[], Book],
        report: Callable[[str], None],
        may_have_news: Callable[[], bool] = lambda: True,
    ) -> None:
        self.paths: Mapping[str, str] | None = None
        self._open_book = open_book
        self._report = report
        self._may_have_news = may_have_news
        self._learn: Learn = lambda _paths: None
        self._thread = ThreadPoolExecutor(1, "addresses")  # one thread keeps reads in order
        self._book: Book | None = None
        self._version: object = None
        self._reason: str | None = None

    def tell(self, learn: Learn) -> None:
        """Call *learn* with the paths, now and after each change."""
        self._learn = learn
        if self.paths is not None:
            learn(self.paths)

    async def look(self) -> str | None:
        """Read all paths; when this returns, *learn* has been called.

        Returns:
            Why they could not be read; None on success.
        """
        return await self._take(self._read)

    async def look_if_changed(self) -> None:
        """Read the paths if the version number has changed."""
        news = self._may_have_news()
        if news or self.paths is None or self._reason is not None:
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
        version = book.version()  # before the read, so that a change between causes another
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
        """Close the store, after a read that is under way."""

        def close() -> None:
            if self._book is not None:
                self._book.close()

        self._thread.submit(close)
        self._thread.shutdown()


def book_of(paths: DataDir) -> Book:
    """Opens the store of Brokers and Channels in the data directory."""
    # Imported late, in a thread: the port is open by then.
    from distributary.core.database import sqlite_url  # noqa: PLC0415 - see above
    from distributary.knative.apiserver.objects import AddressBook  # noqa: PLC0415 - see above

    return AddressBook(sqlite_url(paths.state_db))
