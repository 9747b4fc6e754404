"""The session against a producer that does as it is told."""

import asyncio
import dataclasses
import functools
import json
from collections import deque
from types import SimpleNamespace

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.core.errors import EventError, TransportError
from distributary.core.event import Event
from distributary.core.policy import DeliveryPolicy
from distributary.net.link._session import Flight
from distributary.protocols.kafka.settings import KafkaSettings
from distributary.protocols.kafka.sink import _client, _session

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x")


class FakeProducer:
    """Takes up to *room* records; reports what the test says."""

    def __init__(self, room: int = 1_000) -> None:
        self.room = room
        self.records = deque()
        self.reports = []
        self.refusal = None
        self.polls = 0
        self.poll_more = lambda: None

    def produce(self, topic, *, value, key, headers, on_delivery):
        """As the real one."""
        if self.refusal is not None:
            raise KafkaException(self.refusal)
        if len(self.records) >= self.room:
            raise BufferError
        self.records.append((topic, value, key, dict(headers), on_delivery))

    def report(self, error=None):
        """Have the oldest record reported by the next poll."""
        self.reports.append((self.records.popleft()[-1], error))

    def poll(self, _timeout):
        """As the real one."""
        self.polls += 1
        reports, self.reports = self.reports, []
        for on_delivery, error in reports:
            on_delivery(error, None)
        self.poll_more()


class FakeLoop:
    """Keeps the one timer that a session has.

    Attributes:
        wait_s: How long it is to wait.
    """

    def __init__(self) -> None:
        self.wait_s = None
        self._turn = None

    def call_later(self, wait_s, turn):
        """As the real one; there is one timer at a time."""
        assert self._turn is None, "a second timer"
        self.wait_s, self._turn = wait_s, turn
        return self

    def cancel(self) -> None:
        """Of the timer."""
        self.wait_s = self._turn = None

    def turn(self) -> None:
        """Let the time pass."""
        turn = self._turn
        self.cancel()
        turn()


class Link:
    """Stands for the link of a flight, and for its wheel."""

    sending = False

    def __init__(self) -> None:
        self.wheel = self
        self.settled = []

    def settle(self, flight) -> None:
        """Note who has freed its place."""
        self.settled.append(flight)

    def forget(self, _flight) -> None:
        """Nothing to watch."""


class Site:
    """A session over a fake producer, and what it told.

    Attributes:
        answers: Of the flights, by their number.
        lost: What the session said of its end.
    """

    def __init__(self, room: int = 1_000) -> None:
        self.producer = FakeProducer(room)
        self.loop = FakeLoop()
        self.client = _client.KafkaClient("Producer", {}, None)
        self.client.handle = self.producer
        self.answers = {}
        self.lost = []
        self.link = Link()
        self.session = _session.ProducerSession(
            self.client, self.lost.append, self.loop, SimpleNamespace(monotonic_s=lambda: 7.0)
        )

    def publish(self, number=0, event=EVENT, destination=None) -> Flight:
        """One flight, with a number of its own."""
        told = functools.partial(self.answers.__setitem__, number)
        flight = Flight(event, destination or a_destination(), 0.0, told, self.link)
        flight.sent_s = 5.0  # as the link does
        self.session.publish(flight)
        return flight

    @property
    def codes(self) -> dict:
        """The answers by their codes or reasons."""
        return {
            number: getattr(answer, "reason", None) or answer.code
            for number, answer in self.answers.items()
        }


def a_destination(timeout_s=30.0, **settings) -> Destination:
    """A destination; settings by their names."""
    return Destination(
        "kafka://one.example/orders",
        protocol="KAFKA",
        policy=DeliveryPolicy(timeout_s=timeout_s),
        settings=KafkaSettings("orders", **settings),
    )


@pytest.fixture
def site() -> Site:
    """A session that has just been opened."""
    return Site()


class TestPublishing:
    """Records into the client, reports out of it."""

    def test_a_record_is_handed_over_and_its_report_is_the_answer(self, site):
        """Nothing is answered before the broker has said so."""
        site.publish(destination=a_destination(partitionkeyextractor="type"))
        site.loop.turn()
        assert site.answers == {}

        topic, value, key, headers, _ = site.producer.records[0]
        site.producer.report()
        site.loop.turn()

        assert (topic, value, key) == ("orders", b"x", b"t")
        assert headers["ce_id"] == b"1"
        assert site.codes == {0: "NO_ERROR"}

    def test_an_event_that_cannot_be_encoded_is_refused_at_once(self, site):
        """The link answers it with the error."""
        broken = Event(EVENT.attributes | {"subject": "\ud800"}, None)

        with pytest.raises(EventError):
            site.publish(event=broken)
        assert not site.producer.records

    def test_what_the_client_refuses_is_answered(self, site):
        """A topic that it knows not to exist."""
        site.producer.refusal = KafkaError(KafkaError._UNKNOWN_TOPIC)

        site.publish()

        assert site.codes == {0: "UNKNOWN_TOPIC_OR_PART"}

    @pytest.mark.parametrize(
        ("size", "code"),
        [(_session.BATCH_BYTES - 1, "RECORD_LIST_TOO_LARGE"), (65_536, "MSG_SIZE_TOO_LARGE")],
    )
    @pytest.mark.parametrize("said", ["MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"])
    def test_too_large_is_a_verdict_on_what_was_alone(self, site, size, code, said):
        """A smaller record shared its batch, and may be innocent."""
        site.publish(event=Event(EVENT.attributes, b"x" * size))
        site.producer.report(KafkaError(getattr(KafkaError, said)))
        site.loop.turn()

        assert site.codes == {0: code}


class TestRoom:
    """A client that takes no more for now."""

    def test_records_wait_in_their_order(self):
        """And go as soon as reports make room."""
        site = Site(room=2)
        for number in range(5):
            site.publish(number, Event(EVENT.attributes | {"id": f"{number}"}, None))
        site.producer.report()
        site.loop.turn()
        site.publish(5, Event(EVENT.attributes | {"id": "5"}, None))

        seen = []
        while site.producer.records:
            seen.append(site.producer.records[0][3]["ce_id"])
            site.producer.report()
            site.loop.turn()

        assert seen == [b"1", b"2", b"3", b"4", b"5"]
        assert set(site.codes) == set(range(6))

    def test_what_has_its_answer_meanwhile_is_not_sent(self):
        """Its deadline has passed while it waited."""
        site = Site(room=1)
        site.publish(0)
        late = site.publish(1)
        late.tell(TransportError("timeout", "late"))

        site.producer.report()
        site.loop.turn()

        assert not site.producer.records
        assert late in site.link.settled  # else its place in the window is taken for good

    def test_what_waits_has_not_been_sent(self):
        """If the connection ends over others it costs no attempt."""
        site = Site(room=1)
        first, second = site.publish(0), site.publish(1)
        assert (first.sent_s, second.sent_s) == (5.0, 0.0)

        site.producer.report()
        site.loop.turn()

        assert second.sent_s == 7.0

    def test_a_record_that_never_fits_keeps_nobody_waiting(self):
        """The client has room for nothing larger than all that it holds."""
        site = Site(room=0)

        site.publish()

        assert site.codes == {0: "MSG_SIZE_TOO_LARGE"}
        assert not site.session._held


class TestPolling:
    """How often the client is asked."""

    def test_often_while_reports_are_due_and_seldom_otherwise(self, site):
        """Back and forth."""
        assert site.loop.wait_s == _session.POLL_IDLE_S
        site.publish()
        assert site.loop.wait_s == _session.POLL_S
        site.loop.turn()
        assert site.loop.wait_s == _session.POLL_S
        site.producer.report()
        site.loop.turn()
        assert site.loop.wait_s == _session.POLL_IDLE_S

    def test_publishing_does_not_put_the_poll_off(self, site):
        """However quickly records follow each other."""
        site.publish(0)
        timer = site.loop._turn

        site.publish(1)

        assert site.loop._turn is timer


class TestEnd:
    """Clients that cannot go on."""

    @pytest.mark.parametrize(
        ("errors", "reason"),
        [
            ([KafkaError(KafkaError._ALL_BROKERS_DOWN)], "reset"),
            (
                [KafkaError(KafkaError._SSL), KafkaError(KafkaError._ALL_BROKERS_DOWN)],
                "tls",
            ),
            ([KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, "fenced", True)], None),
        ],
        ids=["down", "down-why", "fatal"],
    )
    def test_are_told_as_lost(self, site, errors, reason):
        """With what named a cause."""
        for error in errors:
            site.client._trouble(error)
        site.loop.turn()

        (answer,) = site.lost
        assert getattr(answer, "reason", None) == reason

    def test_one_broker_of_several_that_is_away_is_no_end(self, site):
        """The client sees to it."""
        site.client._trouble(KafkaError(KafkaError._TRANSPORT))
        site.loop.turn()

        assert site.lost == []

    def test_closing_stops_the_timer(self, site, monkeypatch):
        """And lets go of the client, on a thread."""
        ended = []
        monkeypatch.setattr(site.client, "forget", lambda: ended.append(site.client))

        asyncio.run(site.session.close())

        assert site.loop.wait_s is None
        assert ended == [site.client]


class Asked:
    """A client of the library that knows its brokers, and what was done with it."""

    def __init__(self, done, settings):
        self.done = done
        self.settings = settings
        done.append(("made", settings["enable.idempotence"]))

    def list_topics(self, _topic, timeout):
        assert timeout > 0.0
        return SimpleNamespace(brokers={1: SimpleNamespace(host="inside.example", port=9092)})

    def poll(self, _timeout):
        known = {"nodename": "inside.example:9092", "nodeid": 1, "state": "INIT"}
        self.settings["stats_cb"](json.dumps({"brokers": {"inside.example:9092/1": known}}))

    def purge(self, **_what):
        """Nothing is held."""

    def close(self):
        self.done.append(("closed",))


class TestBrokers:
    """Brokers that come later."""

    @pytest.mark.parametrize("refused", [True, False])
    def test_are_checked_before_a_client_that_would_dial_any_of_them_is_made(
        self, monkeypatch, refused
    ):
        """An idempotent producer asks any broker for its number: one that is not asks first."""
        done = []
        monkeypatch.setattr(confluent_kafka, "Producer", functools.partial(Asked, done))

        class Checked:
            async def checked_addresses(self, host, port):
                done.append(("checked", host, port))
                if refused:
                    raise TransportError("blocked-address", host)
                return [host]

        async def run():
            client = _client.KafkaClient("Producer", {"enable.idempotence": True}, Checked())
            return await client.connect("t", asyncio.get_running_loop())

        if refused:
            with pytest.raises(TransportError):
                asyncio.run(run())
        else:
            assert asyncio.run(run()) is None
        first = [("made", False), ("closed",), ("checked", "inside.example", 9092)]
        then = [] if refused else [("made", True), ("checked", "inside.example", 9092)]
        assert done == first + then

    @pytest.mark.parametrize(("refused", "ends"), [(False, 0), (True, 1)])
    def test_are_checked_when_they_are_heard_of(self, refused, ends):
        """One that must not be dialled ends the connection; those that may are asked once."""
        asked = []

        class Checked:
            async def checked_addresses(self, host, port):
                asked.append((host, port))
                if refused:
                    raise TransportError("blocked-address", host, retryable=False)
                return [host]

        async def run():
            client = _client.KafkaClient("Producer", {}, Checked())
            client._loop = asyncio.get_running_loop()
            for _ in range(3):
                client._learn(statistics("new.example:9092", ":0", "[2001:db9::7]:9092"))
                end = client.end()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            return end

        end = asyncio.run(run())
        assert (end is not None) == bool(ends)
        assert set(asked) <= {("new.example", 9092), ("2001:db9::7", 9092)}
        assert len(asked) == len(set(asked))

    def test_that_are_left_and_asked_anew_stand_twice_under_one_name(self, site):
        """The library makes another of a server that it lost before the old one has ended."""
        known = '"a:1/bootstrap": {"nodename": "a:1", "nodeid": -1, "state": "INIT"}'
        said = f'{{"brokers": {{{known}, {known}}}}}'
        site.producer.poll_more = lambda: site.client._learn(said)
        site.client._checked = frozenset({("a", 1)})
        site.loop.turn()

        assert site.lost == []

    @pytest.mark.parametrize(
        "said",
        [
            "{",
            '{"brokers": {"a": {"nodename": 7}}}',
            # A name that closes what it stands in, so that a broker behind it is not seen.
            '{"brokers": {"a": {"nodename": "a:1"}}, "x": {"b": {"nodename": "b:1"}}}',
        ],
        ids=["cut", "types", "hidden"],
    )
    def test_whose_names_garble_what_is_said_end_the_connection(self, site, said):
        """They are not taken for brokers that were checked, and stop nothing else."""
        site.publish()
        site.producer.report()
        site.producer.poll_more = lambda: site.client._learn(said)
        site.loop.turn()

        assert site.codes == {0: "NO_ERROR"}
        assert [answer.reason for answer in site.lost] == ["protocol"]


def statistics(*names) -> str:
    """What librdkafka says of its brokers."""
    brokers = {f"{name}/1": {"nodename": name, "state": "UP"} for name in names}
    return json.dumps({"brokers": brokers, "name": "x"})


class TestConnections:
    """Which destinations share a connection, and what the client is told."""

    def test_what_a_connection_is_for(self):
        """Topic, key and other things of a record do not matter."""
        one, other = a_destination(), a_destination(partitionkeyextractor="type")
        other = dataclasses.replace(other, format="structured", uri="kafka://one.example/else")

        assert _session.key_of(one) == _session.key_of(other)

    @pytest.mark.parametrize(
        "change",
        [
            {"uri": "kafka://two.example/orders"},
            {"uri": "kafka+ssl://one.example/orders"},
            {"credential": Credential("PLAIN", identifier="a", secret="b")},
            {"ca_certs": "PEM"},
            {"settings": KafkaSettings("orders", clientid="other")},
            {"settings": KafkaSettings("orders", acks="1")},
            {"policy": DeliveryPolicy(timeout_s=5.0)},
        ],
    )
    def test_what_takes_another_connection(self, change):
        """Whatever the client is told once."""
        changed = dataclasses.replace(a_destination(), **change)

        assert _session.key_of(changed) != _session.key_of(a_destination())

    @pytest.mark.parametrize(
        ("timeout_s", "message_ms"), [(0.1, 1_000), (1.0, 1_000), (5.0, 8_000), (30.0, 32_000)]
    )
    def test_the_client_tries_about_as_long_as_an_attempt(self, timeout_s, message_ms):
        """Never shorter; rounded, so that few connections do for many timeouts."""
        settings = _session.producer_settings(a_destination(timeout_s))

        assert settings["message.timeout.ms"] == message_ms
        assert message_ms >= 1_000 * timeout_s

    @pytest.mark.parametrize(
        ("acks", "idempotent", "retries"), [("all", True, 3), ("1", False, 0), ("0", False, 0)]
    )
    def test_nothing_is_repeated_where_it_could_come_twice(self, acks, idempotent, retries):
        """Only with acks=all do brokers know a record that they have."""
        settings = _session.producer_settings(a_destination(acks=acks))

        assert settings["acks"] == acks
        assert settings["enable.idempotence"] == idempotent
        assert settings["retries"] == retries

    def test_the_client_id(self):
        """That of the setting, or our own."""
        assert _session.producer_settings(a_destination())["client.id"] == "distributary"
        assert _session.producer_settings(a_destination(clientid="x"))["client.id"] == "x"

    def test_responses_are_bounded(self):
        """By what a cluster may say of a topic, and not by what it may send of records."""
        found = _session.producer_settings(a_destination())["receive.message.max.bytes"]
        assert found == _client.RESPONSE_BYTES_MAX
