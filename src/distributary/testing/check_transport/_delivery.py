"""Checks of deliveries that go well."""

import itertools
from collections import Counter
from typing import Final

from distributary.core.event import Event, canonical
from distributary.core.policy import delivered
from distributary.testing.binary_form import in_binary_form
from distributary.testing.check_transport._rig import (
    MANY,
    TIMEOUT_S,
    Answers,
    Behaviour,
    Format,
    Make,
    Rig,
    accepting,
    an_event,
    arrived,
    numbers,
    one,
)

BIG_BYTES: Final = 1024 * 1024
"""The largest event that is accepted by default."""

WINDOWS_FULL: Final = 3_000
"""Attempts at once, where they share a connection: more than most windows hold."""

LONG_CHARS: Final = 4_000
"""Characters of a long attribute: more than a line of most protocols, less than every limit."""


async def delivers_an_event_once_and_unchanged(make: Make) -> None:
    """An accepted event arrives once, with the same attributes and data."""
    async with make() as rig:
        answer = await one(rig, Behaviour.ACCEPT)
        assert answer is not None
        assert delivered(answer), answer
        assert await arrived(rig, 1) == [an_event()]


async def delivers_the_next_event_as_well(make: Make) -> None:
    """Successive attempts succeed, with whatever connection is kept between them."""
    async with make() as rig:
        for _ in range(3):
            answer = await one(rig, Behaviour.ACCEPT)
            assert answer is not None
            assert delivered(answer), answer
        assert len(await arrived(rig, 3)) == 3


async def delivers_many_at_once(make: Make) -> None:
    """Concurrent attempts are each answered, and none is lost or duplicated."""
    async with make() as rig:
        came = await _send_all(rig, MANY)
        assert sorted(came) == list(range(MANY))


async def keeps_the_order_of_one_connection(make: Make) -> None:
    """Events on one connection arrive in the order of sending, without waits between."""
    async with make() as rig:
        if not rig.ordered:
            return
        came = await _send_all(rig, MANY)
        _in_order(came, MANY)


async def delivers_more_than_the_window_holds(make: Make) -> None:
    """Events beyond the window wait; none is lost, duplicated or overtaken."""
    async with make() as rig:
        if not rig.ordered:
            return  # no connection that they share, and so no window
        came = await _send_all(rig, WINDOWS_FULL)
        _in_order(came, WINDOWS_FULL)


def _in_order(came: list[int], count: int) -> None:
    missing = sorted(set(range(count)) - set(came))
    doubled = sorted(number for number, times in Counter(came).items() if times > 1)
    late = [after for before, after in itertools.pairwise(came) if after < before]
    assert came == list(range(count)), (
        f"{len(missing)} missing from {missing[:1]} on, {len(doubled)} twice from {doubled[:1]}, "
        f"{len(late)} late from {late[:1]} on"
    )


async def _send_all(rig: Rig, count: int) -> list[int]:
    """Send *count* events at once; returns the numbers that arrived, in order."""
    destination = accepting(rig)
    answers = Answers()
    for number in range(count):
        answers.send(rig, an_event(number), destination, 2 * TIMEOUT_S)
    for answer in await answers.wait(3 * TIMEOUT_S):
        assert delivered(answer), answer
    return numbers(await arrived(rig, count))


async def delivers_a_big_body(make: Make) -> None:
    """The largest event arrives byte for byte, as does one that is still its record."""
    data = b'"' + bytes(range(0x61, 0x7B)) * (BIG_BYTES // 26) + b'"'
    event = an_event(data=data)
    async with make() as rig:
        came = await _sent(rig, [event, in_binary_form(event)])
        assert [event.data for event in came] == [data, data]


async def delivers_an_event_without_data(make: Make) -> None:
    """An event without data arrives without data."""
    event = Event({"specversion": "1.0", "id": "1", "source": "/check", "type": "t"}, None)
    async with make() as rig:
        assert await _sent(rig, [event]) == [event]


async def round_trips_events_in_every_format(make: Make) -> None:
    """Attribute types, non-ASCII text, long values and any data survive each mode."""
    async with make() as rig:
        formats = tuple(rig.formats)
    for format_ in formats:
        async with make() as rig:
            samples = [*_samples(), _as_stored()]
            came = {event.attributes["id"]: event for event in await _sent(rig, samples, format_)}
            for event in samples:
                other = came[event.attributes["id"]]
                assert _comparable(other, format_) == _comparable(event, format_)


async def _sent(rig: Rig, events: list[Event], format_: Format | None = None) -> list[Event]:
    """Returns the events at the far side after each of *events* was acknowledged."""
    answers = Answers()
    for event in events:
        answers.send(rig, event, accepting(rig, format_), 2 * TIMEOUT_S)
    for event, answer in zip(events, await answers.wait(), strict=True):
        assert delivered(answer), (event, answer)
    return await arrived(rig, len(events))


def _samples() -> list[Event]:
    """One event for each way in which events differ on a wire."""
    text = 'ASCII, é, ✓, 𝄞, "quotes", 100 % %41 and \\ backslash'
    return [
        _sample("true", None, flag=True),
        _sample("false", None, flag=False),
        _sample("smallest", None, number=-(2**31)),
        _sample("largest", None, number=2**31 - 1),
        _sample("zero", None, number=0),
        _sample("digits", None, text="0042"),
        _sample("text", text.encode(), datacontenttype="text/plain", subject=text, other=text),
        _sample("long", None, text="x" * LONG_CHARS, subject="é" * (LONG_CHARS // 4)),
        _sample("json", b'{"a" : 1.50, "b": "\xc3\xa9"}', datacontenttype="application/json"),
        _sample("object", b"[1, 2]", datacontenttype="application/vnd.example+json; v=1"),
        _sample("binary", bytes(range(256)) * 8, datacontenttype="application/octet-stream"),
        _sample("lines", b"\r\n\r\n\x00+OK\r\n", datacontenttype="application/octet-stream"),
        _sample("empty", b"", datacontenttype="application/octet-stream"),
        _sample(
            "everything",
            b"<x/>",
            datacontenttype="application/xml",
            dataschema="https://schemas.example/x?a=1&b=2",
            subject="s",
            time="2026-02-03T04:05:06.789012Z",
        ),
    ]


def _as_stored() -> Event:
    """One event that parses its attributes on demand, as readers of the log get most."""
    return in_binary_form(_sample("stored", b"\xc3\xa9", subject='100 % "é"', other="x"))


def _sample(name: str, data: bytes | None, **attributes: str | int | bool) -> Event:
    return Event(
        {
            "specversion": "1.0",
            "id": f"sample {name}",
            "source": "/check?of=formats",
            "type": "com.example.check",
            **attributes,
        },
        data,
    )


def _comparable(event: Event, format_: Format) -> tuple[object, ...]:
    """Returns the parts of *event* that must be equal at both ends.

    Structured mode keeps types, and tells no data from empty data. In binary mode most protocols
    carry attributes as text, and an empty message is what an event without data looks like.
    """
    if format_ == "structured":
        typed = {name: (type(value), value) for name, value in event.attributes.items()}
        return typed, event.data
    return {name: canonical(value) for name, value in event.attributes.items()}, event.data or None


CHECKS: Final = (
    delivers_an_event_once_and_unchanged,
    delivers_the_next_event_as_well,
    delivers_many_at_once,
    keeps_the_order_of_one_connection,
    delivers_more_than_the_window_holds,
    delivers_a_big_body,
    delivers_an_event_without_data,
    round_trips_events_in_every_format,
)
