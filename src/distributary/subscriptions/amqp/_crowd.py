"""How many connections there may be, and whose: no tenant, and nobody unknown, takes them all."""

from collections import Counter
from typing import TYPE_CHECKING, Final

from distributary.access import has_its_share, whose

if TYPE_CHECKING:
    from distributary.subscriptions.amqp._conversation import Conversation

CONNECTIONS_MAX: Final = 100
"""Most connections: requests and response of a hostile client may hold some 9 MiB each. One more
is cut at once."""

UNOPENED_MAX: Final = 100
"""Most connections beside these whose client has not logged in and opened yet; one more ends the
oldest. Each holds some KiB, and is cut after ``OPEN_S_MAX``; clients that come back all at once
after a restart are so many."""


class Crowd:
    """The connections of the port, each from its beginning to its end. For one thread."""

    def __init__(self) -> None:
        self._unopened: dict[Conversation, None] = {}  # the oldest first
        self._open: dict[Conversation, str] = {}
        self._of_holders: Counter[str] = Counter()

    @property
    def full(self) -> bool:
        """Whether no other connection may be opened."""
        return len(self._open) >= CONNECTIONS_MAX

    def enter(self, conversation: "Conversation") -> "Conversation | None":
        """Add one that is not open yet; returns the one that has to end for it."""
        late = None
        if len(self._unopened) >= UNOPENED_MAX:
            late = next(iter(self._unopened))
        self._unopened[conversation] = None
        return late

    def open(self, conversation: "Conversation", holder: str) -> str:
        """Count one as open, for *holder* (``Identity.holder``); empty: for nobody.

        Returns:
            Why it may not stay, for its client; empty: it may.
        """
        if self.full:
            return "too many connections are open"
        own = self._of_holders[holder] if holder else 0
        if has_its_share(own, len(self._open), CONNECTIONS_MAX):
            return f"too many connections of {whose(holder)} are open"
        self._unopened.pop(conversation, None)
        self._open[conversation] = holder
        self._of_holders[holder] += 1
        return ""

    def leave(self, conversation: "Conversation") -> None:
        """Forget one that has ended."""
        self._unopened.pop(conversation, None)
        holder = self._open.pop(conversation, None)
        if holder is not None:
            self._of_holders[holder] -= 1
            if not self._of_holders[holder]:
                del self._of_holders[holder]
