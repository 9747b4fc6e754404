"""Reads of a pipe that say nothing, and that somebody ends."""

import io
import os
import threading
from pathlib import Path

import pytest

from distributary.cli._stoppable import StoppableReads


@pytest.fixture
def reads():
    """Leaves no descriptor open."""
    with StoppableReads() as made:
        yield made


@pytest.fixture
def pipe():
    """Both ends, as files."""
    out, into = os.pipe()
    with os.fdopen(out, "rb") as reader, os.fdopen(into, "wb", buffering=0) as writer:
        yield reader, writer


def test_what_comes_is_read_as_it_comes_until_the_end(reads, pipe) -> None:
    """As from the pipe itself."""
    reader, writer = pipe
    file = reads.of(reader)
    writer.write(b"one\ntwo")
    assert file.readline() == b"one\n"
    writer.write(b"\nthree")
    writer.close()
    assert file.read() == b"two\nthree"
    assert file.read() == b""


def test_a_read_that_waits_comes_to_its_end(reads, pipe) -> None:
    """Another thread reads; the pipe is open still, and its owner's."""
    reader, writer = pipe
    file = reads.of(reader)
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(file.readline()), daemon=True)
    thread.start()
    reads.stop()
    thread.join(10)
    assert found == [b""]
    reads.stop()
    assert file.read() == b""
    writer.write(b"x")
    assert os.read(reader.fileno(), 1) == b"x"


def test_a_file_that_answers_by_itself_is_read_as_it_is(reads, tmp_path: Path) -> None:
    """On a disk, or in memory."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"{}")
    memory = io.BytesIO()
    with path.open("rb") as file:
        assert reads.of(file) is file
    assert reads.of(memory) is memory
