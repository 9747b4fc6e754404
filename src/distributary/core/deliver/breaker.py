"""The circuit breaker of one sink: stops attempts to a dead sink, and probes until it is back.

The documentation draws its diagram from the table ``TRANSITIONS``.
"""

import enum
from typing import Final

FAILURES_IN_A_ROW: Final = 10
"""Consecutive failures that open the breaker. A sink that fails half of its requests reaches ten in
a row once in a thousand; a dead one at once."""

OPEN_S_FIRST: Final = 0.25
"""First pause, seconds: hardly a delay for a sink that restarts its worker."""

OPEN_S_MAX: Final = 30.0
"""Longest pause between probes, seconds: one request in 30 s is no load for a failing sink, and
deliveries resume within half a minute of its return."""

BROKER_OPEN_S_MAX: Final = 5.0
"""The same for brokers: many consumers depend on one, a probe is one message on a connection that
is kept anyway, and deliveries should resume within ten seconds of its return."""

OPEN_JITTER_SHARE: Final = 0.2
"""Jitter: a pause is lengthened by up to this share, so that the sinks of one dead host are not
probed all at once."""


class BreakerState(enum.Enum):
    """Whether attempts may start."""

    CLOSED = "closed"
    """Yes."""
    OPEN = "open"
    """No, until the pause is over."""
    HALF_OPEN = "half-open"
    """One, the probe; its answer decides."""


class BreakerEvent(enum.Enum):
    """What can happen to a breaker."""

    ANSWERED = "answered"
    """The sink responded, but not with 429 or 5xx."""
    FAILED = "failed"
    """No response, or 429, or 5xx."""
    TRIPPED = "tripped"
    """``FAILED``, for the last tolerated time in a row."""
    PAUSE_OVER = "pause-over"
    """The pause has ended: a probe may start."""


_CLOSED, _OPEN, _HALF_OPEN = BreakerState

TRANSITIONS: Final[dict[tuple[BreakerState, BreakerEvent], BreakerState]] = {
    (_CLOSED, BreakerEvent.ANSWERED): _CLOSED,
    (_CLOSED, BreakerEvent.FAILED): _CLOSED,
    (_CLOSED, BreakerEvent.TRIPPED): _OPEN,
    (_OPEN, BreakerEvent.ANSWERED): _CLOSED,  # an attempt from before the trip came through
    (_OPEN, BreakerEvent.PAUSE_OVER): _HALF_OPEN,
    (_HALF_OPEN, BreakerEvent.ANSWERED): _CLOSED,
    (_HALF_OPEN, BreakerEvent.FAILED): _OPEN,
}
"""(state, event) -> next state. Failures of attempts that began before the breaker opened are no
events: they are no new evidence."""


class Breaker:
    """A circuit breaker without clock and timers, which the queue owns.

    Args:
        open_s_max: Longest pause between probes, seconds.

    Attributes:
        state: The current state.
        probing: Whether the probe of the half-open state has been claimed.
        troubled: Whether the last attempt failed, or the breaker is not closed: a sign of life
            has an effect.
    """

    __slots__ = ("_failures", "_open_s_max", "_pause_s", "probing", "state", "troubled")

    def __init__(self, open_s_max: float = OPEN_S_MAX) -> None:
        self._open_s_max = open_s_max
        self.state = BreakerState.CLOSED
        self._failures = 0
        self._pause_s = OPEN_S_FIRST
        self.probing = False
        self.troubled = False

    def answered(self) -> bool:
        """Count a sign of life.

        Returns:
            Whether the breaker was open or half open until now.
        """
        self._failures = 0
        self.troubled = False
        if self.state is _CLOSED:
            return False
        self._step(BreakerEvent.ANSWERED)
        self._pause_s = OPEN_S_FIRST
        return True

    def failed(self, *, probe: bool, jitter: float) -> float | None:
        """Count a failure.

        Args:
            probe: Whether the failed attempt was the probe. Attempts that began before the breaker
                opened are not counted.
            jitter: Position in the jitter window, 0.0 to 1.0.

        Returns:
            Seconds until the probe if this failure opened the breaker; else None.
        """
        self.troubled = True
        if self.state is _CLOSED:
            self._failures += 1
            if self._failures < FAILURES_IN_A_ROW:
                return None
            self._step(BreakerEvent.TRIPPED)
        elif self.state is _HALF_OPEN and probe:
            self._step(BreakerEvent.FAILED)
        else:
            return None  # began before the breaker opened
        pause_s = self._pause_s
        self._pause_s = min(pause_s * 2, self._open_s_max)
        return min(pause_s * (1.0 + OPEN_JITTER_SHARE * jitter), self._open_s_max)

    def pause_over(self) -> None:
        """End the pause: one probe may start."""
        if self.state is _OPEN:
            self._step(BreakerEvent.PAUSE_OVER)
            self.probing = False

    def claim_probe(self) -> bool:
        """Claim the probe of the half-open state; False if there is none to claim."""
        if self.state is not _HALF_OPEN or self.probing:
            return False
        self.probing = True
        return True

    def give_probe_back(self) -> None:
        """The probe was not sent: another attempt is one."""
        self.probing = False

    def _step(self, event: BreakerEvent) -> None:
        self.state = TRANSITIONS[self.state, event]
