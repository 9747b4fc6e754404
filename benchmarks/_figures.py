"""What is to be reached, and what others reached: the figures that lines are held against."""

from typing import NamedTuple

YARDSTICKS = {"bare_rate": "bare", "bare_cpu_us": "bare", "sync_p99_ms": "fdatasync"}
"""Field of ``Yardsticks`` -> what a table calls it."""

RATES = {"events/s", "deliveries/s"}
"""Units of which the bare rate is the unit; other rates are of something else, or of one core."""


class Of(NamedTuple):
    """A target beside what the run measured: ``times`` a yardstick, and ``plus`` so much."""

    yardstick: str
    times: float = 1.0
    plus: float = 0.0

    def value(self, yardsticks):
        """In the unit of the line."""
        return self.times * getattr(yardsticks, self.yardstick) + self.plus

    def __str__(self):
        times = "" if self.times == 1.0 else f"{self.times:g} "
        plus = f" + {self.plus:g}" if self.plus else ""
        return f"{times}{YARDSTICKS[self.yardstick]}{plus}"


class Line(NamedTuple):
    """One measured figure.

    ``at_least`` says whether more is better. ``reference`` is what ``of`` reached on a machine of
    this kind (docs/benchmarks would be its home; it was measured before this project began).
    ``target`` is to hold, in the unit or ``Of`` a yardstick; ``aim``, in the same terms, is better.
    """

    name: str
    about: str
    unit: str
    target: float | Of | None
    at_least: bool = False
    reference: float | None = None
    of: str = ""
    aim: float | None = None


LINES = (
    Line(
        "accept_rate",
        "accept, delivery idle",
        "events/s",
        Of("bare_rate", 0.4),
        True,
        27_500,
        "receiver alone",
    ),
    Line("accept_cpu", "accept: CPU an event", "us", None),
    Line("one_receiver_rate", "accept, one receiver", "events/s", None, True),
    Line("one_receiver_cpu", "accept, one receiver: CPU an event", "us", None),
    Line("two_receivers_rate", "accept, two receivers", "events/s", None, True),
    Line("two_receivers_cpu", "accept, two receivers: CPU an event", "us", None),
    Line("two_receivers_ratio", "the same: CPU of two by that of one", "x", 1.1),
    Line("accept_p50", "ack p50 at 1,000/s", "ms", 2.0),
    Line("accept_p99", "ack p99 at 1,000/s", "ms", 15.0),
    Line("drain_rate", "1 match, draining", "events/s", 25_000, True, 47_000, "prototype"),
    Line("drain_cpu", "1 match, draining: CPU an event", "us", None),
    Line(
        "through_rate",
        "1 match, in and out",
        "events/s",
        Of("bare_rate", 0.28),
        True,
        3_400,
        "Knative",
        0.33,
    ),
    Line(
        "through_cpu",
        "1 match, in and out: CPU an event",
        "us",
        Of("bare_cpu_us", 2.5),
        aim=2.0,
    ),
    Line("quiet_p50", "send to arrival p50 at 50/s", "ms", 1.5),
    Line("quiet_p99", "send to arrival p99 at 50/s", "ms", None),
    Line("quiet_cores", "CPU at 50/s, all processes", "cores", 0.08),
    Line("quiet_cpu", "50/s: CPU an event", "us", None),
    Line("slow_p50", "send to arrival p50 at 500/s", "ms", 1.5, False, 0.49, "Knative"),
    Line(
        "slow_p99",
        "send to arrival p99 at 500/s",
        "ms",
        Of("sync_p99_ms", plus=5.0),
        False,
        1.75,
        "Knative",
    ),
    Line("slow_cores", "CPU at 500/s, all processes", "cores", 0.3, False, 0.67, "Knative", 0.2),
    Line("slow_cpu", "500/s: CPU an event", "us", None),
    Line("arrival_p50", "send to arrival p50 at 1,000/s", "ms", 10.0, False, 1.45, "prototype"),
    Line("arrival_p99", "send to arrival p99 at 1,000/s", "ms", 50.0, False, 37.0, "prototype"),
    Line("arrival_cores", "CPU at 1,000/s, all processes", "cores", None),
    Line("arrival_cpu", "1,000/s: CPU an event", "us", None),
    Line("busy_p50", "send to arrival p50 at 2,000/s", "ms", 2.0),
    Line("busy_p99", "send to arrival p99 at 2,000/s", "ms", None),
    Line("busy_cores", "CPU at 2,000/s, all processes", "cores", 0.6),
    Line("busy_cpu", "2,000/s: CPU an event", "us", None),
    Line("ten_rate", "10 match, draining", "deliveries/s", 20_000, True, 4_500, "Knative"),
    Line("ten_cpu", "10 match, draining: CPU a delivery", "us", None),
    Line("ten_through_rate", "10 match, in and out", "deliveries/s", None, True, 3_400, "Knative"),
    Line("ten_through_cpu", "10 match, in and out: CPU a delivery", "us", Of("bare_cpu_us", 1.2)),
    Line("none_rate", "100 subscriptions, none matches", "events/s", 21_000, True, 21, "Knative"),
    Line("none_cpu", "100, none matches: CPU an event", "us", None),
    Line("alone_p99", "good sink alone, p99 at 500/s", "ms", None),
    Line("beside_p99", "good sink beside 4 bad ones, p99", "ms", None),
    Line("beside_growth", "growth of that p99", "%", 20.0),
    Line("bad_memory", "memory growth by 4 bad sinks", "MiB", 50.0, False, 1116, "Knative, 4 s"),
    Line("cesql_simple", "CESQL: type = 'x'", "us", 0.5),
    Line("cesql_joined", "CESQL: =, LIKE and EXISTS", "us", 2.0),
    Line("cesql_parse", "CESQL: parse", "us", 200.0),
    Line("matching_10", "match, 10 routes", "events/s of a core", 100_000, True),
    Line("matching_1k", "match, 1,000 routes", "events/s of a core", 80_000, True),
    Line("matching_100k", "match, 100,000 routes", "events/s of a core", 50_000, True),
    Line("matching_growth", "cost at 100,000 routes, of that at 10", "times", 3.0),
    Line("routing_10", "decode and match, 10 routes", "events/s of a core", None, True),
    Line("routing_1k", "decode and match, 1,000 routes", "events/s of a core", None, True),
    Line("routing_100k", "decode and match, 100,000 routes", "events/s of a core", None, True),
    Line("routing_growth", "the same of decode and match", "times", None),
    Line("routes_10_cpu", "10 routes, 3 match: CPU an event", "us", None),
    Line("routes_100k_cpu", "100,000 routes, 3 match: CPU an event", "us", None),
    Line("routes_growth", "CPU at 100,000 routes, of that at 10", "times", 1.5),
    Line("matching_change", "one route among 100,000, p50", "ms", 1.0),
    Line("matching_change_worst", "one route among 100,000, worst", "ms", 1.0),
    Line("matching_compile", "compile 100,000 routes", "s", 5.0),
    Line("matching_snapshot", "freeze a snapshot of 100,000", "ms", None),
    Line("matching_memory", "memory of a route, traced", "bytes", 1024),
    Line("matching_rss", "memory of a route, resident", "bytes", 1024),
    Line("churn_wrong", "verdicts that are wrong, under churn", "", 0),
    Line("churn_verdicts", "verdicts that were checked", "", None),
    Line("churn_changes", "subscriptions added, changed, removed", "", None),
    Line("churn_rate", "events meanwhile", "events/s", 950, True),
    Line("churn_longest", "longest wait for a change", "ms", None),
    Line("api_create", "API: create, 16 clients", "/s", 500, True),
    Line("api_read", "API: read", "/s", 500, True),
    Line("api_update", "API: update", "/s", 500, True),
    Line("api_delete", "API: delete", "/s", 500, True),
    Line("api_page_100", "API: page of 100 of 100,000, p50", "ms", 50.0),
    Line("api_page_100_p99", "API: page of 100 of 100,000, p99", "ms", 50.0),
    Line("api_page_1000", "API: page of 1,000 of 100,000, p50", "ms", 50.0),
    Line("api_page_1000_p99", "API: page of 1,000 of 100,000, p99", "ms", 50.0),
    Line("api_stream", "API: list of 100,000, whole", "s", None),
    Line("api_stream_beside", "API: single reads meanwhile, p99", "ms", 50.0),
    Line("api_stream_memory", "API: memory growth by lists", "MiB", 50.0),
    Line("large_bodies_slowest", "350 objects of 2 MB in YAML: slowest call of others", "s", 1.0),
    Line("large_bodies_serve_left", "the same: memory that serve keeps for a minute", "%", 10.0),
    Line("large_bodies_ingest_left", "the same: memory that ingest keeps", "%", 10.0),
    Line("ready_p50", "Trigger created to Ready, p50", "ms", 200.0),
    Line("ready_p99", "Trigger created to Ready, p99", "ms", 200.0),
    Line("ready_missed", "events after Ready that were not evaluated", "", 0),
    Line("apply", "1,000 Triggers by kubectl apply", "s", 60.0),
    Line("apply_ready", "the same, until all are Ready", "s", None),
    Line("broker_rate", "Broker with 1 Trigger, draining", "events/s", None, True),
    Line("broker_rate_1k", "the same, beside 1,000 others", "events/s", None, True),
    Line("broker_share_1k", "of the rate without them", "%", 95.0, True),
    Line("chain_p50", "replies through 10 Triggers, p50", "ms", 50.0),
    Line("chain_p99", "replies through 10 Triggers, p99", "ms", None),
    Line("loop_passes", "deliveries of a reply that matches itself", "", None),
    Line("loop_wrong", "off 32 passes, 1 counted, 1 logged", "", 0),
    Line(
        "ten_triggers_rate",
        "10 Triggers, all match",
        "deliveries/s",
        20_000,
        True,
        4_500,
        "Knative",
    ),
    Line("watch_wrong", "changes missed or out of order, 1,000 watchers", "", 0),
    Line("watch_told", "changes told", "", None),
    Line("watch_p50", "change to watcher, p50", "ms", None),
    Line("watch_p99", "change to watcher, p99", "ms", None),
    Line("watch_memory", "memory growth by 1,000 watchers", "MiB", 100.0),
    Line("watch_stalled_410", "watchers that read nothing and get no 410", "", 0),
    Line("watch_stalled_memory", "memory growth by 100 of them", "MiB", 200.0),
    Line("resource_faults", "objects, routes, log: faults after kills", "", 0),
    Line("resource_changes", "changes meanwhile", "", None),
    Line("resource_broken", "changes whose answer a kill cut off", "", None),
    Line("nats_rate", "NATS JetStream, draining", "events/s", 12_000, True),
    Line("nats_bare", "nats-py alone, futures", "events/s", None, True),
    Line("nats_share", "the first of the second", "%", None, True),
    Line("mqtt_rate", "MQTT 5 QoS 1, draining", "events/s", 7_000, True),
    Line("mqtt_bare", "paho alone, its thread", "events/s", None, True),
    Line("mqtt_share", "the first of the second", "%", None, True),
    Line("amqp_rate", "AMQP unsettled, draining", "events/s", 6_000, True),
    Line("amqp_bare", "proton alone, its reactor", "events/s", None, True),
    Line("amqp_share", "the first of the second", "%", None, True),
    Line("kafka_rate", "Kafka acks=all, draining", "events/s", 25_000, True),
    Line("kafka_bare", "librdkafka alone", "events/s", None, True),
    Line("kafka_share", "the first of the second", "%", None, True),
    Line("one_down_before", "HTTP sink beside 5 brokers, p99", "ms", None),
    Line("one_down_during", "the same while one is down", "ms", None),
    Line("one_down_growth", "growth of that p99", "%", 20.0),
    Line("one_down_worst_growth", "the same, worst of the 5 good sinks", "%", 20.0),
    Line("kill_writer", "kill of an owner: the same", "s", 2.0),
    Line("kill_writer_worst", "the same, worst", "s", None),
    Line("kill_daemon", "kill of the workers' daemon: the same", "s", 5.0),
    Line("kill_daemon_worst", "the same, worst", "s", None),
    Line("kill_jvm", "kill of the JVM: the same", "s", None),
    Line("kill_jvm_worst", "the same, worst", "s", None),
    Line("kill_driver", "kill of the driver: the same", "s", None),
    Line("kill_driver_worst", "the same, worst", "s", None),
    Line("kill_ingest", "kill of ingest: until it accepts", "s", 1.0),
    Line("kill_ingest_worst", "the same, worst", "s", None),
    Line("hand_over", "rollover at 1,000/s: added to a pause", "ms", 50.0),
    Line("hand_over_worst", "the same, worst of 5", "ms", 50.0),
    Line("hand_over_settings", "newer settings: the same", "ms", 50.0),
    Line("hand_over_settings_worst", "the same, worst of 5", "ms", None),
    Line("hand_over_many", "rollover, 100,000 routes: the same", "ms", 150.0),
    Line("hand_over_many_worst", "the same, worst of 5", "ms", 150.0),
    Line("hand_over_many_settings", "newer settings, 100,000 routes: the same", "ms", 150.0),
    Line("hand_over_many_settings_worst", "the same, worst of 5", "ms", None),
    Line("hand_over_growth", "20 hand-overs, 50,000 routes: growth", "MiB", 5.0),
    Line("sick_before", "a partition, p99 at 500/s", "ms", None),
    Line("sick_during", "the same while the other is sick", "ms", None),
    Line("sick_growth", "growth of that p99", "%", 20.0),
    Line("start", "start to readyz", "s", 20.0, aim=8.0),
    Line("session", "start of an empty PySpark session", "s", None),
    Line("start_growth", "start to readyz, beyond that", "s", 3.0),
    Line("idle_cpu", "idle CPU, all processes", "% of a core", 2.0),
    Line("memory", "all processes, idle (PSS)", "MiB", 1024, False, 1331, "prototype"),
    Line("memory_loaded", "all processes, after the load (PSS)", "MiB", 1024),
)

BY_NAME = {line.name: line for line in LINES}


def target(line, yardsticks):
    """What *line* is to reach, in its unit; None where nothing is asked for."""
    return line.target.value(yardsticks) if isinstance(line.target, Of) else line.target


def reached(line, value, yardsticks):
    """Whether *value* reaches the target of *line*; None where it has none."""
    wanted = target(line, yardsticks)
    if wanted is None:
        return None
    return value >= wanted if line.at_least else value <= wanted


def units(line, value, yardsticks):
    """*value* in bare units: a share of the bare rate, or of its CPU; None where it is neither."""
    if line.unit in RATES:
        return value / yardsticks.bare_rate
    if line.unit == "events/s of a core":
        return 1e6 / value / yardsticks.bare_cpu_us
    if line.unit == "us":
        return value / yardsticks.bare_cpu_us
    return None


def sync_ms(line, yardsticks):
    """The quantile of ``fdatasync`` that a latency stands beside; None where *line* is none."""
    if line.unit != "ms":
        return None
    quantiles = {"p50": yardsticks.sync_p50_ms, "p99": yardsticks.sync_p99_ms}
    return quantiles.get(line.name.rpartition("_")[2])


def ratio(line, value):
    """How many times better than the reference; None where there is none."""
    if line.reference is None or not value:
        return None
    return value / line.reference if line.at_least else line.reference / value
