"""Settings of the window in which an event is taken once. Part of ``Settings``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from distributary.core.log.taken import OnceLimits
from distributary.server.settings import _shapes as shapes
from distributary.server.settings._keeping import RETENTION_AGE_S_DEFAULT
from distributary.server.settings._shapes import setting


@dataclass(frozen=True, kw_only=True)
class OnceSettings:
    """Which events are the same one. Plain and picklable."""

    once_window_s: float = setting(
        shapes.duration(0.0, 7 * 86400.0),
        0.0,
        "For how long an event is taken once: another one with its source and id, at the same"
        " Broker, is answered 202 and not taken; with log, not delivered. 0 takes every event.",
    )
    once_window_events: int = setting(
        shapes.whole(1_000, 10_000_000),
        1_000_000,
        "Most events of a partition whose ids are kept for once_window_s; one more forgets the"
        " oldest. Each takes some 120 bytes of memory; with log, 180, where a partition is read.",
    )

    @property
    def once(self) -> OnceLimits:
        """Bounds of the window."""
        return OnceLimits(self.once_window_s, self.once_window_events)


def once_faults(chosen: Mapping[str, Any]) -> Iterator[str]:
    """Yields why the window cannot be kept.

    Args:
        chosen: Valid values by setting; one that is not there has its default.
    """
    window_s = chosen.get("once_window_s")
    if not window_s:
        return
    if window_s > chosen.get("retention_age_max_s", RETENTION_AGE_S_DEFAULT):
        yield (
            "once_window_s: at most retention_age_max_s: which events were taken is read from the"
            " log after a restart"
        )
