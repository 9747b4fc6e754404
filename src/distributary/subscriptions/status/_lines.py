"""Log lines about failing deliveries: when they begin to fail, while they do, when they recover."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from distributary.core.outcome import Tally
from distributary.core.shown import shown_uri
from distributary.subscriptions.store.demands import RouteName

TELL_AGAIN_S: Final = 60.0
"""Interval of lines about a route that keeps failing."""
LINES_MAX: Final = 20
"""Most lines about single routes within ``TELL_AGAIN_S``; the others are one line of each kind with
their number, since a thousand routes may have the same dead sink."""
_FAIL: Final = "deliveries-fail"
_RECOVERED: Final = "deliveries-recovered"


class Failing(NamedTuple):
    """A route whose deliveries fail.

    Attributes:
        name: Whose it is.
        sink: Where they fail; empty: unknown.
        tally: Its numbers.
    """

    name: RouteName
    sink: str
    tally: Tally


class FailureLines:
    """Writes them, at most ``LINES_MAX`` about single routes within ``TELL_AGAIN_S``.

    Args:
        log: Takes them.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._told_s: dict[str, float] = {}
        self._from_s = float("-inf")
        self._lines = 0
        self._withheld = Counter[str]()

    def look(self, failing: Mapping[str, Failing], now_s: float) -> None:
        """Tell of what fails now."""
        if now_s - self._from_s >= TELL_AGAIN_S:
            self._tell_withheld()
            self._from_s, self._lines = now_s, 0
        for route in [route for route in self._told_s if route not in failing]:
            del self._told_s[route]
        for route, one in failing.items():
            if now_s - self._told_s.get(route, float("-inf")) < TELL_AGAIN_S:
                continue
            self._told_s[route] = now_s
            if self._take():
                self._tell(one)
            else:
                self._withheld[_FAIL] += 1
        if self._withheld and self._lines == LINES_MAX:
            self._lines += 1  # once, and again at the end of the minute
            self._tell_withheld()

    def _take(self) -> bool:
        if self._lines >= LINES_MAX:
            return False
        self._lines += 1
        return True

    def _tell(self, one: Failing) -> None:
        tally = one.tally
        self._log.warning(
            _FAIL,
            **_named(one.name),
            sink=shown_uri(one.sink),
            reason=tally.failing_reason,
            count=tally.failing_count,
            since_ms=tally.failing_since_ms,
        )

    def _tell_withheld(self) -> None:
        for event, more in self._withheld.items():
            self._log.warning(event, more=more)
        self._withheld.clear()

    def recovered(self, name: RouteName, since_ms: int, count: int) -> None:
        """Tell that deliveries succeed again."""
        if self._take():
            self._log.warning(_RECOVERED, **_named(name), since_ms=since_ms, count=count)
        else:
            self._withheld[_RECOVERED] += 1  # a look tells how many


def _named(name: RouteName) -> dict[str, str]:
    return {name.kind: name.text, "namespace": name.namespace}
