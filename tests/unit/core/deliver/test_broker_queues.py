"""Queues of places at brokers: what they share with those of HTTP sinks, and what not."""

import pytest
from msgspec.structs import replace

from distributary.core.deliver import BreakerState, Destination, Dispatcher, Limits
from distributary.core.deliver.consent import Consent
from distributary.core.event import Event
from distributary.core.flow import Origin, Position, Stage, Task
from distributary.core.policy import Acknowledgement, DeliveryPolicy
from distributary.protocols.kafka.settings import KafkaSettings
from distributary.protocols.mqtt.settings import MqttSettings
from distributary.testing.scripted_transport import ScriptedTransport, Step
from distributary.testing.virtual import SeededRandom, VirtualClock, VirtualTimers

URI = "kafka://broker.example"
ORDERS = Destination(URI, protocol="KAFKA", settings=KafkaSettings("orders"))
BILLS = Destination(URI, protocol="KAFKA", settings=KafkaSettings("bills"))

TAKEN = Acknowledgement("KAFKA", "NO_ERROR")
NO_TOPIC = Acknowledgement("KAFKA", "UNKNOWN_TOPIC_OR_PART")
TOO_LARGE = Acknowledgement("KAFKA", "MSG_SIZE_TOO_LARGE")


class Rig:
    """A dispatcher whose broker answers by topic."""

    def __init__(self):
        self.answers = {"orders": TAKEN, "bills": TAKEN}
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.transport = ScriptedTransport(self.timers, self._act)
        self.attempts = []
        self.dispatcher = Dispatcher(
            {"KAFKA": self.transport},
            clock=self.clock,
            timers=self.timers,
            random=SeededRandom(1),
            on_attempt=self.attempts.append,
            limits=Limits(),
        )
        self.count = 0

    def _act(self, _event, destination):
        return Step(self.answers[destination.settings.topicname], after_s=0.01)

    def task(self, route="route", number=None):
        self.count += 1
        attributes = {"specversion": "1.0", "id": str(self.count), "source": "/", "type": "t"}
        place = Position(0, self.count if number is None else number, 0)
        return Task(place, 1, route, Event(attributes, b"x"), Stage.PRIMARY, 1, 0, Origin.LIVE)

    def offer(self, destination, count=1):
        for _ in range(count):
            self.dispatcher.offer(self.task(), destination)


@pytest.fixture
def rig():
    """A fresh one."""
    return Rig()


def test_two_places_at_one_broker_have_queues_of_their_own(rig):
    """A topic that is not there opens its own breaker, not that of the broker's other topics."""
    rig.answers["bills"] = NO_TOPIC
    for _ in range(10):
        rig.offer(BILLS)
        rig.offer(ORDERS)
        rig.timers.advance(0.01)
    states = {queue.uri: queue.breaker for queue in rig.dispatcher.queues()}
    assert states == {
        f"{URI} bills": BreakerState.OPEN,
        f"{URI} orders": BreakerState.CLOSED,
    }


def test_a_refused_event_is_a_sign_of_life(rig):
    """What is too large for the topic says nothing about the next event."""
    rig.answers["orders"] = TOO_LARGE
    for _ in range(30):
        rig.offer(ORDERS)
        rig.timers.advance(0.01)
    assert rig.dispatcher.queue(ORDERS.queue).breaker is BreakerState.CLOSED
    assert len(rig.attempts) == 30


def test_a_broker_gets_many_more_attempts_at_once_than_a_sink(rig):
    """Doubling from 4 on, to 512."""
    rig.offer(ORDERS, 4_000)
    seen = []
    for _ in range(9):
        seen.append(rig.dispatcher.queue(ORDERS.queue).in_flight)
        rig.timers.advance(0.01)
    assert seen == [4, 8, 16, 32, 64, 128, 256, 512, 512]


def test_a_broker_that_was_away_is_found_again_soon(rig):
    """However long it was away, a probe goes out every five seconds at least."""
    rig.answers["orders"] = NO_TOPIC
    for _ in range(1_200):
        rig.offer(ORDERS)
        rig.timers.advance(0.5)
    rig.answers["orders"] = TAKEN
    for _ in range(11):
        rig.timers.advance(0.5)
        rig.offer(ORDERS)
    assert rig.dispatcher.queue(ORDERS.queue).breaker is BreakerState.CLOSED


def test_every_attempt_of_a_delivery_has_its_name_and_no_other_delivery_has_it(rig):
    """Equal events are two deliveries, and so is one event for two routes (decision 24)."""
    first = rig.task("a", 7)
    again = replace(first, attempt=2)
    others = [
        rig.task("a", 8),
        rig.task("b", 7),
        replace(first, stage=Stage.DEAD_LETTER),
        replace(first, checksum=2),  # another log
    ]
    for task in (first, again, *others):
        rig.dispatcher.offer(task, ORDERS)
        rig.timers.advance(0.01)
    names = rig.transport.identities
    assert names[0] == names[1]
    assert len(set(names)) == 1 + len(others)
    assert all(names)


def test_a_replay_is_another_message(rig):
    """One that a broker has stored under the same name, it would not store again."""
    first = rig.task()
    again = replace(first, origin=Origin.REPLAY, replay=7)
    tried_again = replace(again, origin=Origin.RETRY, attempt=2)
    later = replace(first, origin=Origin.REPLAY, replay=8)
    for task in (first, again, tried_again, later):
        rig.dispatcher.offer(task, ORDERS)
        rig.timers.advance(0.1)

    told = rig.transport.identities
    assert told[1] == told[2]
    assert len({told[0], told[1], told[3]}) == 3


def _mqtt(topic, **more):
    return Destination(
        "mqtt://broker.example", protocol="MQTT5", settings=MqttSettings(topic), **more
    )


_RATE = DeliveryPolicy(rate_limit_per_s=1.0)
_OF_A_KIND = {
    "plain": {},
    "paced": {"policy": _RATE, "paced_by": "U"},
    "not sent": {"refused": "no"},
    "paced and not sent": {"refused": "no", "policy": _RATE, "paced_by": "U"},
    "of a tenant": {"tenant": "shop"},
    "paced, of a tenant": {"tenant": "shop", "policy": _RATE, "paced_by": "U"},
    "without consent": {"consent": Consent(given=False)},
}


@pytest.mark.parametrize("kind", [kind for kind in _OF_A_KIND if kind != "plain"])
def test_no_topic_is_named_like_a_queue_of_another_kind(kind):
    """A topic is any text: whatever our names add to ``orders``, a subscriber can add too."""
    other = _mqtt("orders", **_OF_A_KIND[kind])
    broker = "mqtt://broker.example "
    added = (other.queue.partition(broker)[0], other.queue.partition(broker)[2])
    topics = [
        "orders of U",
        "orders (not sent)",
        "orders (not sent) of U",
        f"orders {added[0]}".strip(),
        f"{added[0]}{added[1]}",
        added[1],
        other.queue,
    ]
    mine = [settings for name, settings in _OF_A_KIND.items() if name != kind]
    queues = {_mqtt(topic, **settings).queue for topic in topics for settings in mine}
    assert other.queue not in queues


@pytest.mark.parametrize("paced_first", [True, False], ids=["paced first", "plain first"])
def test_a_topic_named_like_a_paced_queue_has_a_queue_of_its_own(rig, paced_first):
    """Else the owner of the partition fails, or the other subscription's rate is ignored."""
    paced = _mqtt("orders", policy=_RATE, paced_by="U")
    plain = _mqtt("orders of U")
    rig.dispatcher = Dispatcher(
        {"MQTT5": rig.transport},
        clock=rig.clock,
        timers=rig.timers,
        random=SeededRandom(1),
        on_attempt=rig.attempts.append,
    )
    rig.answers |= {"orders of U": TAKEN}
    for destination in (paced, plain) if paced_first else (plain, paced):
        rig.offer(destination, 4)
    rig.timers.advance(0.5)
    assert [attempt.sink for attempt in rig.attempts] == ["mqtt://broker.example"] * 5
    assert rig.dispatcher.queue(paced.queue).queued == 3
