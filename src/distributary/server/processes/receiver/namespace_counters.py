"""Metrics of namespaces, a bounded number of them: the others are summed."""

from collections import defaultdict
from typing import Final

from distributary.server.ingest import Tenants

SHOWN_MAX: Final = 100
"""Namespaces with series of their own: the first that were used since the receiver's start."""

OTHERS: Final = "*"
"""Label of all others together; no namespace has this name."""


def namespace_counters(tenants: Tenants) -> dict[str, float]:
    """Returns the counters of *tenants* by series."""
    found: dict[str, float] = defaultdict(float)
    for index, (namespace, meter) in enumerate(tenants.by_namespace.items()):
        if not (meter.events or meter.refused):
            continue
        label = f'namespace="{namespace if index < SHOWN_MAX else OTHERS}"'
        found[f"namespace_events_total{{{label}}}"] += meter.events
        found[f"namespace_event_bytes_total{{{label}}}"] += meter.bytes
        for quota, count in meter.refused.items():
            found[f'namespace_refusals_total{{{label},quota="{quota}"}}'] += count
    return found
