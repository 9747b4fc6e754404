"""Reading a stream of JetStream: which consumers, that are there already, are used."""

import asyncio
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from distributary.core.clock import SystemClock
from distributary.core.errors import TransportError
from distributary.core.source import SourceSpec
from distributary.protocols.nats import source
from distributary.protocols.nats.source._stream import StreamReading


class Talk:
    """Has one consumer, with these settings; ends at the first wait for messages."""

    def __init__(self, settings):
        self._config = {"ack_policy": "explicit", **settings}

    def start(self, connection):
        """There is none."""

    def end(self):
        """Nothing was sent."""

    def new_inbox(self):
        return "_INBOX.x"

    async def ask(self, what, _body=None):
        assert what == "CONSUMER.INFO.ORDERS.mine"
        return {"config": self._config}

    def subscribe(self, subject, took):
        """Nothing comes."""

    def publish(self, subject, payload, reply):
        """The request for messages stays open."""

    async def wait(self, _longest_s):
        raise TransportError("closed", "it reads")


def said(place, **settings):
    """What a run of a source says that has such a consumer."""
    spec = SourceSpec("s", "NATS", "nats://h", place, options={"durable": "mine"})
    reading = StreamReading(
        Talk(settings),
        spec,
        "ORDERS",
        lambda _message: None,
        unsettled_max=10,
        clock=SystemClock(),
        reads=lambda _durable, _part: None,
    )
    with pytest.raises(TransportError) as error:
        asyncio.run(reading.read())
    return str(error.value)


@pytest.mark.parametrize(
    ("place", "filters"),
    [
        ("orders.>", []),
        ("orders.>", ["orders.>"]),
        ("orders.>", ["orders.eu.>"]),
        ("orders.>", ["orders.eu.>", "orders.us", "orders.*"]),
        ("orders.*.new", ["orders.eu.new"]),
        ("orders.*.new", ["orders.*.new"]),
        ("orders.*.>", ["orders.eu.>"]),
        (">", ["orders", "*.eu", ">"]),
    ],
)
def test_a_consumer_that_reads_the_subject_or_a_part_of_it_is_used(place, filters):
    """An operator has made it so."""
    assert "it reads" in said(place, filter_subjects=filters)
    if len(filters) == 1:
        assert "it reads" in said(place, filter_subject=filters[0])


@pytest.mark.parametrize(
    ("place", "filters"),
    [
        ("orders.b", ["orders.a"]),
        ("orders.a", ["orders.*"]),
        ("orders.a", ["orders.a.b"]),
        ("orders.a.b", ["orders.a"]),
        ("orders.*", ["orders.>"]),
        ("orders.*", ["orders"]),
        ("orders.>", ["orders"]),
        ("orders.*.>", ["orders.>"]),
        ("orders.>", ["orders.eu.>", "bills.>"]),
    ],
)
def test_a_consumer_that_reads_other_subjects_is_told(place, filters):
    """As after a change of the settings: it would bring what is not asked for."""
    told = f"reads {', '.join(filters)}: delete it, or set another durable to read {place}"
    assert told in said(place, filter_subjects=filters)
    if len(filters) == 1:
        assert told in said(place, filter_subject=filters[0])


def test_a_consumer_that_reads_a_part_is_told_of_once(monkeypatch):
    """As after the subject was widened; however often it connects, until it reads all of it."""
    settings = {}

    monkeypatch.setattr(source.transport, "connect", AsyncMock())
    monkeypatch.setattr(source, "Talk", lambda: Talk(settings))
    place = SourceSpec(
        "s", "NATS", "nats://h", "orders.>", options={"durable": "mine", "stream": "ORDERS"}
    )
    with capture_logs() as lines:
        consumer = source.make(place, None, SystemClock())
        for subject in ("orders.eu", "orders.eu", "orders.>", "", "orders.us"):
            settings["filter_subject"] = subject
            with pytest.raises(TransportError, match="it reads"):
                asyncio.run(consumer.run(lambda _message: None, 10))
    told = {"event": "source-reads-part", "log_level": "warning", "source": "s", "durable": "mine"}
    told["subject"] = "orders.>"
    assert lines == [{**told, "reads": "orders.eu"}, {**told, "reads": "orders.us"}]
