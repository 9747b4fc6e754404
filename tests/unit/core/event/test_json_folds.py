"""What a reader by recursion, or a strict one, could not take: deep data, half of a pair."""

import pytest

from distributary.core.errors import EventError
from distributary.core.event import json_format

CORE = '"specversion":"1.0","id":"1","source":"/s","type":"t"'


def document(*members: str) -> bytes:
    """A structured event: the core attributes and *members*, as they are written."""
    return ("{" + ",".join([CORE, *members]) + "}").encode()


def faults_of(body: bytes, decode=json_format.decode) -> list[tuple[str, str]]:
    """What is wrong with *body*: (path, code), in the order reported."""
    with pytest.raises(EventError) as caught:
        decode(body)
    return [(fault.path, fault.code) for fault in caught.value.faults]


def nested(depth: int) -> str:
    """An array of that many levels."""
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [62, 63, 64, 65, 200, 10_000])
def test_data_may_nest_as_deeply_as_they_like(depth):
    """They are carried as they stand, as in binary mode; brackets in strings do not count."""
    data = nested(depth).replace("[]", '[ {"a\\"]" : [1e5,"\\ud83d\\ude00[",null]} ]')
    body = document(f'"data":{data}', f'"x":"{"[" * 200}"')

    event = json_format.decode(body)

    assert event.data == data.encode()
    assert json_format.decode_batch(b"[" + body + b"]") == [event]
    assert json_format.decode(json_format.encode(event)) == event


@pytest.mark.parametrize(
    "inner", ["1 2", "1,", ",1", '{"a"}', '{"a":}', '{"a":1,}', "{1:2}", "[}", "01", "tru", '"\n"']
)
def test_deep_data_are_json_all_the_same(inner):
    """Their grammar is checked to the bottom."""
    assert faults_of(document(f'"data":{"[" * 100}{inner}{"]" * 100}')) == [("$", "syntax")]


@pytest.mark.parametrize("cut", [1, -1])
def test_brackets_of_deep_data_are_in_pairs(cut):
    """One missing, or one too many."""
    assert faults_of(document(f'"data":{"[" * 100}{"]" * (100 + cut)}')) == [("$", "syntax")]


def test_only_data_may_nest_deeply():
    """An attribute is no array, however deep."""
    assert faults_of(document(f'"x":{nested(100)}')) == [("$.x", "type")]


def test_deep_data_have_a_size():
    """They are looked at piece by piece, and others wait meanwhile; binary mode has no limit."""
    many = "0," * 60_000
    assert faults_of(document(f'"data":{"[" * 100}{many}0{"]" * 100}')) == [("$", "depth")]


HALF = r"cut \ud83d"


@pytest.mark.parametrize(
    ("member", "place"),
    [
        ('"data":{"t":"cut \\ud83d"}', "data"),
        ('"data":"\\ude00\\ud83d\\ude00"', "data"),
        ('"data":["\\uE000\\ud83dx"]', "data"),
        ('"subject":"\\ud83d\\u0041"', "subject"),
    ],
)
def test_half_of_a_surrogate_pair_is_a_fault_that_says_where(member, place):
    """Scripts that cut texts make them; the event of a batch is named, and so are other faults."""
    with pytest.raises(EventError) as caught:
        json_format.decode(document(member))
    (fault,) = caught.value.faults
    assert (fault.path, fault.code) == (f"$.{place}", "character")
    assert "half of a surrogate pair" in fault.message
    batch = b",".join([document(), document(member), document('"time":"x"')])
    assert faults_of(b"[" + batch + b"]", json_format.decode_batch) == [
        (f"$[1].{place}", "character"),
        ("$[2].time", "time"),
    ]


def test_whole_pairs_and_escaped_backslashes_are_no_halves():
    """Neither is a fault."""
    data = r'"\\ud83d \ud83d\ude00 \\\ud83d\ude00"'
    assert json_format.decode(document(f'"data":{data}')).data == data.encode()


@pytest.mark.parametrize("decode", [json_format.decode, json_format.decode_batch])
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 10_000,
        b'{"data":' * 10_000,
        document(f'"x":{nested(10_000)}'),
        document('"data":' + '{"a":' * 10_000 + "1" + "}" * 9_999),
        b'{"data":"' + b"\\" * 9_999 + b"[" * 100,
    ],
)
def test_ten_thousand_levels_are_a_fault(decode, body):
    """Deep nesting never reaches a recursive reader."""
    assert faults_of(body, decode)[0][0] in {"$", "$.x"}
