"""The index of event ids changes no answer: whatever happens to its files, a search finds all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import Logged, RecordKind, encode_addressed, events_of
from distributary.core.log import Appender, Reader, open_folder, partition_dir, retain
from distributary.core.log.finder import Budget, FileLog, Finder, Question, needle
from distributary.core.log.frame import HEADER_BYTES, iter_kind
from distributary.core.log.indexed import Index
from distributary.core.log.indexer import Indexer
from distributary.testing.binary_form import in_binary_form
from distributary.testing.virtual import VirtualClock

IDS = ("a", "b", "order-17", "ä b%", "\N{SNOWMAN}", "order-18")
SEGMENT_BYTES = 8192
PIECE_BYTES = 1500

_STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.sampled_from(IDS), min_size=1, max_size=3)),
    st.tuples(st.just("binary"), st.sampled_from(IDS)),
    st.tuples(st.just("index"), st.integers(1, 12)),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(st.just("damage"), st.tuples(st.integers(0, 99), st.integers(0, 9_999))),
    st.tuples(st.just("delete"), st.integers(0, 99)),
    st.tuples(st.just("retain"), st.none()),
)


class _Rig:
    """A log of one partition, and its index."""

    def __init__(self, folder: Path) -> None:
        self.log, self.index = folder / "log", folder / "index"
        self.clock = VirtualClock()
        open_folder(self.log, 1)
        self.appender = Appender.open(
            self.log, 0, clock=self.clock, segment_bytes=SEGMENT_BYTES, make_stamp=lambda: 77
        )
        self.indexer: Indexer | None = None
        self.number = 0

    def close(self) -> None:
        if self.indexer is not None:
            self.indexer.close()
        self.appender.close()

    def step(self, name: str, value: Any) -> None:
        getattr(self, name)(value)

    def append(self, ids: list[str]) -> None:
        self.number += 1
        events = [_event(id_, self.number) for id_ in ids]
        body = event_record.encode(events)
        if self.number % 2:
            self.appender.append([(RecordKind.EVENTS, body)])
        else:
            whole = encode_addressed("uid", (7,) * len(events), body)
            self.appender.append([(RecordKind.ADDRESSED, whole)])

    def binary(self, id_: str) -> None:

        self.appender.append([(RecordKind.EVENTS, in_binary_form(_event(id_, 1)).record)])

    def index_(self, turns: int) -> None:
        if self.indexer is None:
            self.indexer = Indexer(self.log, 0, self.index, piece_bytes=PIECE_BYTES)
        for _ in range(turns):
            self.indexer.turn(self.clock.wall_ms())

    def reopen(self, _value: None) -> None:
        if self.indexer is not None:
            self.indexer.close()
            self.indexer = None

    def damage(self, where: tuple[int, int]) -> None:
        files = self.files()
        if files:
            path = files[where[0] % len(files)]
            content = bytearray(path.read_bytes())
            content[where[1] % len(content)] ^= 0xFF
            path.write_bytes(content if where[0] % 3 else content[: where[1] % len(content)])
            self.reopen(None)

    def delete(self, which: int) -> None:
        files = self.files()
        if files:
            files[which % len(files)].unlink()

    def retain(self, _value: None) -> None:
        with_end = Reader(self.log, 0)
        end = with_end.durable_end()
        with_end.close()
        retain(
            partition_dir(self.log, 0),
            end,
            bytes_max=2 * SEGMENT_BYTES,
            age_max_s=1e9,
            now_ms=self.clock.wall_ms(),
            snapshot_at_cut=lambda _cut: b"",
        )

    def files(self) -> list[Path]:
        return sorted(self.index.glob("*.ids")) if self.index.exists() else []

    def records(self) -> list[Logged]:
        reader = Reader(self.log, 0)
        found = list(reader.read(0, reader.durable_end()))
        reader.close()
        return found


def _event(id_: str, number: int) -> Event:
    padding = "x" * (number * 37 % 400)
    return Event(
        {"specversion": "1.0", "id": id_, "source": "/s", "type": "t", "padding": padding or "p"},
        None,
    )


def _has(logged: Logged, id_: str) -> bool:
    found = events_of(logged)
    return found is not None and any(event.text("id") == id_ for event in found.events)


def _found(rig: _Rig, index: Index, id_: str, *, by_id: bool) -> Iterator[int]:
    needles = tuple(filter(None, [needle(id_)]))
    question = Question(id_ if by_id else None, needles, lambda logged: _has(logged, id_))
    finder = Finder(FileLog(rig.log, [index]), 0, question)
    before = finder.before
    try:
        while not finder.done:
            for logged in finder.step(Budget(10_000, 1 << 30)):
                yield logged.offset
            assert finder.before <= before
            before = finder.before
    finally:
        finder.close()


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(_STEPS, max_size=60))
def test_a_search_by_the_index_finds_what_reading_everything_finds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    """Each record with the id, the newest first, none twice: with any files of the index."""
    rig = _Rig(tmp_path_factory.mktemp("log"))
    index = Index(rig.index)
    try:
        for name, value in steps:
            rig.step("index_" if name == "index" else name, value)
        records = rig.records()
        for id_ in IDS:
            expected = [logged.offset for logged in reversed(records) if _has(logged, id_)]
            assert list(_found(rig, index, id_, by_id=True)) == expected
            assert list(_found(rig, index, id_, by_id=False)) == expected
    finally:
        rig.close()


def test_a_damaged_header_hides_no_other_event(tmp_path: Path) -> None:
    """Whichever byte of it is damaged, also where it then says that it is longer."""
    rig = _Rig(tmp_path)
    ids = [f"id-{number}" for number in range(12)]
    for id_ in ids:
        rig.binary(id_)
    (segment,) = (rig.log / "p0000").glob("*.seg")
    content = segment.read_bytes()
    at = content.index(b"\r\nce-id: id-5\r")
    header = max(each for each, _ in iter_kind(content[:at], int(RecordKind.EVENTS)))
    for number in range(HEADER_BYTES):
        damaged = bytearray(content)
        damaged[header + number] ^= 0x40
        segment.write_bytes(damaged)
        rig.index = tmp_path / f"index-{number}"
        rig.reopen(None)
        rig.index_(5)
        assert rig.files()
        for id_ in ids:
            found = list(_found(rig, Index(rig.index), id_, by_id=True))
            assert found == ([] if id_ == "id-5" else [ids.index(id_)])
    rig.close()


def test_an_index_that_is_done_reads_only_what_it_names(tmp_path: Path) -> None:
    """A complete index: one small file for each complete segment, and few records read."""
    rig = _Rig(tmp_path)
    for number in range(600):
        rig.append([f"id-{number}"])
    rig.index_(500)
    assert rig.indexer is not None
    assert not rig.indexer.turn(rig.clock.wall_ms())
    segments = sorted((rig.log / "p0000").glob("*.seg"))
    assert len(segments) > 5
    whole = [path for path in rig.files() if path.name[:20] == path.name[21:41]]
    assert len(whole) == len(segments) or len(whole) == len(segments) - 1
    budget = Budget(1_000, 1 << 30)
    question = Question("id-3", (needle("id-3"),), lambda logged: _has(logged, "id-3"))
    finder = Finder(FileLog(rig.log, [Index(rig.index)]), 0, question)
    found = [logged for _ in iter(lambda: finder.done, True) for logged in finder.step(budget)]
    assert [logged.offset for logged in found] == [3]
    read = 1_000 - budget.records
    assert read < 5 + 2 * len(segments) + 30  # by the index, and the end that has none yet
    finder.close()
    rig.close()


def test_an_index_that_trails_makes_fewer_files(tmp_path: Path) -> None:
    """Of four MiB each; once it has caught up, of one, so that searches read no more through."""
    rig = _Rig(tmp_path)
    rig.appender.close()
    rig.appender = Appender.open(rig.log, 0, clock=rig.clock, make_stamp=lambda: 77)
    body = in_binary_form(Event({"specversion": "1.0", "id": "a"}, b"x" * 100_000)).record
    for _ in range(100):
        rig.appender.append([(RecordKind.EVENTS, body)])
    indexer = Indexer(rig.log, 0, rig.index)
    sizes = []
    while indexer.turn(rig.clock.wall_ms()):
        sizes.append((indexer.behind, len(rig.files())))
    assert max(files for behind, files in sizes if behind) == 2
    assert len(rig.files()) == 3  # 4 MiB, 4 MiB, and the rest, which is more than one
    indexer.close()
    rig.close()
