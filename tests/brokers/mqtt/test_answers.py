"""Every answer of the two tables, as a broker gives it, ends as its row says."""

import asyncio
import dataclasses

import pytest
import uvloop

from distributary.core.errors import TransportError
from distributary.core.policy import Decision, DeliveryPolicy, classify, delivered
from distributary.core.policy.acknowledgements import (
    Acknowledgement,
    acknowledgement_rule,
    acknowledgement_rules,
)
from distributary.testing.check_transport import an_event
from kit import fake_mqtt
from kit.fake_mqtt import FakeMqtt, packet

MESSAGE_CODES = [int(code, 16) for code in acknowledgement_rules("MQTT5") if code.startswith("0x")]


def codes_of(protocol, packet_name):
    """The codes of the rows for this packet."""
    rows = acknowledgement_rules(protocol)
    return [int(code.split()[1], 0) for code in rows if code.startswith(packet_name)]


def says(version, answers):
    """Logs in and answers by the kind of packet: 3 PUBLISH, 6 PUBREL."""
    return fake_mqtt.logs_in(version, lambda came: answers[came.kind](came))


async def answer_of(way, script, qos=1, protocol="MQTT5", **settings):
    """The answer to one event that a broker with this script gives."""
    async with FakeMqtt(script) as broker, way() as it:
        return await it.send(it.to(broker.port, "t", qos, protocol=protocol, **settings))


@pytest.mark.parametrize("code", MESSAGE_CODES, ids=hex)
def test_a_code_of_puback_is_the_answer(way, code):
    """With the broker's words beside it."""
    reason = b"\x1f\x00\x05words"
    body = bytes((code, len(reason))) + reason
    script = says(5, {3: lambda came: packet(0x40, came.packet_id + body)})
    answer = uvloop.run(answer_of(way, script))
    assert answer == Acknowledgement("MQTT5", f"0x{code:02X}", "words" if code else "")
    assert acknowledgement_rule(answer).code == answer.code


@pytest.mark.parametrize("code", [code for code in MESSAGE_CODES if code >= 0x80], ids=hex)
def test_an_error_of_pubrec_ends_the_exchange(way, code):
    """No PUBREL follows: the broker has not taken the message (4.3.3)."""

    async def scenario():
        script = says(5, {3: lambda came: packet(0x50, came.packet_id + bytes((code,)))})
        async with FakeMqtt(script) as broker, way() as it:
            answer = await it.send(it.to(broker.port, "t", 2))
            again = await it.send(it.to(broker.port, "t", 2))
            return answer, again, [came.kind for came in broker.packets]

    answer, again, kinds = uvloop.run(scenario())
    assert answer == again == Acknowledgement("MQTT5", f"0x{code:02X}")
    assert kinds == [1, 3, 3]


@pytest.mark.parametrize("code", [0x00, 0x92], ids=hex)
def test_the_code_of_pubcomp_is_the_answer(way, code):
    """After PUBREC said yes."""
    script = says(
        5,
        {
            3: lambda came: packet(0x50, came.packet_id),
            6: lambda came: packet(0x70, came.packet_id + bytes((code,))),
        },
    )
    answer = uvloop.run(answer_of(way, script, qos=2))
    assert answer == Acknowledgement("MQTT5", f"0x{code:02X}")


@pytest.mark.parametrize("code", codes_of("MQTT5", "CONNACK"), ids=hex)
def test_a_refused_login_is_the_answer_of_mqtt_5(way, code):
    """And is tried again, whatever the code: no event was judged."""
    reason = b"\x1f\x00\x05words"
    body = bytes((0, code, len(reason))) + reason
    answer = uvloop.run(answer_of(way, lambda _: packet(0x20, body)))
    assert answer == Acknowledgement("MQTT5", f"CONNACK 0x{code:02X}", "words")
    assert acknowledgement_rule(answer).decision is Decision.RETRY
    assert acknowledgement_rule(answer).code == answer.code


@pytest.mark.parametrize("code", codes_of("MQTT3", "CONNACK"))
def test_a_refused_login_is_the_answer_of_mqtt_3(way, code):
    """Its five codes are numbers of their own."""
    script = [packet(0x20, bytes((0, code)))]
    answer = uvloop.run(answer_of(way, lambda _: script[0], protocol="MQTT3"))
    assert answer == Acknowledgement("MQTT3", f"CONNACK {code}")
    assert acknowledgement_rule(answer).decision is Decision.RETRY


@pytest.mark.parametrize("code", codes_of("MQTT5", "DISCONNECT"), ids=hex)
def test_a_disconnect_is_the_answer_of_what_is_in_flight(way, code):
    """Of the message itself where the code can be about nothing else."""
    script = says(5, {3: lambda _: packet(0xE0, bytes((code,)))})
    answer = uvloop.run(answer_of(way, script))
    judges = code in {0x90, 0x95, 0x99, 0x9A, 0x9B}
    assert answer.code == (f"0x{code:02X}" if judges else f"DISCONNECT 0x{code:02X}")
    expected = Decision.DEAD_LETTER if judges else Decision.RETRY
    assert acknowledgement_rule(answer).decision is expected


@pytest.mark.parametrize("code", [0x90, 0x95, 0x99], ids=hex)
def test_a_message_that_may_not_be_the_culprit_is_tried_again(way, code):
    """What went out at QoS 0 is in flight no more: the broker may mean that."""

    def judge(came):
        return b"" if came.first & 0x06 == 0 else packet(0xE0, bytes((code,)))

    async def scenario():
        async with FakeMqtt(says(5, {3: judge})) as broker, way() as it:
            assert delivered(await it.send(it.to(broker.port, "culprit", 0)))
            return await it.send(it.to(broker.port, "t"))

    answer = uvloop.run(scenario())
    assert answer.code == f"DISCONNECT 0x{code:02X}"
    assert acknowledgement_rule(answer).decision is Decision.RETRY


@pytest.mark.parametrize("protocol", ["MQTT3", "MQTT5"])
def test_nothing_is_said_after_a_refused_login(way, until, protocol):
    """The broker need not hang up for its answer to be heard; we do."""
    gone = []

    async def scenario():
        refusal = b"\x00\x87\x00" if protocol == "MQTT5" else b"\x00\x05"
        async with FakeMqtt(lambda _: packet(0x20, refusal)) as broker, way() as it:
            answer = await it.send(it.to(broker.port, "t", protocol=protocol))
            await until(lambda: not broker.open_connections)
            gone.extend(came.kind for came in broker.packets)
            return answer

    assert uvloop.run(scenario()).code.startswith("CONNACK")
    assert gone == [1]


def test_one_poisonous_message_is_found_among_many(way):
    """The broker ends the connection over it: the others are delivered, it gets the answer."""

    def judge(came):
        poisonous = b"check-7" in came.body
        return packet(0xE0, b"\x99") if poisonous else packet(0x40, came.packet_id)

    async def scenario():
        async with FakeMqtt(says(5, {3: judge})) as broker, way() as it:
            destination = it.to(broker.port, "t")
            answers = {}
            for _ in range(3):
                left = [
                    number
                    for number in range(20)
                    if number not in answers or answers[number].code.startswith("DISCONNECT")
                ]
                tasks = {n: it.start(destination, an_event(n)) for n in left}
                for number, task in tasks.items():
                    answers[number] = await task
            return answers

    answers = uvloop.run(scenario())
    assert answers.pop(7).code == "0x99"
    assert {answer.code for answer in answers.values()} == {"0x00"}


@pytest.mark.parametrize("says_why", [True, False], ids=["disconnect", "no word"])
def test_of_many_poisonous_messages_none_costs_the_others_more_than_one_attempt(way, says_why):
    """A connection that ends in its slow start is followed by another one."""
    bad = (7, 11, 12, 19)

    def judge(came):
        if any(f"check-{number}".encode() in came.body for number in bad):
            return packet(0xE0, b"\x99") if says_why else None
        return packet(0x40, came.packet_id)

    async def scenario():
        attempts = dict.fromkeys(range(25), 0)
        async with FakeMqtt(says(5, {3: judge})) as broker, way() as it:
            destination, due = it.to(broker.port, "t"), list(attempts)
            for _ in range(4):
                tasks = {number: it.start(destination, an_event(number)) for number in due}
                for number, task in tasks.items():
                    answer = await task
                    attempts[number] += 1
                    if getattr(answer, "code", "") in {"0x00", "0x99"}:
                        due.remove(number)
        return attempts, due

    attempts, due = uvloop.run(scenario())
    assert due == ([] if says_why else [*bad]), "without a word it is not known what they are"
    assert all(attempts[number] <= 2 for number in attempts if number not in bad)


def test_a_poisonous_message_of_one_tenant_costs_another_nothing(way, until):
    """Who has the same broker and the same credential has another connection, and its window."""

    def judge(came):
        if b"check-7" in came.body:
            return None
        return b"" if b"check-1" in came.body else packet(0x40, came.packet_id)

    async def scenario():
        async with FakeMqtt(says(5, {3: judge})) as broker:
            async with way() as it:
                mine = it.to(broker.port, "t")
                theirs = dataclasses.replace(mine, tenant="theirs")
                waiting = it.start(mine, an_event(1))
                await until(lambda: any(b"check-1" in came.body for came in broker.packets))
                poison = [it.start(theirs, an_event(number)) for number in (7, 8)]
                assert [(await attempt).reason for attempt in poison] == ["reset"] * 2
                assert (await it.send(theirs, an_event(9))).code == "0x00"
                assert (await it.send(mine, an_event(2))).code == "0x00"
                assert not waiting.done()
            assert (await waiting).reason == "closed"
            return broker.connections

    assert uvloop.run(scenario()) == 3


def test_a_code_that_the_standard_does_not_have_is_tried_again(way):
    """It has the row ``other``."""
    script = says(5, {3: lambda came: packet(0x40, came.packet_id + b"\xfe")})
    answer = uvloop.run(answer_of(way, script))
    assert answer == Acknowledgement("MQTT5", "0xFE")
    verdict = classify(answer, 1, DeliveryPolicy(), 0.5, 0)
    assert verdict.decision is Decision.RETRY


@pytest.mark.parametrize(
    ("properties", "settings", "code"),
    [
        (b"\x27\x00\x00\x00\x40", {}, "0x95"),
        (b"\x25\x00", {"retain": True}, "0x9A"),
        (b"\x24\x00", {}, "0x9B"),
    ],
    ids=["packet-size", "retain", "qos"],
)
def test_limits_of_the_login_are_kept_without_sending(way, properties, settings, code):
    """A broker would end the connection over such a message, and with it all others."""

    async def scenario():
        connack = packet(0x20, b"\x00\x00" + bytes((len(properties),)) + properties)
        async with FakeMqtt(lambda _: connack) as broker, way() as it:
            answer = await it.send(it.to(broker.port, "t", 1, **settings))
            return answer, [came.kind for came in broker.packets]

    answer, kinds = uvloop.run(scenario())
    assert answer.code == code
    assert kinds == [1]


def test_receive_maximum_is_kept(way, until):
    """No more messages are in flight than the broker takes; the rest waits its turn."""

    async def scenario():
        connack = packet(0x20, b"\x00\x00\x03\x21\x00\x03")
        script = says(5, {3: lambda _: b""})
        async with (
            FakeMqtt(lambda came: connack if came.kind == 1 else script(came)) as broker,
            way() as it,
        ):
            destination = it.to(broker.port, "t")
            tasks = [it.start(destination, an_event(n)) for n in range(9)]
            await until(lambda: len(broker.packets) == 4)
            await asyncio.sleep(0.1)
            assert not any(task.done() for task in tasks)
            return [came.kind for came in broker.packets]

    assert uvloop.run(scenario()) == [1, 3, 3, 3]


GARBAGE = {
    "no-mqtt": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "endless-length": b"\x20\xff\xff\xff\xff\x01",
    "empty-connack": b"\x20\x00",
    "unknown-property": b"\x20\x05\x00\x00\x02\x7f\x00",
    "property-cut-off": b"\x20\x04\x00\x00\x05\x21",
    "puback-first": b"\x40\x02\x00\x01",
    "huge": b"\x20\xff\xff\xff\x7f",
}


@pytest.mark.parametrize("bytes_", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_mqtt_is_an_error(way, bytes_):
    """Said at the login: the attempt ends at once, and may be made again."""
    answer = uvloop.run(answer_of(way, lambda _: bytes_))
    assert isinstance(answer, TransportError)
    assert answer.reason == "protocol"
    assert answer.retryable


@pytest.mark.parametrize(
    "bytes_",
    [b"\x20\x03\x00\x00\x00", b"\xf0\x00", b"\x36\x02\x00\x00", b"\x40\x01\x00"],
    ids=["second-connack", "auth", "qos-3", "short-puback"],
)
def test_what_is_no_mqtt_ends_the_connection(way, bytes_):
    """Said instead of an acknowledgement."""
    answer = uvloop.run(answer_of(way, says(5, {3: lambda _: bytes_})))
    assert isinstance(answer, TransportError)
    assert answer.reason == "protocol"


def test_acknowledgements_of_nothing_are_let_go(way):
    """A broker may acknowledge what was given up long ago."""
    stray = b"\x40\x02\x7f\xff\x50\x02\x7f\xff\x70\x02\x7f\xff"
    script = says(5, {3: lambda came: stray + packet(0x40, came.packet_id)})
    assert uvloop.run(answer_of(way, script)).code == "0x00"


def test_acknowledgements_in_pieces_are_put_together(way):
    """The network may cut a packet anywhere."""
    script = says(5, {3: lambda came: packet(0x40, came.packet_id + b"\x10")})

    async def scenario():
        async with FakeMqtt(script, drip=True) as broker, way() as it:
            return await it.send(it.to(broker.port, "t"))

    assert uvloop.run(scenario()).code == "0x10"
