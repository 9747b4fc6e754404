"""The pace of questions: in all, and at one host. Pure arithmetic on times passed in."""

import math
from typing import Final

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
