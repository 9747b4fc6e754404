"""A cache of which subjects a stream holds, refreshed every few seconds.

Called by ``_session``, which sends the lookups and publishes the events that wait for them.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from distributary.net.link import Flight

LOOK_AGAIN_S: Final = 5.0
"""Lifetime of a cache entry: streams are created and deleted meanwhile, and a lookup at this
interval costs nothing."""

RESULT_S_MAX: Final = 20.0
"""Age beyond which a result is not used: events wait for the next lookup. Lookups go by events, so
the result of a subject without any grows old: a stream created meanwhile would be passed over."""

DENIED_S: Final = 30.0
"""How long a denial of the server's is taken for its word: permissions change while a connection
stands, and the server does not tell. Then it is tried again, which costs a line in its log."""

SUBJECTS_MAX: Final = 10_000
"""Subjects in the cache; as many as destinations."""


@dataclass(slots=True, eq=False)
class Holder:
    """Cache entry of one subject.

    Attributes:
        subject: The subject.
        held: Whether a stream holds it; None: not known yet, or ``waiting`` is being sent.
        old: Whether ``held`` is too old: events wait for the pending lookup.
        known_s: When the lookup was sent that told ``held``; monotonic.
        asked_s: Time of the last lookup; monotonic.
        token: Of the pending lookup.
        waiting: Events that wait for a lookup, in their order.
    """

    subject: str
    held: bool | None = None
    old: bool = False
    known_s: float = 0.0
    asked_s: float = 0.0
    token: bytes = b""
    waiting: deque[Flight] = field(default_factory=deque)


class Holders:
    """Cache of the subjects of one connection.

    Args:
        ask: Sends the lookup of a subject; returns the token of its reply.
    """

    def __init__(self, ask: Callable[[str], bytes]) -> None:
        self._ask = ask
        self._by_subject: dict[str, Holder] = {}
        self._asked: dict[bytes, Holder] = {}
        self._may_ask = True
        self._denied_s = 0.0

    def of(self, subject: str, now_s: float) -> Holder:
        """Returns the entry of *subject*; starts a lookup if it is new or expired."""
        self._may_ask = self._may_ask or now_s - self._denied_s >= DENIED_S
        holder = self._by_subject.get(subject)
        if holder is None:
            if len(self._by_subject) >= SUBJECTS_MAX:
                self._forget_many()
            holder = self._by_subject[subject] = Holder(subject)
        elif self._grew_old(holder, now_s):
            holder.old = True
        elif now_s - holder.asked_s < LOOK_AGAIN_S:
            return holder
        holder.asked_s = now_s
        if not self._may_ask:
            holder.held = True  # the reply to the publish will tell
            return holder
        self._asked.pop(holder.token, None)
        holder.token = self._ask(subject)
        self._asked[holder.token] = holder
        return holder

    def _grew_old(self, holder: Holder, now_s: float) -> bool:
        """Whether the result has just become too old.

        Not while a lookup is pending: a cluster whose API is silent for a while may store still.
        """
        return (
            holder.held is not None
            and now_s - holder.known_s >= RESULT_S_MAX
            and holder.token not in self._asked
            and self._may_ask
        )

    def _forget_many(self) -> None:
        """Drop entries without waiting events."""
        self._by_subject = {
            subject: holder for subject, holder in self._by_subject.items() if holder.waiting
        }

    def answered(self, token: bytes) -> Holder | None:
        """Remove and return the entry whose lookup has *token*; None: no such lookup."""
        return self._asked.pop(token, None)

    def unanswered(self, token: bytes) -> Holder | None:
        """Returns the entry without a stream whose lookup has *token*; its reply may still come."""
        holder = self._asked.get(token)
        return holder if holder is not None and not holder.held else None

    def forget(self, subject: str) -> None:
        """Drop the entry, so that the next event triggers a lookup."""
        if self._may_ask:
            self._by_subject.pop(subject, None)

    def ask_no_more(self, now_s: float) -> list[Holder]:
        """Stop lookups, which are not permitted for now, and assume a stream for each subject.

        Returns the entries with a pending lookup.
        """
        self._may_ask = False
        self._denied_s = now_s
        asked, self._asked = self._asked, {}
        return list(asked.values())

    def clear(self) -> list[Holder]:
        """Drop all entries and lookups. Returns the entries."""
        holders, self._by_subject = self._by_subject, {}
        self._asked.clear()
        return list(holders.values())
