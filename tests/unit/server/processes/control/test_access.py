"""Who may do what: gathered from settings and store, told to the receivers, and noted of keys."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import structlog

from distributary.access import (
    LOCAL,
    Credentials,
    KeyRecord,
    PolicyRecord,
    UnauthenticatedError,
    decode_snapshot,
    make_key,
)
from distributary.core.database import StorePlace, sqlite_url
from distributary.core.errors import SettingsError, StoreError
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from distributary.datadir.key_uses import save_uses
from distributary.resource import Reach
from distributary.server.processes.control.access import Access
from distributary.server.processes.control.form import FileBoard
from distributary.server.settings import Settings
from distributary.subscriptions.store.store import Store

REACH = Reach()
PROPOSAL = {"name": "till", "may": ["publish"], "namespaces": ["shop"]}


class Clock:
    """Time that a test moves."""

    now_ms = 1_000_000

    def monotonic_s(self) -> float:
        return self.now_ms / 1000

    def wall_ms(self) -> int:
        return self.now_ms


def table(name: str) -> dict[str, object]:
    """A table of the configuration file."""
    key = make_key(random.Random(name).randbytes)
    may = {"may": ["admin"], "namespaces": ["*"]}
    return {"name": name, "id": key.id, "sha256": key.sha256, **may}


def place_of(paths: DataDir) -> StorePlace:
    """Of the store in the data directory."""
    return StorePlace(sqlite_url(paths.state_db))


def bearer(text: str) -> Credentials:
    """A key as a client shows it."""
    return Credentials(b"Bearer " + text.encode())


@pytest.fixture
def paths(tmp_path) -> DataDir:
    """A data directory with an empty store."""
    found = DataDir(tmp_path)
    found.run.mkdir()
    Store(sqlite_url(found.state_db)).close()
    return found


@pytest.fixture
def clock() -> Clock:
    """A clock."""
    return Clock()


def opened(access: Access) -> Access:
    """*access* as it is once the objects were read, of which none is a policy."""
    access.apply(Settings(auth="required"), REACH)
    access.change_policies(())
    return access


@pytest.fixture
def access(paths, clock) -> Iterator[Access]:
    """Authentication is required, and nobody is known."""
    found = opened(Access(paths, clock, 0, place=place_of(paths)))
    yield found
    asyncio.run(found.close())


def told(paths: DataDir) -> list[str]:
    """Names of the keys that receivers know."""
    return [key.name for key in decode_snapshot(paths.access.read_bytes()).keys]


def test_keys_of_the_file_and_of_the_store_are_told_together(access, paths):
    """Those of the store as soon as they are made; a reload keeps them."""
    made = asyncio.run(access.keys.make(LOCAL, PROPOSAL))
    assert told(paths) == ["till"]
    access.apply(Settings(auth="required", keys=(table("first"),)), REACH)
    assert told(paths) == ["first", "till"]
    assert access.gate.identify(bearer(made.text)).name == "key:till"
    asyncio.run(access.keys.revoke(LOCAL, made.key.record.id))
    assert told(paths) == ["first"]
    with pytest.raises(UnauthenticatedError):
        access.gate.identify(bearer(made.text))


def test_a_change_is_answered_once_all_receivers_decide_by_it(paths, clock):
    """A key that was just made can be used."""
    access = opened(Access(paths, clock, 2, place=place_of(paths)))
    pages = [MappedStatusPage(paths.ingest_page(number)) for number in range(2)]

    async def receive(page: MappedStatusPage) -> None:
        """Decide by whatever is new, as a receiver does."""
        while True:
            page[StatusField.ACCESS] = decode_snapshot(paths.access.read_bytes()).number
            await asyncio.sleep(0)

    async def run() -> None:
        making = asyncio.create_task(access.keys.make(LOCAL, PROPOSAL))
        first = asyncio.create_task(receive(pages[0]))
        while not told(paths):  # noqa: ASYNC110 - told by a file: no event
            await asyncio.sleep(0)
        assert not making.done()
        second = asyncio.create_task(receive(pages[1]))
        await making
        first.cancel()
        second.cancel()

    asyncio.run(run())
    asyncio.run(access.close())
    for page in pages:
        page.close()


def test_policies_are_decided_by_once_all_receivers_do(paths, clock):
    """By those of a number, or newer ones; who asks waits for none of them."""
    access = opened(Access(paths, clock, 2, place=place_of(paths)))
    pages = [MappedStatusPage(paths.ingest_page(number)) for number in range(2)]

    def receive(page: MappedStatusPage) -> None:
        page[StatusField.ACCESS] = decode_snapshot(paths.access.read_bytes()).number

    async def run() -> None:
        for page in pages:
            receive(page)
        policy = PolicyRecord(name="shop/p", targets=("brokers/shop/*",))
        first = access.change_policies([policy])
        receive(pages[0])
        assert access.decided() < first
        second = access.change_policies([])
        receive(pages[1])
        assert first <= access.decided() < second
        receive(pages[0])
        assert access.decided() == second
        await access.close()

    asyncio.run(run())
    for page in pages:
        page.close()


def test_receivers_keep_the_policies_until_those_are_read_again(access, paths, clock):
    """Another process leads: receivers of nodes go on, and let in nothing meanwhile."""
    policy = PolicyRecord(name="shop/p", targets=("brokers/shop/*",))
    access.change_policies([policy])
    clock.now_ms += 1_000
    again = Access(paths, clock, 0, place=place_of(paths))
    again.apply(Settings(auth="required", keys=(table("first"),)), REACH)
    asyncio.run(again.keys.make(LOCAL, PROPOSAL))
    assert decode_snapshot(paths.access.read_bytes()).policies == (policy,)
    assert told(paths) == []
    again.change_policies([policy])
    assert decode_snapshot(paths.access.read_bytes()).policies == (policy,)
    assert told(paths) == ["first", "till"]
    asyncio.run(again.close())


def test_numbers_go_on_where_another_node_has_ended(paths, clock):
    """Whose clock was ahead: receivers would take no smaller number for news."""

    class Board(FileBoard):
        def newest(self) -> int:
            return clock.wall_ms() + 3_600_000

    access = opened(Access(paths, clock, 0, place=place_of(paths), board=Board(paths, 0)))
    assert decode_snapshot(paths.access.read_bytes()).number > clock.wall_ms() + 3_600_000
    asyncio.run(access.close())


def test_a_restart_finds_the_keys_of_the_store(access, paths, clock):
    """Expired ones are left out."""
    asyncio.run(access.keys.make(LOCAL, PROPOSAL))
    soon = PROPOSAL | {"name": "brief", "expires": "1970-01-01T00:16:41Z"}
    asyncio.run(access.keys.make(LOCAL, soon))
    assert told(paths) == ["brief", "till"]
    clock.now_ms += 1_000
    again = opened(Access(paths, clock, 0, place=place_of(paths)))
    assert told(paths) == ["till"]
    asyncio.run(again.close())


def test_one_name_in_the_file_and_in_the_store_is_refused(access, paths):
    """Nobody could tell them apart; nothing changes."""
    asyncio.run(access.keys.make(LOCAL, PROPOSAL))
    with pytest.raises(SettingsError, match=r"keys\[1\]\.name .* a key of the store has it"):
        access.apply(Settings(auth="required", keys=(table("first"), table("till"))), REACH)
    assert told(paths) == ["till"]


def test_a_name_that_is_taken_keeps_no_server_from_starting(access, paths, clock):
    """Whoever may make keys could choose it: of the file's keys that one is left out, and told."""
    asyncio.run(access.keys.make(LOCAL, PROPOSAL))
    asyncio.run(access.close())
    again = Access(paths, clock, 0, place=place_of(paths))
    with structlog.testing.capture_logs() as lines:
        again.apply(Settings(auth="required", keys=(table("first"), table("till"))), REACH)
    (line,) = (line for line in lines if line["event"] == "key-left-out")
    assert "a key of the store has it" in line["reason"]
    assert [key.name for key in again.configured] == ["first"]
    asyncio.run(again.close())


def test_a_full_disk_delays_a_revocation_elsewhere_and_never_here(access, paths):
    """The file is written as soon as there is room."""
    made = asyncio.run(access.keys.make(LOCAL, PROPOSAL))
    beside = paths.access.with_name("access.json.new")
    beside.mkdir()
    with pytest.raises(StoreError):
        asyncio.run(access.keys.revoke(LOCAL, made.key.record.id))
    with pytest.raises(UnauthenticatedError):
        access.gate.identify(bearer(made.text))
    assert told(paths) == ["till"]
    beside.rmdir()

    async def run() -> None:
        access.start()
        while told(paths):  # noqa: ASYNC110 - told by a file: no event
            await asyncio.sleep(0)
        await access.close()

    asyncio.run(run())


def test_last_uses_of_all_receivers_are_stored(access, paths, clock):
    """Those of keys that there are; they survive a restart, and the files may vanish."""
    access.apply(Settings(auth="required", keys=(table("first"),)), REACH)
    made = asyncio.run(access.keys.make(LOCAL, PROPOSAL))
    first = access.configured[0].id
    save_uses(paths.key_uses(0), {made.key.record.id: 120_000, "gone": 60_000})
    save_uses(paths.key_uses(1), {made.key.record.id: 60_000, first: 180_000})

    async def run() -> None:
        access.start()
        await access.close()

    asyncio.run(run())
    for number in (0, 1):
        paths.key_uses(number).unlink()
    again = Access(paths, clock, 0, place=place_of(paths))
    again.apply(Settings(auth="required", keys=(table("first"),)), REACH)
    found = {key.record.name: key.used_ms for key in asyncio.run(again.keys.all(LOCAL))}
    assert found == {"first": 180_000, "till": 120_000}
    asyncio.run(again.close())


def _warnings(access: Access) -> list[str]:
    async def run() -> None:
        access.start()
        await access.close()

    with structlog.testing.capture_logs() as lines:
        asyncio.run(run())
    return [line["make_one"] for line in lines if line["event"] == "nobody-has-access"]


def test_a_server_that_nobody_can_use_names_the_command_that_mends_it(paths, clock):
    """One that somebody can use says nothing."""
    needed = Settings(auth="required")
    for settings, warned in (
        (needed, True),
        (replace(needed, auth="off"), False),
        (replace(needed, keys=(table("first"),)), False),
    ):
        access = Access(paths, clock, 0, place=place_of(paths))
        access.apply(settings, REACH)
        found = _warnings(access)
        assert bool(found) is warned
        assert all(f"key create --data-dir {paths.root} " in line for line in found)


def test_receivers_are_told_no_secret(access, paths):
    """Hashes of keys alone, in a private file."""
    made = asyncio.run(access.keys.make(LOCAL, PROPOSAL))
    for path in paths.root.rglob("*"):
        if path.is_file():
            assert made.text.encode() not in path.read_bytes(), path
    assert paths.access.stat().st_mode & 0o077 == 0
    (record,) = decode_snapshot(paths.access.read_bytes()).keys
    assert isinstance(record, KeyRecord)
    assert record.sha256 == made.key.record.sha256
