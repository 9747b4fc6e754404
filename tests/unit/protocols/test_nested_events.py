"""An event whose data are an event arrives as itself, by every protocol.

Receivers choose the mode by the content type, so in binary mode they would take the data for the
event: one that no filter and no policy has seen.
"""

import json
from collections.abc import Callable

import pytest

from distributary.core.event import Event
from distributary.protocols.amqp import binding as amqp
from distributary.protocols.amqp.engine import decode_message
from distributary.protocols.http import binding as http
from distributary.protocols.kafka import binding as kafka
from distributary.protocols.mqtt import binding as mqtt
from distributary.protocols.mqtt.engine._properties import CONTENT_TYPE, PropertyReader, variable
from distributary.protocols.nats import binding as nats

INNER = {"specversion": "1.0", "id": "9", "source": "/admin", "type": "secret.order"}


def _by_http(event: Event) -> list[Event]:
    fields, body = http.encode_binary(event)
    pairs = [line.split(b": ", 1) for line in fields.split(b"\r\n")[:-1]]
    return http.decode([(name, value) for name, value in pairs], body)


def _by_kafka(event: Event) -> list[Event]:
    headers, value = kafka.encode_binary(event)
    return [kafka.decode(headers, value)]


def _by_amqp(event: Event) -> list[Event]:
    return [amqp.decode(decode_message(amqp.encode_binary(event)))]


def _by_mqtt(event: Event) -> list[Event]:
    block, payload = mqtt.encode_binary(event)
    properties = PropertyReader(variable(len(block)) + block).properties()
    return [mqtt.decode(properties.texts.get(CONTENT_TYPE), properties.user, payload)]


def _by_nats(event: Event) -> list[Event]:
    lines, payload = nats.encode_binary(event)
    return [nats.decode(nats.VERSION_LINE + lines + b"\r\n", payload)]


@pytest.mark.parametrize("way", [_by_http, _by_kafka, _by_amqp, _by_mqtt, _by_nats])
@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("application/cloudevents+json", INNER),
        ("Application/CloudEvents+JSON; charset=utf-8", INNER),
        ("application/cloudevents-batch+json", [INNER, INNER]),
        ("application/cloudevents+avro", "x"),
    ],
)
def test_an_event_in_an_event_stays_there(
    way: Callable[[Event], list[Event]], content_type: str, data: object
) -> None:
    """Attributes are those that filters have seen; the data are as they were."""
    outer = {"specversion": "1.0", "id": "1", "source": "/a", "type": "harmless"}
    content = json.dumps(data, separators=(",", ":")).encode()
    event = Event(outer | {"datacontenttype": content_type}, content)

    (found,) = way(event)

    assert {name: found.attributes[name] for name in outer} == outer
    assert json.loads(found.data or b"") == data
