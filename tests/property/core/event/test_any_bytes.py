"""The promise of the decoders: any bytes give events or an EventError, nothing else."""

import contextlib
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.errors import EventError
from distributary.core.event import Event, json_format, record, validate
from distributary.protocols.http import binding as http

no_deadline = settings(deadline=None)
"""How long an example takes depends on the machine, and says nothing here."""

SEEDS = [
    Event(
        {
            "specversion": version,
            "id": "1",
            "source": "/s",
            "type": "t",
            "time": "2018-04-05T17:31:00Z",
            "datacontenttype": content_type,
            "n": -5,
            "flag": True,
            "text": "grüße %41",
        },
        data,
    )
    for version in ("1.0", "0.3")
    for content_type, data in [
        ("application/json", b'{"a":[1.5,"\\u00fc\\"",{"b":null}]}'),
        ("text/plain; charset=utf-8", "grüße".encode()),
        ("image/png", b"\x00\xff"),
    ]
]

TOKENS = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"1e999", b"\\ud800", b"\xff"]
TOKENS += [b"%", b"%C0%A0", b"\n", b"\x00", b"ce-", b'"data":', b'"data_base64":', b"[" * 100]


def check(decode, *arguments) -> bool:
    """Runs a decoder; returns whether it accepted, and checks what it accepted."""
    try:
        events = decode(*arguments)
    except EventError as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert all(fault.path.isprintable() for fault in refusal.faults)
        return False
    for event in [events] if isinstance(events, Event) else events:
        assert validate(event.attributes) == []
        http.encode_binary(event)
        json_format.encode(event)
        record.encode([event])
    return True


@no_deadline
@given(st.binary(max_size=200))
def test_any_bytes_as_json(body):
    """Random bytes are refused in order."""
    check(json_format.decode, body)
    check(json_format.decode_batch, body)


@no_deadline
@given(st.binary(max_size=200))
def test_any_bytes_as_a_record(body):
    """A record decoder meets damaged disks; attributes are not judged there."""
    for start in (b"", b"\x01", b"\x01\x91\x92"):
        with contextlib.suppress(EventError):
            assert all(isinstance(event, Event) for event in record.decode(start + body))


field_names = st.one_of(
    st.sampled_from([b"ce-id", b"ce-source", b"ce-type", b"ce-specversion", b"content-type"]),
    st.binary(max_size=6).map(lambda rest: b"ce-" + rest),
    st.binary(max_size=8),
)
field_values = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([b"1.0", b"0.3", b"application/cloudevents+json", b"%C0%A0", b'"x', b"/"]),
)


@no_deadline
@given(st.lists(st.tuples(field_names, field_values), max_size=8), st.binary(max_size=50))
def test_any_headers(headers, body):
    """Random headers, with names and values that mean something among them."""
    check(http.decode, headers, body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.slow
@no_deadline
@given(st.dictionaries(st.sampled_from(["id", "type", "data", "data_base64", "x"]), json_values))
def test_any_json_members(members):
    """Well-formed JSON of the wrong types is refused as well."""
    required = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    check(json_format.decode, json.dumps(required | members).encode())


def mutate(chance: random.Random, text: bytes) -> bytes:
    """*text* with one to four small changes."""
    changed = bytearray(text)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                changed[at:at] = chance.choice(TOKENS)
            case 2:
                del changed[at : at + chance.randint(1, 8)]
            case 3:
                changed[at:at] = changed[at : at + chance.randint(1, 30)]
            case _:
                del changed[at:]
    return bytes(changed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_mutated_messages(seed):
    """A hundred thousand damaged messages in all modes: some pass, most do not, none surprise."""
    chance = random.Random(seed)
    accepted = refused = 0
    for _ in range(4_000):
        event = chance.choice(SEEDS)
        block, body = http.encode_binary(event)
        lines = mutate(chance, block).split(b"\r\n")
        headers = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
        stored = mutate(chance, record.encode([event]))
        try:
            record.decode(stored)
        except EventError:
            refused += 1
        for outcome in (
            check(http.decode, headers, body),
            check(json_format.decode, mutate(chance, json_format.encode(event))),
            check(json_format.decode_batch, mutate(chance, json_format.encode_batch([event] * 2))),
            check(
                http.decode,
                [(b"content-type", b"application/cloudevents+json")],
                mutate(chance, json_format.encode(event)),
            ),
        ):
            accepted += outcome
            refused += not outcome

    assert accepted > 100
    assert refused > 1_000
