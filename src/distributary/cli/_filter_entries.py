"""Reads the events of a file one by one, without holding the file in memory.

Callers: ``_filter``. Hides: incremental reading of a JSON array. Other input (JSON lines, one
document) is read as by ``send``.
"""

import codecs
import json
from collections.abc import Iterator
from io import BufferedReader
from typing import Final

from distributary.cli._outgoing import CHUNK_BYTES, Unreadable, read_events
from distributary.core.errors import EventError, Fault
from distributary.core.event import Event, json_format

ELEMENT_CHARS_MAX: Final = 64 * 1024 * 1024
"""Longest element of an array: several times what a server accepts, and it fits into memory."""

_BLANK: Final = " \t\r\n"
_decoder = json.JSONDecoder()


def entries(file: BufferedReader) -> Iterator[tuple[int, Event | Unreadable]]:
    """Yield every event of *file* with its place, from 1: of its line, or of its array element.

    Yields ``Unreadable`` for an entry that is not an event, and continues. A damaged array ends
    there, since the start of its next element is unknown.
    """
    if _opens_array(file):
        yield from _elements(file)
        return
    place = 0
    for piece in read_events(file):
        for entry in piece:
            place = entry.place if isinstance(entry, Unreadable) else place + 1
            yield place, entry


def _opens_array(file: BufferedReader) -> bool:
    """Whether the first character that is not blank is a bracket; does not consume it."""
    while ahead := file.peek():
        rest = ahead.lstrip(_BLANK.encode())
        if rest:
            return rest.startswith(b"[")
        file.read(len(ahead))
    return False


def _elements(file: BufferedReader) -> Iterator[tuple[int, Event | Unreadable]]:
    text = _Text(file)
    place, separator = 1, "["
    while True:
        found = text.skip_blank()
        if found != separator:
            yield place, _damaged(f"expected {separator!r}, found {found or 'the end'!r}")
            return
        text.pass_one()
        if text.skip_blank() == "]" and place == 1:
            break
        element = text.take_element()
        if isinstance(element, Unreadable):
            yield place, element._replace(place=place)
            return
        yield place, _event(place, element)
        place, separator = place + 1, ","
        if text.skip_blank() == "]":
            break
    text.pass_one()
    if text.skip_blank():
        yield place, _damaged("something follows the array")


def _event(place: int, element: str) -> Event | Unreadable:
    try:
        return json_format.decode(element.encode("utf-8", "surrogateescape"))
    except EventError as error:
        return Unreadable(place, error.faults)


def _damaged(message: str) -> Unreadable:
    return Unreadable(0, (Fault("$", "json", message),))


class _Text:
    """The characters of a file from a position on, read as needed."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        # surrogateescape: bytes that are not UTF-8 reach the event's decoder, which refuses them
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._read = ""
        self._at = 0
        self._over = False

    def skip_blank(self) -> str:
        """Skip blanks and return the next character, without consuming it; empty at the end."""
        while True:
            while self._at < len(self._read):
                if self._read[self._at] not in _BLANK:
                    return self._read[self._at]
                self._at += 1
            if not self._read_on(CHUNK_BYTES):
                return ""

    def pass_one(self) -> None:
        """Consume one character."""
        self._at += 1

    def take_element(self) -> str | Unreadable:
        """Consume the JSON value that begins here, and return its text."""
        while True:
            try:
                end = _decoder.raw_decode(self._read, self._at)[1]
            except json.JSONDecodeError as error:
                length = len(self._read) - self._at
                if length > ELEMENT_CHARS_MAX:
                    return _damaged(f"an element of more than {ELEMENT_CHARS_MAX:,} characters")
                # Doubling keeps repeated scans a fraction of the whole.
                if not self._read_on(max(CHUNK_BYTES, length)):
                    return _damaged(
                        f"no whole JSON value: {error.msg.removesuffix(' starting at')}"
                    )
            except RecursionError:
                return _damaged("it nests too deep")
            else:
                found = self._read[self._at : end]
                self._at = end
                return found

    def _read_on(self, byte_count: int) -> bool:
        """Read more, and drop what was consumed; False at the end."""
        if self._over:
            return False
        chunk = self._file.read1(byte_count)
        self._over = not chunk
        self._read = self._read[self._at :] + self._decode(chunk, self._over)
        self._at = 0
        return True
