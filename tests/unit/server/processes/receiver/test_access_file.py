"""Who may do what, as a receiver reads it: beside its event loop, and prepared before it counts."""

import asyncio
import threading
from types import SimpleNamespace

import msgspec
import pytest

from distributary.access import AccessSnapshot, PolicyRecord
from distributary.core import filter as filter_room
from distributary.server.processes import ingest_process
from distributary.server.processes.ingest_process import IngestProcess
from distributary.server.processes.receiver.access_file import PREPARED_AT_ONCE, AccessFile


def policies(count: int, *, kind: str = "t") -> tuple[PolicyRecord, ...]:
    """Policies with filters."""
    return tuple(
        PolicyRecord(
            name=f"shop/p{number}",
            targets=("brokers/shop/*",),
            subjects=(f"key:{number}",),
            filters=({"exact": {"type": kind}},),
        )
        for number in range(count)
    )


@pytest.fixture
def path(tmp_path):
    """Where the file lies."""
    return tmp_path / "access.json"


@pytest.fixture
def compiled(monkeypatch):
    """Counts what is compiled."""
    counted, plain = [], filter_room.compile

    def count(filters):
        counted.append(filters)
        return plain(filters)

    monkeypatch.setattr(filter_room, "compile", count)
    return counted


def test_without_a_file_nobody_may_do_anything(path):
    """Until there is one."""
    file = AccessFile(path)
    assert file.first() == AccessSnapshot(required=True)
    assert file.look() is None
    path.write_bytes(AccessSnapshot(number=3, policies=policies(1)).encode())
    assert file.look() == AccessSnapshot(number=3, policies=policies(1))
    assert file.look() is None


def test_what_has_changed_is_prepared_before_it_counts(path, compiled):
    """And nothing else; what nobody has asked yet of the start is prepared a part at each look."""
    count = 2 * PREPARED_AT_ONCE + 1
    path.write_bytes(AccessSnapshot(number=1, policies=policies(count)).encode())
    file = AccessFile(path)
    first = file.first()
    assert compiled == []
    assert file.look() is None
    assert len(compiled) == PREPARED_AT_ONCE
    other = (*first.policies[:-1], policies(count, kind="u")[-1])
    path.with_suffix(".new").write_bytes(AccessSnapshot(number=2, policies=other).encode())
    path.with_suffix(".new").replace(path)
    newer = file.look()
    assert compiled[PREPARED_AT_ONCE:] == [({"exact": {"type": "u"}},)]
    assert newer.policies[0] is first.policies[0]
    for _ in range(3):
        assert file.look() is None
    assert len(compiled) == count + 1
    assert newer.policies[-1].passing.matches({"type": "u"})
    assert len(compiled) == count + 1


def test_a_policy_that_cannot_be_compiled_holds_up_no_other(path):
    """It is of a newer version; an event that it would decide is not taken."""
    strange, plain = policies(2)
    strange = msgspec.structs.replace(strange, filters=({"newer": {"type": "t"}},))
    path.write_bytes(AccessSnapshot(number=1).encode())
    file = AccessFile(path)
    file.first()
    path.write_bytes(AccessSnapshot(number=22, policies=(strange, plain)).encode())
    assert file.look().policies[1].passing.matches({"type": "t"})


class NoMoreError(Exception):
    """Ends a test."""


class Looked:
    """An ``AccessFile`` that finds what a test puts here."""

    def __init__(self, *found: AccessSnapshot | Exception | None) -> None:
        self.found = list(found)
        self.threads: set[int] = set()

    def look(self) -> AccessSnapshot | None:
        """The next of them; what is an error is raised."""
        self.threads.add(threading.get_ident())
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def followed(monkeypatch, looked: Looked) -> tuple[list, list]:
    """What a receiver decides by that finds these until ``NoMoreError``, and what it logs."""
    decided, logged = [], []
    around = SimpleNamespace(
        _access=looked,
        _decide_by=decided.append,
        _log=SimpleNamespace(error=lambda event, **_fields: logged.append(event)),
    )
    monkeypatch.setattr(ingest_process, "LOOK_S", 0.0001)
    with pytest.raises(NoMoreError):
        asyncio.run(IngestProcess._follow_access(around))
    return decided, logged


def test_a_receiver_decides_by_each_newer_snapshot(monkeypatch):
    """It reads them beside its loop; a disk that fails for a while stops that for as long."""
    one, two = AccessSnapshot(number=1), AccessSnapshot(number=2)
    looked = Looked(one, None, OSError("a bad disk"), two, NoMoreError())
    assert followed(monkeypatch, looked) == ([one, two], ["receiver-look-failed"])
    assert threading.get_ident() not in looked.threads


def test_a_receiver_that_cannot_follow_ends():
    """As where the file is damaged: it must not decide by what is old for ever."""

    async def look() -> None:
        following = asyncio.get_running_loop().create_future()
        following.set_exception(msgspec.ValidationError("no snapshot"))
        log = SimpleNamespace(look=lambda: None, why_dead=None, use_partitions=lambda _count: None)
        around = SimpleNamespace(
            _kept=log,
            _addresses=None,
            _following=following,
            _start=SimpleNamespace(partitions=1),
        )
        IngestProcess._look_once(around)

    with pytest.raises(msgspec.ValidationError):
        asyncio.run(look())
