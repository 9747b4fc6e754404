"""Who is looked at, or asked, next, and at what pace. Pure arithmetic on times passed in.

Caller: ``_keeper``.
"""

import math
from typing import Final

from distributary.core.turns import AT_ONCE, Turns

ASKS_PER_S_MAX: Final = 50.0
"""Questions a second in all: a thousand new targets are asked within 20 s, and the server is no
tool to flood a network with."""

BURST_S: Final = 1.0
"""Questions of so many seconds may be put at once."""

HOST_INTERVAL_S: Final = 3.0
"""Interval of questions at one host, seconds, whatever paths subscriptions name there. With the
deadline of a question it bounds those in flight, too."""

HOST_BURST: Final = 5
"""Questions at one host before the interval counts: a sink, its dead letter sink and some more."""

HOSTS_MAX: Final = 10_000
"""Hosts whose last question is remembered, some 100 bytes each; beyond that, those whose interval
is over are forgotten."""


class AskPace:
    """Says when a question may be put."""

    def __init__(self) -> None:
        self._next_s = 0.0
        self._hosts: dict[str, float] = {}

    def allows(self, host: str, now_s: float) -> bool:
        """Whether a question at *host* may be put at *now_s*."""
        return max(self.free_s, self.free_at_s(host)) <= now_s

    @property
    def free_s(self) -> float:
        """When the next question may be put, at a host that allows it."""
        return self._next_s - BURST_S

    def free_at_s(self, host: str) -> float:
        """When the next question may be put at *host*, as far as that goes."""
        return self._hosts.get(host, -math.inf) - (HOST_BURST - 1) * HOST_INTERVAL_S

    def note(self, host: str, now_s: float) -> None:
        """Count a question that is put at *host* at *now_s*."""
        self._hosts[host] = max(self._hosts.get(host, 0.0), now_s) + HOST_INTERVAL_S
        self._next_s = max(self._next_s, now_s) + 1.0 / ASKS_PER_S_MAX
        if len(self._hosts) > HOSTS_MAX:
            self._hosts = {name: at_s for name, at_s in self._hosts.items() if at_s > now_s}


class Line:
    """Targets that wait for a look or for their question. For one thread.

    Namespaces take turns, and so do looks and questions: a look waits for no question that the
    pace holds back. What it costs to find the next one does not grow with those that wait.
    """

    def __init__(self) -> None:
        self._pace = AskPace()
        self._looks = Turns()
        self._questions = Turns()
        self._hosts: dict[str, str] = {}  # where the target of a question that waits is asked
        self._asked_last = False

    def __contains__(self, key: str) -> bool:
        """Whether the target *key* waits."""
        return key in self._looks or key in self._questions

    def look(self, key: str, namespace: str) -> None:
        """Let *key* wait for a look."""
        self._looks.put(key, namespace, "")

    def ask(self, key: str, namespace: str, host: str, now_s: float) -> bool:
        """Whether *key* may be asked at *host* at once, which counts; else it waits for that."""
        if self._questions.is_empty and self._pace.allows(host, now_s):
            self._pace.note(host, now_s)
            return True
        self._hosts[key] = host
        self._questions.put(key, namespace, host)
        return False

    def discard(self, key: str) -> None:
        """Let *key* wait no longer, if it does."""
        self._looks.discard(key)
        self._questions.discard(key)
        self._hosts.pop(key, None)

    def take(self, now_s: float) -> tuple[str, bool] | None:
        """Give the next target a place, which it holds until ``end``.

        Returns:
            The target, and whether it is asked rather than looked at; None: no place is due.
        """
        for asks in (not self._asked_last, self._asked_last):
            key = None
            if not asks:
                key = self._looks.take(lambda _host: AT_ONCE)
            elif self._pace.free_s <= now_s:
                key = self._questions.take(self._pace.free_at_s, now_s)
            if key is not None:
                self._asked_last = asks
                if asks:
                    self._pace.note(self._hosts.pop(key), now_s)
                return key, asks
        return None

    def end(self, key: str, *, asked: bool) -> None:
        """Free the place of *key*, which was *asked* rather than looked at."""
        (self._questions if asked else self._looks).end(key)
