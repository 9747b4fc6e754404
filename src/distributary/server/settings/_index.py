"""Settings of the index of event ids. Part of ``Settings``."""

from dataclasses import dataclass
from typing import Literal

from distributary.server.settings import _shapes as shapes
from distributary.server.settings._shapes import setting


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """How events are found. Plain and picklable."""

    event_index: Literal["on", "off"] = setting(
        shapes.one_of("on", "off"),
        "on",
        "Whether ids of events are indexed, so that an event is found by its id at once: 8 bytes of"
        " disk an event. Without it a search reads the log.",
    )
    event_index_age_max_s: float = setting(
        shapes.duration(3600.0, 3650 * 86400.0),
        3650 * 86400.0,
        "Age of events above which they are not in the index. It never holds more than the log.",
    )
