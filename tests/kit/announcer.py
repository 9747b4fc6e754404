"""An announcer of API keys that tells nobody, for tests of what makes and revokes them."""

from distributary.access import KeyRecord
from distributary.core.errors import StoreError

__all__ = ["CountingAnnouncer"]


class CountingAnnouncer:
    """Counts announcements.

    Attributes:
        configured: The keys in the configuration file.
        count: Announcements so far.
        fails: Whether the next ones fail.
    """

    def __init__(self) -> None:
        self.configured: tuple[KeyRecord, ...] = ()
        self.count = 0
        self.fails = False

    async def announce(self) -> None:
        """Count one."""
        if self.fails:
            raise StoreError("cannot write access.json: No space left on device")
        self.count += 1
