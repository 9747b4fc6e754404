"""Which subjects a stream holds: asked once for each, and again after a while.

Called by ``_session``, which sends the questions and publishes what waits for the answers.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from distributary.net.link import Flight

LOOK_AGAIN_S: Final = 5.0
"""How long the answer stands which stream holds a subject: streams are made and deleted while we
run, and one question in so many seconds costs nothing."""

SUBJECTS_MAX: Final = 10_000
"""Subjects whose stream is remembered; as many as there are destinations."""


@dataclass(slots=True, eq=False)
class Holder:
    """What is known about who holds a subject.

    Attributes:
        subject: The subject.
        held: Whether a stream does; None: nobody knows yet, or what waited is just being sent.
        asked_s: When it was last asked; monotonic.
        token: Of the question that has no answer yet.
        waiting: Events that wait for the first answer, in their order.
    """

    subject: str
    held: bool | None = None
    asked_s: float = 0.0
    token: bytes = b""
    waiting: deque[Flight] = field(default_factory=deque)


class Holders:
    """What is known of all subjects of one connection.

    Args:
        ask: Sends the question about a subject; the token that its answer will name.
    """

    def __init__(self, ask: Callable[[str], bytes]) -> None:
        self._ask = ask
        self._by_subject: dict[str, Holder] = {}
        self._asked: dict[bytes, Holder] = {}
        self._may_ask = True

    def of(self, subject: str, now_s: float) -> Holder:
        """What is known of *subject*; asks where that is nothing, or old."""
        holder = self._by_subject.get(subject)
        if holder is None:
            if len(self._by_subject) >= SUBJECTS_MAX:
                self._forget_many()
            holder = self._by_subject[subject] = Holder(subject)
        elif now_s - holder.asked_s < LOOK_AGAIN_S:
            return holder
        holder.asked_s = now_s
        if not self._may_ask:
            holder.held = True  # whoever answers shows it
            return holder
        self._asked.pop(holder.token, None)
        holder.token = self._ask(subject)
        self._asked[holder.token] = holder
        return holder

    def _forget_many(self) -> None:
        """Forget what is known, but not who waits for it."""
        self._by_subject = {
            subject: holder for subject, holder in self._by_subject.items() if holder.waiting
        }

    def answered(self, token: bytes) -> Holder | None:
        """Whom the answer with *token* is about; None: nobody asked so."""
        return self._asked.pop(token, None)

    def forget(self, subject: str) -> None:
        """Have it asked again before the next event is sent."""
        if self._may_ask:
            self._by_subject.pop(subject, None)

    def ask_no_more(self) -> list[Holder]:
        """We may not ask: from now on, act as if a stream held each subject. Those in question."""
        self._may_ask = False
        asked, self._asked = self._asked, {}
        return list(asked.values())

    def clear(self) -> list[Holder]:
        """Forget all, questions too; what was known until now."""
        holders, self._by_subject = self._by_subject, {}
        self._asked.clear()
        return list(holders.values())
