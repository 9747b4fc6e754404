"""An index by offset changes no answer: whatever happens to its files, a search finds all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import Logged, RecordKind, events_of
from distributary.core.log.finder import Budget, Finder, Question, needle
from distributary.core.log.indexed import Index, IndexedOffsets
from distributary.core.log.offset_indexer import PIECES_MAX, OffsetIndexer
from distributary.testing.memory_log import MemoryLog
from distributary.testing.virtual import VirtualClock

IDS = ("a", "b", "order-17", "ä b%", "order-18")
PIECE_BYTES = 600
SEGMENT_RECORDS = 16

_STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.sampled_from(IDS), min_size=1, max_size=3)),
    st.tuples(st.just("control"), st.none()),
    st.tuples(st.just("index"), st.integers(1, 12)),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(st.just("damage"), st.tuples(st.integers(0, 99), st.integers(0, 9_999))),
    st.tuples(st.just("delete"), st.integers(0, 99)),
    st.tuples(st.just("retain"), st.integers(0, 20)),
    st.tuples(st.just("spoil"), st.integers(0, 99)),
)


class _Rig:
    """A log of one partition in memory, which is one that is searched too, and its index."""

    partitions = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = VirtualClock()
        self.log = MemoryLog(self.clock)
        self.indexer = self._made()
        self.index = Index(folder)
        self.by_id = True
        self.number = 0

    def _made(self) -> OffsetIndexer:
        return OffsetIndexer(
            self.log, self.folder, piece_bytes=PIECE_BYTES, segment_records=SEGMENT_RECORDS
        )

    def open(self, _partition: int) -> MemoryLog:
        return self.log

    def indexed(self, _partition: int) -> IndexedOffsets | None:
        return IndexedOffsets(self.index) if self.by_id else None

    def step(self, name: str, value: Any) -> None:
        getattr(self, name)(value)

    def append(self, ids: list[str]) -> None:
        self.number += 1
        padding = "x" * (self.number * 37 % 300) or "p"
        base = {"specversion": "1.0", "source": "/s", "type": "t", "padding": padding}
        body = event_record.encode([Event({**base, "id": id_}, None) for id_ in ids])
        self.log.append([(RecordKind.EVENTS, body)])

    def control(self, _value: None) -> None:
        self.log.append([(RecordKind.ROUTE, b"{}")])

    def index_(self, turns: int) -> None:
        for _ in range(turns):
            self.indexer.turn(self.clock.wall_ms())

    def reopen(self, _value: None) -> None:
        self.indexer = self._made()

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.ids")) if self.folder.exists() else []

    def damage(self, where: tuple[int, int]) -> None:
        files = self.files()
        if files:
            path = files[where[0] % len(files)]
            content = bytearray(path.read_bytes())
            content[where[1] % len(content)] ^= 0xFF
            path.write_bytes(content if where[0] % 3 else content[: where[1] % len(content)])
            self.reopen(None)
            self.index = Index(self.folder)

    def delete(self, which: int) -> None:
        files = self.files()
        if files:
            files[which % len(files)].unlink()

    def retain(self, kept: int) -> None:
        keep_from = max(self.log.start(), self.log.durable_end() - kept)
        if keep_from > self.log.start():
            self.log.retain(keep_from, lambda _cut: b"")

    def spoil(self, which: int) -> None:
        count = self.log.durable_end() - self.log.start()
        if count:
            self.log.damage(self.log.start() + which % count)


def _has(logged: Logged, id_: str) -> bool:
    found = events_of(logged)
    return found is not None and any(event.text("id") == id_ for event in found.events)


def _found(rig: _Rig, id_: str, *, by_id: bool) -> Iterator[int]:
    rig.by_id = by_id
    needles = tuple(filter(None, [needle(id_)]))
    finder = Finder(rig, 0, Question(id_, needles, lambda logged: _has(logged, id_)))
    while not finder.done:
        for logged in finder.step(Budget(10_000, 1 << 30)):
            yield logged.offset


@given(steps=st.lists(_STEPS, max_size=60))
@settings(deadline=None)
def test_a_search_finds_what_reading_all_finds(
    steps: list[tuple[str, Any]], tmp_path_factory: Any
) -> None:
    """Newest first, and each once, whatever was indexed, lost, damaged or deleted before."""
    rig = _Rig(tmp_path_factory.mktemp("index") / "p0000")
    for name, value in steps:
        rig.step("index_" if name == "index" else name, value)
        for id_ in IDS[:3]:
            read = list(_found(rig, id_, by_id=False))
            assert list(_found(rig, id_, by_id=True)) == read


def test_everything_is_covered_by_few_files(tmp_path: Path) -> None:
    """Complete stretches have one file each, also those that were there before the index was."""
    rig = _Rig(tmp_path / "p0000")
    for _ in range(5 * SEGMENT_RECORDS):
        rig.append(["a"])
    rig.index_(200)
    assert rig.indexer.turn(0) is False
    assert [tuple(head.piece) for head in Index(rig.folder).pieces()] == [
        (at, at, at + SEGMENT_RECORDS) for at in range(0, 5 * SEGMENT_RECORDS, SEGMENT_RECORDS)
    ]


def test_files_of_large_events_are_merged_before_their_stretch_is_complete(tmp_path: Path) -> None:
    """Each file costs a search a moment."""
    log = MemoryLog(VirtualClock())
    indexer = OffsetIndexer(log, tmp_path / "p0000", piece_bytes=1, segment_records=1 << 16)
    for number in range(3 * PIECES_MAX):
        log.append([(RecordKind.ROUTE, b"%d" % number)])
        while indexer.turn(0):
            pass
    pieces = Index(tmp_path / "p0000").pieces()
    assert len(pieces) <= PIECES_MAX + 1
    assert pieces[-1].piece.end == 3 * PIECES_MAX


def test_old_records_have_no_entries(tmp_path: Path) -> None:
    """The index reaches back so far; files that are older go."""
    clock = VirtualClock()
    log = MemoryLog(clock)
    indexer = OffsetIndexer(
        log, tmp_path / "p0000", age_max_s=3600.0, piece_bytes=1, segment_records=4
    )
    for _ in range(8):
        log.append([(RecordKind.ROUTE, b"{}")])
    while indexer.turn(clock.wall_ms()):
        pass
    assert Index(tmp_path / "p0000").pieces()
    clock.jump(clock.wall_ms() + 7_200_000)
    log.append([(RecordKind.ROUTE, b"{}")])
    while indexer.turn(clock.wall_ms()):
        pass
    assert [head.piece.first for head in Index(tmp_path / "p0000").pieces()] == [8]
