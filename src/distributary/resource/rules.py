"""Dependencies injected into validation: filter checker, clock, sink policy.

Imports no filter dialect and no settings; ``server`` wires it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from distributary.core.clock import SystemClock
from distributary.core.errors import Fault
from distributary.resource.sinks import SinkRule


class FilterCheck(Protocol):
    """Finds every fault of filter expressions."""

    def __call__(self, filters: object, path: str = ..., /) -> list[Fault]:
        """Return every fault of the array *filters*, whose JSON path is *path*."""


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """Context that resources are validated in.

    Attributes:
        sinks: Where events may be sent.
        check_filters: ``filter.check``.
        wall_ms: Reads the wall clock, milliseconds; an end must lie in the future.
        protocols_absent: Delivery protocols that this installation lacks -> what it needs for
            them, for people.
    """

    sinks: SinkRule
    check_filters: FilterCheck
    wall_ms: Callable[[], int] = SystemClock().wall_ms
    protocols_absent: Mapping[str, str] = field(default_factory=dict)
