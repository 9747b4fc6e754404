"""The port of whoever takes a partition's records as the log grows."""

from typing import Protocol

from distributary.core.errors import DistributaryError


class TailConsumer(Protocol):
    """Takes the chunks of a tail: the owner of the partition."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes of chunks that were fed and not yet taken."""

    def feed(self, to_offset: int, chunk: bytes) -> None:
        """Take the next *chunk* of whole frames; the record after it is *to_offset*."""

    def fail(self, error: DistributaryError) -> None:
        """The log cannot be read."""
