"""The whole path beside 10 and 100,000 routes: CPU an event at a steady rate.

Routes and events are those of the matching benchmark: each event matches three routes, and all
kinds of events come equally often. All routes have one sink, so that both sizes deliver alike, and
the rate is one that it keeps up with: routes of a sink that does not are backfilled one by one.
"""

import _kit  # noqa: F401 - for the imports of kit
import _routes
from _rig import Rig, each_us
from kit.filled_data import fill

SIZES = {"10": 10, "100k": 100_000}
PARTITIONS = 2
RATE_PER_S = 1_000
WARM_UP_S = 20.0
"""Most kinds of events come for the first time meanwhile, which costs more than later."""

MEASURED_S = 20.0


def measure(scale):
    """Ten routes and 100,000, three of which match: CPU an event of the whole path."""
    figures = {}
    for name, size in SIZES.items():
        figures[f"routes_{name}_cpu"] = _cpu_us(size if size < 1_000 else int(size * scale), scale)
    small, large = (sum(cpu_us.values()) for cpu_us in figures.values())
    return figures | {"routes_growth": large / small}


def _cpu_us(size, scale):
    """CPU of an event by process, beside so many routes."""
    records, kinds = _routes.make(size)

    def body(number):
        return {"sink": sink.url, "protocol": "HTTP", "filters": list(records[number].filters)}

    flags = ("--partitions", str(PARTITIONS))
    rig = Rig(*flags, prepare=lambda paths: fill(paths, size, PARTITIONS, body))
    sink = rig.sink()
    with rig:
        rig.settle()
        _send(rig, sink, WARM_UP_S * scale, len(kinds))
        rig.settle()
        used = rig.meter()
        count = _send(rig, sink, MEASURED_S * scale, len(kinds))
        return each_us(used(), count)


def _send(rig, sink, seconds, kinds):
    """Send events at the steady rate until all are delivered; how many."""
    sink.reset()
    sent = rig.load("open", connections=64, rate=RATE_PER_S, seconds=seconds, kinds=kinds)
    sink.wait_for(_routes.MATCHES * sent["count"])
    return sent["count"]
