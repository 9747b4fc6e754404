"""Settings, keys, content and refusals, as a real broker sees and says them."""

import asyncio
import json
import time
from base64 import urlsafe_b64encode

import pytest
from confluent_kafka import KafkaError

from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.policy import Acknowledgement, delivered
from distributary.core.policy.acknowledgements import acknowledgement_rule
from distributary.protocols.kafka import answers as table
from distributary.protocols.kafka.sink import _session
from kit.cutting_proxy import CuttingProxy, Fate
from kit.ports import free_port
from kit.servers import USER
from kit.servers.kafka import FORBIDDEN
from kit.servers.kafka_relay import KafkaRelay

pytestmark = pytest.mark.slow

REPEATED_UNTIL_TIME_IS_UP = {
    "UNKNOWN_TOPIC_OR_PART",  # as an answer to a record; a topic that is not there is told at once
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "REPLICA_NOT_AVAILABLE",
    "BROKER_NOT_AVAILABLE",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
}
"""Codes that say that the record is nowhere: the client asks who leads the partition now, and
sends again, as often as there is time for."""


@pytest.fixture
def relay(kafka):
    """A wire to the broker that can write over its answers."""
    with KafkaRelay(kafka.watched_port, kafka.watch_port) as between:
        yield between


def codes(answers) -> list[str]:
    """What the broker said, or why it said nothing."""
    return [
        answer.code if isinstance(answer, Acknowledgement) else answer.reason for answer in answers
    ]


class TestRecords:
    """What is in the topic afterwards."""

    def test_binary_mode_has_a_header_for_each_attribute(self, lab):
        """And the data as they are, under the data's own content type."""
        event = lab.event(b"\x00\xff\r\n", subject="größe", datacontenttype="image/png", n=5)

        assert codes(lab.deliver(lab.destination(), event)) == ["NO_ERROR"]

        (record,) = lab.records(lab.topic)
        assert dict(record.headers) == {
            "ce_specversion": b"1.0",
            "ce_id": b"1",
            "ce_source": b"/test",
            "ce_type": b"com.example.test",
            "ce_subject": "größe".encode(),
            "ce_n": b"5",
            "content-type": b"image/png",
        }
        assert (record.key, record.value) == (None, b"\x00\xff\r\n")

    def test_no_data_is_no_value_and_empty_data_an_empty_one(self, lab):
        """A record without a value deletes its key in a compacted topic."""
        lab.deliver(lab.destination(), lab.event(None), lab.event(b""))

        assert [record.value for record in lab.records(lab.topic)] == [None, b""]

    def test_structured_mode_has_one_header_and_the_event_as_json(self, lab):
        """With a key all the same, where one is asked for."""
        lab.deliver(lab.destination(mode="structured", partitionkeyextractor="type"), lab.event())

        (record,) = lab.records(lab.topic)
        assert record.headers == [("content-type", b"application/cloudevents+json; charset=utf-8")]
        assert json.loads(record.value)["type"] == "com.example.test"
        assert record.key == b"com.example.test"

    @pytest.mark.clause("subscriptions-api.settings.kafka.partitionkeyextractor")
    def test_the_key_is_the_attribute_that_the_setting_names(self, lab):
        """Its canonical string; without the attribute there is no key; the attribute stays."""
        events = [lab.event(partitionkey="käse"), lab.event(partitionkey=True), lab.event()]

        lab.deliver(lab.destination(partitionkeyextractor="partitionkey"), *events)

        found = lab.records(lab.topic)
        assert [record.key for record in found] == ["käse".encode(), b"true", None]
        assert dict(found[0].headers)["ce_partitionkey"] == "käse".encode()

    def test_keys_choose_the_partition_as_the_java_client_does(self, lab):
        """Murmur2: values of Kafka's own tests, so that equal keys of other writers meet ours."""
        lab.kafka.create_topic("keys", partitions=7)
        hashes = {
            "21": -973932308,
            "foobar": -790332482,
            "a-little-bit-long-string": -985981536,
        }

        events = [lab.event(subject=key) for key in hashes]
        lab.deliver(lab.destination("keys", partitionkeyextractor="subject"), *events)

        seen = {record.key.decode(): record.partition for record in lab.records("keys")}
        assert seen == {key: (value & 0x7FFFFFFF) % 7 for key, value in hashes.items()}

    @pytest.mark.clause("subscriptions-api.settings.kafka.topicname")
    def test_the_topic_is_that_of_the_setting(self, lab):
        """The URI names servers."""
        uri = f"kafka://127.0.0.1:{lab.kafka.port}"

        assert codes(lab.deliver(lab.destination(uri=uri), lab.event())) == ["NO_ERROR"]

        assert len(lab.records(lab.topic)) == 1


class TestSettings:
    """What else a subscription says."""

    @pytest.mark.clause("subscriptions-api.settings.kafka.clientid")
    @pytest.mark.clause("subscriptions-api.settings.kafka.others")
    def test_the_client_id_is_that_of_the_setting(self, lab, relay):
        """Quotas and logs of the cluster go by it; without one it is the product's name."""
        lab.deliver(lab.destination(port=lab.kafka.watch_port), lab.event())
        lab.deliver(lab.destination(port=lab.kafka.watch_port, clientid="orders-out"), lab.event())

        assert relay.clients == {"distributary", "orders-out"}

    @pytest.mark.clause("subscriptions-api.settings.kafka.acks")
    @pytest.mark.parametrize(("acks", "answered"), [("all", 1), ("1", 1), ("0", 0)])
    def test_acks_are_asked_for(self, lab, relay, acks, answered):
        """With 0 the broker never answers, and the event is delivered once it is written."""
        answers = lab.deliver(lab.destination(port=lab.kafka.watch_port, acks=acks), lab.event())

        assert codes(answers) == ["NO_ERROR"]
        assert relay.produced == answered
        until_s = time.monotonic() + 60.0
        while not lab.records(lab.topic) and time.monotonic() < until_s:
            pass  # nobody said that it is there yet
        assert len(lab.records(lab.topic)) == 1

    def test_one_of_several_servers_is_enough(self, lab):
        """Those that nobody listens at, or that have no address, are passed over."""
        hosts = f"127.0.0.1:{free_port()},nowhere.invalid:9092,127.0.0.1:{lab.kafka.port}"

        answers = lab.deliver(lab.destination(uri=f"kafka://{hosts}/{lab.topic}"), lab.event())

        assert codes(answers) == ["NO_ERROR"]


class TestLogin:
    """Who is let in, and by what."""

    def test_a_wrong_password_is_refused_and_tried_again(self, lab):
        """The event was never judged; the password is not told."""
        wrong = Credential("PLAIN", identifier=USER, secret="open sesame")

        (answer,) = lab.deliver(lab.destination(credential=wrong), lab.event())

        assert codes([answer]) == ["SASL_AUTHENTICATION_FAILED"]
        assert "sesame" not in answer.text
        assert acknowledgement_rule(answer).decision.name == "RETRY"

    def test_nobody_is_let_in_without_a_credential(self, lab):
        """The broker ends the connection without a word."""
        (answer,) = lab.deliver(lab.destination(credential=None), lab.event())

        assert isinstance(answer, TransportError)
        assert answer.retryable

    def test_a_token_is_shown(self, lab):
        """As OAUTHBEARER; here one that nobody has signed."""
        answers = lab.deliver(lab.destination(credential=token(expires_in_s=300)), lab.event())

        assert codes(answers) == ["NO_ERROR"]

    def test_a_token_that_the_broker_refuses(self, lab):
        """Is a refusal to be let in, as a wrong password."""
        (answer,) = lab.deliver(lab.destination(credential=token(expires_in_s=-300)), lab.event())

        assert codes([answer]) == ["SASL_AUTHENTICATION_FAILED"]


class TestTls:
    """Certificates and names are verified."""

    def test_a_sink_with_an_authority_of_its_own(self, lab, authority):
        """Trusted besides the system's."""
        uri = f"kafka+ssl://localhost:{lab.kafka.tls_port}/{lab.topic}"

        answers = lab.deliver(lab.destination(uri=uri, ca_certs=authority.ca_certs), lab.event())

        assert codes(answers) == ["NO_ERROR"]

    def test_an_authority_that_nobody_trusts(self, lab):
        """No event leaves."""
        uri = f"kafka+ssl://localhost:{lab.kafka.tls_port}"

        assert codes(lab.deliver(lab.destination(uri=uri), lab.event())) == ["tls"]

    def test_a_certificate_for_another_name(self, lab, authority):
        """``127.1`` is the same machine by a name that its certificate does not hold."""
        uri = f"kafka+ssl://127.1:{lab.kafka.tls_port}"

        answers = lab.deliver(lab.destination(uri=uri, ca_certs=authority.ca_certs), lab.event())

        assert codes(answers) == ["tls"]

    def test_certificates_that_are_none(self, lab):
        """Are told before anybody is dialled."""
        uri = f"kafka+ssl://localhost:{lab.kafka.tls_port}"

        assert codes(lab.deliver(lab.destination(uri=uri, ca_certs="rubbish"), lab.event())) == [
            "tls"
        ]


class TestAddresses:
    """Nothing goes where nothing must be dialled."""

    def test_a_broker_that_says_it_is_elsewhere(self, lab):
        """Where brokers say that they are is checked before anything is sent."""
        (answer,) = lab.deliver(lab.destination(port=lab.kafka.lying_port), lab.event())

        assert isinstance(answer, TransportError)
        assert answer.reason == "blocked-address", answer
        assert not answer.retryable


class TestRefusals:
    """What the cluster does not take."""

    def test_a_topic_that_is_forbidden(self, lab):
        """A dead letter: the account will not be allowed by waiting."""
        (answer,) = lab.deliver(lab.destination(FORBIDDEN), lab.event())

        assert codes([answer]) == ["TOPIC_AUTHORIZATION_FAILED"]
        assert acknowledgement_rule(answer).decision.name == "DEAD_LETTER"

    def test_a_topic_that_is_not_there_is_found_once_it_is(self, lab, monkeypatch):
        """It is never made by writing to it, and needs no new connection when somebody has."""
        monkeypatch.setattr(_session, "TOPICS_LOOK_MS", 500)

        async def run():
            async with lab.opened() as made:
                target = lab.destination("later")
                first = await lab.send(made, target, lab.event())
                assert codes(first) == ["UNKNOWN_TOPIC_OR_PART"]
                await asyncio.to_thread(lab.kafka.create_topic, "later")
                for _ in range(100):
                    (answer,) = await lab.send(made, target, lab.event())
                    if delivered(answer):
                        return
                    await asyncio.sleep(0.1)
                raise AssertionError(answer)

        asyncio.run(run())

    def test_a_record_that_is_too_large(self, lab):
        """The broker says so, not the client; others of the same moment are not harmed."""
        lab.kafka.create_topic("small", max_message_bytes="100000")
        large, small = lab.event(b"x" * 200_000), lab.event(b"x" * 1_000)

        answers = lab.deliver(lab.destination("small"), small, large, small)

        assert codes(answers) == ["NO_ERROR", "MSG_SIZE_TOO_LARGE", "NO_ERROR"]

    def test_records_that_are_too_large_together(self, lab):
        """May each be taken alone: they are tried again."""
        lab.kafka.create_topic("tiny", max_message_bytes="2000")

        answers = lab.deliver(lab.destination("tiny"), *[lab.event(b"x" * 500)] * 50)

        assert "RECORD_LIST_TOO_LARGE" in codes(answers)
        assert "MSG_SIZE_TOO_LARGE" not in codes(answers)

    def test_every_row_of_the_table(self, lab, relay):
        """Each code in an answer comes to its row; one that has none, to ``other``."""
        wanted = {rule.code: getattr(KafkaError, rule.code, None) for rule in table.RULES}
        wanted = {n: c for n, c in wanted.items() if n not in REPEATED_UNTIL_TIME_IS_UP | {"other"}}
        wanted |= {"other-known": KafkaError.GROUP_ID_NOT_FOUND, "other-new": 999}
        relay.codes = {f"row-{name}": code for name, code in wanted.items()}
        lab.kafka.create_topics(list(relay.codes))
        large = lab.event(b"x" * 100_000)

        async def run():
            found = {}
            async with lab.opened() as made:
                for name in wanted:
                    event = lab.event() if name == "RECORD_LIST_TOO_LARGE" else large
                    target = lab.destination(f"row-{name}", port=lab.kafka.watch_port, acks="1")
                    (found[name],) = await lab.send(made, target, event)
            return found

        found = asyncio.run(run())
        rows = {name: acknowledgement_rule(answer).code for name, answer in found.items()}
        assert rows == {name: name.partition("-")[0] for name in wanted}

    def test_a_partition_that_moves_is_followed(self, lab, relay):
        """The client repeats what was written nowhere, as long as there is time for it."""
        names = sorted(REPEATED_UNTIL_TIME_IS_UP)
        relay.codes = {f"moved-{name}": getattr(KafkaError, name) for name in names}
        lab.kafka.create_topics(list(relay.codes))
        targets = [
            lab.destination(f"moved-{name}", port=lab.kafka.watch_port, clientid=name)
            for name in names
        ]

        async def run():
            async with lab.opened() as made:
                late = await asyncio.gather(
                    *(lab.send(made, target, lab.event(), timeout_s=1.1) for target in targets)
                )
                assert [codes(each) for each in late] == [["timeout"]] * len(names)
                relay.codes.clear()
                after = await asyncio.gather(
                    *(lab.send(made, target, lab.event()) for target in targets)
                )
                assert [codes(each) for each in after] == [["NO_ERROR"]] * len(names)

        asyncio.run(run())

    def test_what_is_repeated_inside_an_attempt_is_not_doubled(self, lab, relay):
        """The broker took it, and its answer says otherwise: the number of the record helps."""
        relay.codes[lab.topic] = 19  # NOT_ENOUGH_REPLICAS

        answers = lab.deliver(lab.destination(port=lab.kafka.watch_port), lab.event())

        assert codes(answers) == ["NOT_ENOUGH_REPLICAS"]
        assert relay.produced == 4
        assert len(lab.records(lab.topic)) == 1

    def test_a_producer_that_is_finished_is_replaced(self, lab, relay):
        """An error after which the client takes nothing more ends its connection, not ours."""

        async def run():
            async with lab.opened() as made:
                target = lab.destination(port=lab.kafka.watch_port)
                assert codes(await lab.send(made, target, lab.event())) == ["NO_ERROR"]
                relay.codes[lab.topic] = 47  # INVALID_PRODUCER_EPOCH
                (answer,) = await lab.send(made, target, lab.event())
                assert not delivered(answer)
                relay.codes.clear()
                for _ in range(100):
                    (answer,) = await lab.send(made, target, lab.event())
                    if delivered(answer):
                        return
                    await asyncio.sleep(0.1)
                raise AssertionError(answer)

        asyncio.run(run())


class TestMuch:
    """More than there is room for."""

    def test_more_bytes_than_the_client_holds(self, lab):
        """They wait here; none is lost, and their order stays."""
        data = b"x" * 1_000_000
        events = [lab.event(data, id=f"{number}") for number in range(80)]

        answers = lab.deliver(lab.destination(), *events, timeout_s=60.0)

        assert set(codes(answers)) == {"NO_ERROR"}
        ids = [dict(record.headers)["ce_id"] for record in lab.records(lab.topic)]
        assert ids == [b"%d" % number for number in range(80)]


class TestBreaks:
    """Wires that fall silent, and come back. ``testing.broker_kills`` kills brokers under load."""

    def test_a_wire_that_falls_silent(self, lab):
        """The attempt ends in time, and the next one takes a new connection."""

        async def run():
            async with lab.opened() as made:
                target = lab.destination(port=lab.kafka.relay_port)
                assert codes(await lab.send(made, target, lab.event())) == ["NO_ERROR"]
                cut.cut(Fate.HOLD)
                answers = await lab.send(made, target, lab.event(), timeout_s=1.1)
                assert codes(answers) == ["timeout"]
                cut.reset()
                cut.mend()
                for _ in range(40):
                    (answer,) = await lab.send(made, target, lab.event())
                    if delivered(answer):
                        return
                    await asyncio.sleep(0.1)
                raise AssertionError(answer)

        cut = CuttingProxy(lab.kafka.relayed_port, port=lab.kafka.relay_port)
        with cut:
            asyncio.run(run())


def token(expires_in_s: int) -> Credential:
    """An access token that Kafka's test validator reads: a JWT without a signature."""
    now_s = int(time.time())
    claims = {"sub": USER, "iat": now_s - 600, "exp": now_s + expires_in_s}
    parts = ({"alg": "none"}, claims)
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return Credential("ACCESSTOKEN", access_token=(b".".join(encoded) + b".").decode())
