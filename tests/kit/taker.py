"""A consumer of a partition's log that takes what it is fed when a test tells it to."""

from typing import Any

from distributary.core.errors import DistributaryError
from distributary.core.flow import Logged
from distributary.core.log import iter_frames


class Taker:
    """See the module.

    Attributes:
        buffered_bytes: Fed and not taken.
        records: All that was fed.
        errors: Why the log could not be read.
        tail: Who feeds it.
    """

    def __init__(self) -> None:
        self.buffered_bytes = 0
        self.records: list[Logged] = []
        self.errors: list[DistributaryError] = []
        self.tail: Any = None

    def feed(self, to_offset: int, chunk: bytes) -> None:
        """Take note of the records of *chunk*."""
        self.buffered_bytes = len(chunk)
        found = list(iter_frames(chunk))
        assert all(each.offset < to_offset for each in found)
        self.records += found

    def take(self) -> None:
        """Take all: the tail may go on."""
        self.buffered_bytes = 0
        self.tail.look_soon()

    def fail(self, error: DistributaryError) -> None:
        """Take note of *error*."""
        self.errors.append(error)
