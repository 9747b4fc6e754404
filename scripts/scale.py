"""What a number of events a second, and of subscriptions, costs by the unit costs measured here.

    python scripts/scale.py      # print the tables of docs/design/scale.md

Linear arithmetic, no simulation: the page says where it cannot hold. ``draw_docs`` puts the tables
into the page, so that they are what this prints.
"""

import math
from typing import Final, NamedTuple

import clauses


class Unit(NamedTuple):
    """A measured cost.

    Attributes:
        value: How much.
        unit: Of what.
        what: What it is spent on.
        source: Where it was measured.
    """

    value: float
    unit: str
    what: str
    source: str


UNITS: Final = {
    "receive": Unit(
        15.0, "µs", "a receiver: HTTP, validation, answer; without a log of its own", "cost.md"
    ),
    "append": Unit(3.8, "µs", "a receiver: hand a record to Kafka", "benchmarks/shared_log.py"),
    "leader": Unit(3.7, "µs", "a broker: take a record", "benchmarks/shared_log.py"),
    "serve": Unit(1.0, "µs", "a broker: hand a record to a reader", "benchmarks/shared_log.py"),
    "read": Unit(0.9, "µs", "a partition's consumer: fetch", "benchmarks/shared_log.py"),
    "deliver": Unit(32.0, "µs", "a partition's consumer: one delivery by HTTP", "cost.md"),
    "flush": Unit(450.0, "µs", "PostgreSQL: one flush", "benchmarks/shared_store.py"),
    "flusher": Unit(770.0, "µs", "a partition's consumer: one flush", "benchmarks/shared_store.py"),
    "retry_row": Unit(30.0, "µs", "PostgreSQL: one retry row", "benchmarks/shared_store.py"),
    "record": Unit(
        1150.0, "bytes", "a record of 1 KB on a broker's disk", "benchmarks/shared_log.py"
    ),
    "wal": Unit(57.0, "bytes", "WAL of an outcome, 30 in a flush", "benchmarks/shared_store.py"),
    "retry_wal": Unit(410.0, "bytes", "WAL of a retry row", "benchmarks/shared_store.py"),
    "partition": Unit(75.0, "MiB", "a partition's consumer, empty", "settings.md"),
    "route": Unit(993.0, "bytes", "a route in each partition's consumer", "0014"),
    "compile": Unit(44.0, "µs", "a route at a consumer's start", "0014"),
}

REPLICAS: Final = 3
FLUSHES_PER_S: Final = 25
"""A partition flushes outcomes each 40 ms."""
FLUSHES_PER_S_MAX: Final = 100
"""With the rows of events that are retried, which wait 10 ms."""
USE: Final = 0.6
"""Share of a core that is planned with: the rest is for peaks and for what failed elsewhere."""
FAILING: Final = 0.01
"""Share of deliveries that are retried."""
PARTITION_CORES: Final = 0.6
"""Of a partition's consumer, which is one thread and one that flushes."""


def _us(name: str) -> float:
    return UNITS[name].value / 1e6


def row_of_events(events: float) -> tuple[str, ...]:
    """What *events* events a second of 1 KB need, one match each."""
    receivers = events * (_us("receive") + _us("append")) / USE
    brokers = events * REPLICAS * (_us("leader") + _us("serve")) / USE
    work = events * (_us("read") + _us("deliver") * (1 + FAILING))
    partitions = max(2, math.ceil(work / PARTITION_CORES))
    each = events / partitions
    flushes = min(each, FLUSHES_PER_S + each * FAILING, FLUSHES_PER_S_MAX) * partitions
    consumers = (work + flushes * _us("flusher")) / USE
    store = (flushes * _us("flush") + events * FAILING * _us("retry_row")) / USE
    wal = events * (UNITS["wal"].value + FAILING * UNITS["retry_wal"].value)
    disk = events * UNITS["record"].value
    return (
        f"{events:,.0f}",
        _shown(receivers),
        _shown(brokers),
        f"{partitions}",
        _shown(consumers),
        f"{flushes:,.0f}",
        _shown(store),
        _bytes(wal, "/s"),
        _bytes(disk * REPLICAS, "/s"),
        _bytes(disk * REPLICAS * 7 * 86_400, ""),
    )


def row_of_subscriptions(count: float) -> tuple[str, ...]:
    """What *count* subscriptions need in each partition's consumer."""
    memory = UNITS["partition"].value * 2**20 + count * UNITS["route"].value
    return (
        f"{count:,.0f}",
        _bytes(memory, ""),
        _bytes(memory * 8, ""),
        f"{max(count * _us('compile'), 0.01):,.2f} s",
    )


def _shown(cores: float) -> str:
    return f"{cores:.2f}" if cores < 1 else f"{cores:,.1f}" if cores < 100 else f"{cores:,.0f}"


def _bytes(count: float, per: str) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}{per}"
        count /= 1000
    return f"{count:.3g} PB{per}"


def draw() -> str:
    """The three tables."""
    units = clauses.table(
        ("Cost", "Of", "Measured by"),
        ((f"{each.value:g} {each.unit}", each.what, each.source) for each in UNITS.values()),
    )
    events = clauses.table(
        (
            *("Events/s", "Receivers, cores", "Brokers, cores", "Partitions", "Consumers, cores"),
            *("Flushes/s", "PostgreSQL, cores", "WAL", "Brokers' disks", "7 days of log"),
        ),
        (row_of_events(10.0**power) for power in range(2, 7)),
    )
    subscriptions = clauses.table(
        ("Subscriptions", "Memory of a consumer", "of eight", "Compiled at its start"),
        (row_of_subscriptions(10.0**power) for power in range(2, 8)),
    )
    return f"{units}\n\n{events}\n\n{subscriptions}"


if __name__ == "__main__":
    print(draw())
