"""Packets as the standard has them, and as paho reads and writes them."""

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from distributary.protocols.mqtt.engine import MqttLogin, PacketError, Version, connect, target
from distributary.protocols.mqtt.engine import _packets as packets
from distributary.protocols.mqtt.engine._properties import PROPERTIES_MAX, PropertyReader, variable


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (16_383, b"\xff\x7f"),
        (16_384, b"\x80\x80\x01"),
        (2_097_151, b"\xff\xff\x7f"),
        (2_097_152, b"\x80\x80\x80\x01"),
        (268_435_455, b"\xff\xff\xff\x7f"),
    ],
)
def test_variable_byte_integers_are_those_of_the_standard(value, raw):
    """Section 1.5.5, table 1-1."""
    assert variable(value) == raw
    assert PropertyReader(raw).variable() == value
    frame = packets.frame(b"\x30" + raw, 0)
    assert (frame.start, frame.end) == (1 + len(raw), 1 + len(raw) + value)


@pytest.mark.parametrize("count", range(4))
def test_a_length_that_is_not_all_there_waits(count):
    """The next bytes of the network bring the rest."""
    assert packets.frame(b"\x30\xff\xff\xff\x7f"[: count + 1], 0) is None


def test_a_login_says_its_properties():
    """Read by paho."""
    login = MqttLogin(Version.V5, "me", "u", "p", clean=False, session_s=60, receive_max=7)
    packet = connect(login)
    properties, _ = PahoProperties(PacketTypes.CONNECT).unpack(packet[12:])
    assert properties.SessionExpiryInterval == 60
    assert properties.ReceiveMaximum == 7
    assert packet.endswith(b"\x00\x02me\x00\x01u\x00\x01p")
    assert packet[9] == 0xC0  # not clean


def test_a_login_does_not_show_its_password():
    """It must not end up in a log."""
    assert "hidden" not in repr(MqttLogin(Version.V5, "me", "u", "hidden"))


@pytest.mark.parametrize("text", ["a\0b", "x" * 65_536, "\ud800"], ids=["nul", "long", "surrogate"])
def test_what_no_string_can_hold_is_refused(text):
    """Before anything is sent."""
    for login in (MqttLogin(Version.V5, text), MqttLogin(Version.V5, "me", text)):
        with pytest.raises(ValueError):
            connect(login)
    with pytest.raises(ValueError):
        target(text, 1, retain=False, expiry_s=None, user=())
    with pytest.raises(ValueError):
        target("t", 1, retain=False, expiry_s=None, user=(("a", text),))


def test_properties_that_paho_writes_are_read():
    """All that a broker may say at the login."""
    written = PahoProperties(PacketTypes.CONNACK)
    written.SessionExpiryInterval = 5
    written.ReceiveMaximum = 10
    written.MaximumQoS = 1
    written.RetainAvailable = 0
    written.UserProperty = [("a", "1"), ("a", "2")]
    written.MaximumPacketSize = 1_000
    written.AssignedClientIdentifier = "x"
    written.TopicAliasMaximum = 3
    written.ReasonString = "because"
    written.WildcardSubscriptionAvailable = 1
    written.SubscriptionIdentifierAvailable = 1
    written.SharedSubscriptionAvailable = 1
    written.ServerKeepAlive = 9
    written.ResponseInformation = "r"
    written.ServerReference = "s"
    written.AuthenticationMethod = "m"
    written.AuthenticationData = b"d"
    connack = packets.read_connack(Version.V5, b"\x01\x00" + written.pack())
    assert connack.session_present
    assert connack.properties.user == [("a", "1"), ("a", "2")]
    assert connack.properties.texts[0x1F] == "because"
    numbers = connack.properties.numbers
    assert [numbers[key] for key in (0x11, 0x21, 0x24, 0x25, 0x27, 0x13)] == [5, 10, 1, 0, 1000, 9]


@pytest.mark.parametrize(
    "block",
    [
        b"\x04\x24\x01\x24\x01",
        b"\x01\x24",
        b"\x02\x7f\x00",
        b"\x03\x21\x00\x00",
        b"\x04\x1f\x00\x01\xff",
        b"\x04\x1f\x00\x01\x00",
        b"\x04\x1f\x00\x02a",
        b"\x09\x00",
        b"\xff\xff\xff\xff\x01",
    ],
    ids=[
        "twice",
        "cut-off",
        "unknown",
        "zero",
        "not-utf-8",
        "nul",
        "string-cut-off",
        "block-cut-off",
        "endless",
    ],
)
def test_properties_that_break_the_standard_are_refused(block):
    """Section 2.2.2 and 1.5.4."""
    with pytest.raises(PacketError):
        packets.read_connack(Version.V5, b"\x00\x00" + block)


@pytest.mark.parametrize(
    "block",
    [
        b"\x04\x1f\x00\x01\xff",
        b"\x05\x26\x00\x00\x00\x01",
        b"\x02\x7f\x00",
        b"\x09\x00",
        variable(5 * 1_025) + b"\x26\x00\x00\x00\x00" * 1_025,
    ],
    ids=["not-utf-8", "user-cut-off", "unknown", "block-cut-off", "too-many"],
)
def test_a_message_whose_properties_cannot_be_read_can_be_acknowledged(block):
    """Its publisher wrote them, and it would come again on every connection that it ends."""
    publication = packets.read_publication(Version.V5, 0x32, b"\x00\x01t\x00\x05" + block)
    assert (publication.packet_id, publication.payload) == (5, None)
    assert publication.fault.code == "malformed"


def test_a_topic_that_is_not_utf_8_is_shown_as_far_as_it_goes():
    """It is for people alone."""
    assert packets.read_publication(Version.V3, 0x30, b"\x00\x02a\xffx").topic == "a\ufffd"


def test_as_many_properties_are_read_as_an_event_can_need():
    """And far more; not as many as fit into a packet."""
    block = b"\x26\x00\x01a\x00\x00" * PROPERTIES_MAX
    assert len(PropertyReader(variable(len(block)) + block).properties().user) == PROPERTIES_MAX
    block += b"\x26\x00\x01a\x00\x00"
    with pytest.raises(PacketError):
        PropertyReader(variable(len(block)) + block).properties()


def test_retained_messages_are_wanted_of_new_subscriptions_alone():
    """Retain Handling 1 (3.8.3.1): not again with each connection. MQTT 3 has the QoS alone."""
    assert packets.subscribe(Version.V5, 1, "t", 2) == b"\x82\x07\x00\x01\x00\x00\x01t\x12"
    assert packets.subscribe(Version.V3, 1, "t", 2) == b"\x82\x06\x00\x01\x00\x01t\x02"


def test_the_words_of_a_broker_are_cut():
    """They may have 65,535 bytes, and end in logs."""
    raw = b"\x00\x01\x97" + variable(3 + 60_000) + b"\x1f\xea\x60" + b"x" * 60_000
    assert packets.read_acknowledgement(Version.V5, raw) == (1, 0x97, "x" * 256)


def test_a_message_without_an_identifier_is_refused():
    """Section 2.2.1: it must not be 0."""
    with pytest.raises(PacketError):
        packets.read_publication(Version.V3, 0x32, b"\x00\x01t\x00\x00")
