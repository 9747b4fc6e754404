"""What is to be reached, and what others reached: the figures that lines are held against."""

from typing import NamedTuple


class Line(NamedTuple):
    """One measured figure.

    ``at_least`` says whether more is better. ``reference`` is what ``of`` reached on a machine of
    this kind (docs/benchmarks would be its home; it was measured before this project began).
    """

    name: str
    about: str
    unit: str
    target: float | None
    at_least: bool = False
    reference: float | None = None
    of: str = ""


LINES = (
    Line(
        "accept_rate", "accept, delivery idle", "events/s", 20_000, True, 27_500, "receiver alone"
    ),
    Line("accept_p50", "ack p50 at 1,000/s", "ms", 2.0),
    Line("accept_p99", "ack p99 at 1,000/s", "ms", 15.0),
    Line("drain_rate", "1 subscription, draining", "events/s", 25_000, True, 47_000, "prototype"),
    Line(
        "through_rate",
        "1 subscription, while accepting",
        "events/s",
        15_000,
        True,
        3_400,
        "Knative",
    ),
    Line("arrival_p50", "send to arrival p50 at 1,000/s", "ms", 10.0, False, 1.45, "prototype"),
    Line("arrival_p99", "send to arrival p99 at 1,000/s", "ms", 50.0, False, 37.0, "prototype"),
    Line("slow_p50", "send to arrival p50 at 500/s", "ms", None, False, 0.49, "Knative"),
    Line("slow_p99", "send to arrival p99 at 500/s", "ms", None, False, 1.75, "Knative"),
    Line("ten_rate", "10 subscriptions, all match", "deliveries/s", 20_000, True, 4_500, "Knative"),
    Line("none_rate", "100 subscriptions, none matches", "events/s", 15_000, True, 21, "Knative"),
    Line("alone_p99", "good sink alone, p99 at 500/s", "ms", None),
    Line("beside_p99", "good sink beside 4 bad ones, p99", "ms", None),
    Line("beside_growth", "growth of that p99", "%", 20.0),
    Line("bad_memory", "memory growth by 4 bad sinks", "MiB", 50.0, False, 1116, "Knative, 4 s"),
    Line("start", "start to readyz", "s", 20.0),
    Line("idle_cpu", "idle CPU", "% of a core", 10.0),
    Line("memory", "all processes, idle (PSS)", "MiB", 2048, False, 1331, "prototype"),
    Line("memory_loaded", "all processes, after the load (PSS)", "MiB", 2048),
)

BY_NAME = {line.name: line for line in LINES}


def reached(line, value):
    """Whether *value* reaches the target of *line*; None where it has none."""
    if line.target is None:
        return None
    return value >= line.target if line.at_least else value <= line.target


def ratio(line, value):
    """How many times better than the reference; None where there is none."""
    if line.reference is None or not value:
        return None
    return value / line.reference if line.at_least else line.reference / value
