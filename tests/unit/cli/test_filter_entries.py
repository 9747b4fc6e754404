"""Events of a file, one after the other, however large it is."""

import io
import json
import tracemalloc
from collections.abc import Iterator

import pytest

from distributary.cli import _filter_entries
from distributary.cli._outgoing import Unreadable


class Trickle(io.RawIOBase):
    """A file that gives a few bytes at a time."""

    def __init__(self, content: bytes, step: int) -> None:
        super().__init__()
        self._content = content
        self._step = step

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        piece = self._content[: min(self._step, len(buffer))]
        self._content = self._content[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)


def _event(id_: str, **more: object) -> dict[str, object]:
    return {"specversion": "1.0", "id": id_, "source": "/s", "type": "t", **more}


def _read(content: str | bytes, step: int = 1 << 20) -> list[tuple[int, str]]:
    """Place, and id or code of the first fault."""
    raw = content if isinstance(content, bytes) else content.encode()
    found = _filter_entries.entries(io.BufferedReader(Trickle(raw, step)))
    return [
        (place, entry.faults[0].code if isinstance(entry, Unreadable) else entry.attributes["id"])
        for place, entry in found
    ]


@pytest.mark.parametrize("step", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps([_event(str(n), subject="ä]},\"'") for n in range(4)], ensure_ascii=False),
        json.dumps([_event(str(n)) for n in range(4)], indent=2),
        "\n \n" + json.dumps([_event(str(n)) for n in range(4)]) + "\n\n",
        "\n".join(json.dumps(_event(str(n))) for n in range(4)),
    ],
    ids=["array", "indented array", "blank around", "lines"],
)
def test_arrays_and_lines_are_read_however_they_come(text: str, step: int) -> None:
    """Every event with its place, from 1."""
    assert _read(text, step) == [(n + 1, str(n)) for n in range(4)]


def test_an_element_that_is_no_event_is_passed_over() -> None:
    """The next one follows."""
    text = json.dumps([_event("1"), 7, "x", {"id": "2"}, _event("3")])
    assert _read(text) == [(1, "1"), (2, "type"), (3, "type"), (4, "missing"), (5, "3")]


@pytest.mark.parametrize(
    "text",
    ["[", "[{", '[{"id": "1"', "[1 2]", "[,]", "[1,]", "[1]]", "[1] x", "[" * 100_000, "[nope]"],
    ids=lambda text: text[:12],
)
def test_a_damaged_array_ends_with_a_fault(text: str) -> None:
    """Nobody knows where it goes on, so nothing follows; and nothing is passed in silence."""
    assert _read(text)[-1][1] in {"json", "type"}
    assert "json" in {code for _, code in _read(text)}


def test_bytes_that_are_no_utf_8_are_a_fault_of_their_element() -> None:
    """The others are events."""
    good, bad = json.dumps(_event("1")).encode(), json.dumps(_event("2")).encode()
    text = b"[" + good + b"," + bad.replace(b'"2"', b'"\xff"') + b"," + good + b"]"
    places = _read(text, 3)
    assert [place for place, _ in places] == [1, 2, 3]
    assert (places[0][1], places[2][1]) == ("1", "1")
    assert places[1][1] not in {"1", "2"}


@pytest.mark.parametrize("text", ["", " \n\n", "[]", " [ ] "])
def test_nothing_is_no_event(text: str) -> None:
    """And no fault."""
    assert _read(text) == []


def test_an_element_beyond_the_limit_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read into memory to its end."""
    monkeypatch.setattr(_filter_entries, "ELEMENT_CHARS_MAX", 200_000)
    assert _read('["' + "x" * 1_000_000) == [(1, "json")]


class Endless(io.RawIOBase):
    """An array of events without end."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces = self._make()

    def _make(self) -> Iterator[bytes]:
        yield b"["
        while True:
            yield json.dumps(_event("1", data="x" * 2_000)).encode() + b","

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        piece = next(self._pieces)
        buffer[: len(piece)] = piece
        return len(piece)


def test_memory_is_bounded() -> None:
    """What was read is forgotten: three megabytes of events need less than one."""
    found = _filter_entries.entries(io.BufferedReader(Endless()))
    next(found)
    tracemalloc.start()
    for _ in range(1_500):
        next(found)
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert highest < 1_000_000
