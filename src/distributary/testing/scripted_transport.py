"""A transport to scripted sinks. Passes ``check_transport`` like the real ones.

Called by tests and simulations. Runs on any ``deliver.Timers``, so in virtual time as well.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from distributary.core.deliver import Answer, Destination, Done, TimerHandle, Timers
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.policy import Reply

OK = Reply(status=204, retry_after=None, content_type=None, body=b"")
"""A plain acknowledgement."""


_ACCEPTED = 202


class Step(NamedTuple):
    """A sink's reaction to one event.

    Attributes:
        answer: The answer; None: never one (a sink that hangs).
        after_s: Seconds from the start of the attempt to the answer.
        taken: Whether the event arrives at the sink, whatever the answer.
    """

    answer: Answer | None = OK
    after_s: float = 0.0
    taken: bool = True


class ScriptedTransport:
    """A transport to scripted sinks.

    Args:
        timers: Schedule answers.
        script: Returns the sink's reaction to each event.

    Attributes:
        arrived: Every (event, destination) that arrived at a sink, in order.
        identities: Identity of each attempt, in order.
        carried: Header lines sent with each attempt, in order.
        under_way: Attempts without an answer yet.
    """

    def __init__(self, timers: Timers, script: Callable[[Event, Destination], Step]) -> None:
        self._timers = timers
        self._script = script
        self._attempts: dict[_Scripted, None] = {}
        self._closed = False
        self.arrived: list[tuple[Event, Destination]] = []
        self.identities: list[str] = []
        self.carried: list[bytes] = []

    @property
    def under_way(self) -> int:
        """Attempts that have no answer yet."""
        return len(self._attempts)

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
        """Start one attempt; see ``deliver.Transport``."""
        self.identities.append(identity)
        self.carried.append(carried)
        attempt = _Scripted(self._attempts, done)
        self._attempts[attempt] = None
        if self._closed:
            closed = _closed()
            attempt.timer = self._timers.call_later(0.0, lambda: attempt.end(closed))
            return
        step = self._script(event, destination)
        if step.taken:
            self.arrived.append((event, destination))
        answer, after_s = _as_asked(step.answer, destination), step.after_s
        if answer is None or after_s > timeout_s:
            answer, after_s = (
                TransportError("timeout", f"No answer within {timeout_s:g} s"),
                timeout_s,
            )
        attempt.timer = self._timers.call_later(after_s, lambda: attempt.end(answer))

    def break_attempts(self, answer: Answer) -> None:
        """End every attempt under way with *answer*, as a broken connection does."""
        for attempt in tuple(self._attempts):
            attempt.end(answer)

    async def close(self) -> None:
        """End every attempt under way as ``TransportError("closed")``."""
        self._closed = True
        self.break_attempts(_closed())


def _as_asked(answer: Answer | None, destination: Destination) -> Answer | None:
    """Removes the event of *answer* where no reply is wanted or allowed (decision 14, replies)."""
    if isinstance(answer, Reply) and (
        not destination.wants_reply or not 200 <= answer.status < 300 or answer.status == _ACCEPTED
    ):
        return dataclasses.replace(answer, event=None, event_fault=None)
    return answer


class _Scripted:
    """One attempt under way."""

    __slots__ = ("_attempts", "_done", "timer")

    def __init__(self, attempts: "dict[_Scripted, None]", done: Done) -> None:
        self._attempts = attempts
        self._done = done
        self.timer: TimerHandle | None = None

    def end(self, answer: Answer) -> None:
        if self._attempts.pop(self, self) is self:
            return  # it has ended already
        if self.timer is not None:
            self.timer.cancel()
        self._done(answer)


def _closed() -> TransportError:
    return TransportError("closed", "The transport was closed before an answer came")
