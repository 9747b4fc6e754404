"""What processes of several machines tell each other by rows: pages and notes."""

import contextlib
import functools

import pytest

from contract.status_page import test_status_pages as pages_of_files
from distributary.core import database
from distributary.core.cluster import KafkaPlace, SharedPlaces
from distributary.core.errors import FencedError, LogUnavailableError
from distributary.core.flow import RouteRecord
from distributary.core.log.kafka.store_archived import (
    StoredStretches,
    noted_positions,
    prepare_archived,
    read_positions,
    write_archived,
)
from distributary.core.log.kafka.store_readers import ReaderRow, ReaderRows
from distributary.core.log.reader_notes import ReaderNote, UnreadNote
from distributary.core.postgres_lease import CONTROL, PostgresLease, prepare_leases
from distributary.core.route import RouteTable
from distributary.datadir import DataDir, StatusField
from distributary.partitions import cluster_places, shared_page
from distributary.partitions import notes as notes_module
from distributary.partitions._courier import Courier
from distributary.partitions.cluster_places import ClusterPlaces
from distributary.partitions.entrusted import NO_DRIVER, Entrusted, entrusted_of
from distributary.partitions.notes import LiveNote, Mirror, Notes, Pusher, prepare_notes
from distributary.partitions.recall_requests import RequestsFile, is_awaited, read_requests
from distributary.partitions.routes import ROUTES_AT_BYTES, RoutesAt, move_table, save_table
from distributary.partitions.shared_page import OwnStop, PageExchange, prepare_pages, read_page
from distributary.server.processes.node._node_store import end_left_owners
from kit.running_server import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(owners_database):
    """A database with these tables too."""
    prepare_pages(owners_database.writer)
    prepare_notes(owners_database.writer)
    return owners_database.url


@pytest.fixture
def machine(url, tables, monkeypatch):
    """Makes an exchange of one more machine, which exchanges when it is told to."""
    del tables
    monkeypatch.setattr("distributary.partitions.shared_page.EXCHANGED_EVERY_S", 3600.0)
    return lambda: PageExchange(url)


globals().update(
    {name: found for name, found in vars(pages_of_files).items() if name.startswith("test_")}
)


class ExchangedPage:
    """A page of one machine that exchanges before each look and after each change."""

    def __init__(self, exchange):
        self._exchange = exchange
        self._page = exchange.page(0)

    def __getitem__(self, field):
        self._exchange.exchange()
        return self._page[field]

    def __setitem__(self, field, value):
        self._page[field] = value
        self._exchange.exchange()

    def close(self):
        self._page.close()


@pytest.fixture
def look(machine):
    """A function that gives one more machine a look at the same page."""
    return lambda: ExchangedPage(machine())


def test_the_last_words_of_a_page_that_is_closed_reach_the_others(machine):
    """Its user forgets it at once: an owner that says that it has ended."""
    here, there = machine(), machine()
    mine, theirs = here.page(0), there.page(0)
    mine[StatusField.PHASE] = 3
    mine.close()
    del mine
    here.exchange()
    there.exchange()
    assert theirs[StatusField.PHASE] == 3
    assert not list(here._pages)  # nothing keeps it longer


def test_what_one_machine_writes_the_others_see(machine):
    """At the next exchange; numbers are those of their partition, as large as they come."""
    here, there = machine(), machine()
    mine, theirs, other = here.page(0), there.page(0), there.page(1)
    mine[StatusField.EPOCH] = 7
    mine[StatusField.LIVE_OFFSET] = 2**64 - 1
    assert mine[StatusField.EPOCH] == 7
    here.exchange()
    there.exchange()
    assert (theirs[StatusField.EPOCH], theirs[StatusField.LIVE_OFFSET]) == (7, 2**64 - 1)
    assert other[StatusField.EPOCH] == 0
    assert machine().page(0)[StatusField.EPOCH] == 7


def test_the_last_leader_ends_owners_that_were_left_to_it(machine, url):
    """Those without a driver deliver for two minutes otherwise; while a node leads they go on."""
    here, there = machine(), machine()
    owned = [here.page(0), here.page(1)]
    for page in owned:
        page[StatusField.EPOCH] = 7
    here.exchange()
    lease = PostgresLease(url, CONTROL, holder="a node")
    end_left_owners(url)
    here.exchange()
    assert [page[StatusField.SUCCESSOR] for page in owned] == [0, 0]
    lease.release()
    waits: list[float] = []

    def the_next_one_leads(wait_s: float) -> None:
        waits.append(wait_s)
        if len(waits) == 3:
            leases.append(PostgresLease(url, CONTROL, holder="another node"))

    leases: list[PostgresLease] = []
    end_left_owners(url, 3.0, the_next_one_leads)
    assert len(waits) == 3
    here.exchange()
    assert [page[StatusField.SUCCESSOR] for page in owned] == [0, 0]
    leases[0].release()
    end_left_owners(url, 3.0, waits.append)
    assert sum(waits[3:]) == 3.0
    here.exchange()
    assert all(page[StatusField.SUCCESSOR] for page in owned)
    assert there.page(1)[StatusField.EPOCH] == 7


def test_pages_of_many_partitions_cost_one_question(machine, monkeypatch):
    """A task that looks for a partition needs all of them, and each question is a round trip."""
    here = machine()
    mine = [here.page(number) for number in range(3)]
    for number, page in enumerate(mine):
        page[StatusField.EPOCH] = 7 + number
    here.exchange()
    there, asked = machine(), []
    reading = shared_page.database.reading
    monkeypatch.setattr(
        shared_page.database, "reading", lambda engine: asked.append(1) or reading(engine)
    )
    pages = there.pages(range(4))
    assert [page[StatusField.EPOCH] for page in pages] == [7, 8, 9, 0]
    assert there.pages(range(4)) == pages == [there.page(number) for number in range(4)]
    assert len(asked) == 1


def test_a_page_is_read_as_it_is_now(url, machine):
    """Without an exchange of the reader's; nothing is there that nobody wrote."""
    assert read_page(url, 5) == {}
    here = machine()
    mine = here.page(5)
    mine[StatusField.KEEP_FROM] = 9
    here.exchange()
    assert read_page(url, 5) == {StatusField.KEEP_FROM: 9}


def test_writers_of_different_words_are_in_nobodys_way(machine):
    """The owner's and the driver's words are of one row."""
    here, there = machine(), machine()
    mine, theirs = here.page(0), there.page(0)
    mine[StatusField.PHASE] = 2
    theirs[StatusField.STOP] = 1
    here.exchange()
    there.exchange()
    here.exchange()
    for page in (mine, theirs):
        assert (page[StatusField.PHASE], page[StatusField.STOP]) == (2, 1)


def test_what_is_written_during_an_exchange_is_not_lost(machine):
    """An older number that comes out of the row replaces no newer one."""
    here, there = machine(), machine()
    mine, theirs = here.page(0), there.page(0)
    theirs[StatusField.SUCCESSOR] = 5
    there.exchange()
    mine[StatusField.SUCCESSOR] = 0
    mine[StatusField.EPOCH] = 1
    sent = mine.changes()
    mine[StatusField.EPOCH] = 2
    mine.sent(sent)
    mine.received({str(int(StatusField.EPOCH)): 1, str(int(StatusField.SUCCESSOR)): 5})
    assert mine[StatusField.EPOCH] == 2
    assert mine[StatusField.SUCCESSOR] == 5
    assert mine.changes() == {StatusField.EPOCH: 2}


def test_files_of_an_owner_come_to_the_leader(url, tables, tmp_path):
    """Whenever they change; names that the leader has no file for are left alone."""
    del tables
    notes = Notes(url)
    source, target = tmp_path / "there.json", tmp_path / "here" / "it.json"
    pusher = Pusher(notes, {"meter/owner": source, "meter/missing": tmp_path / "no"}, 3600.0)
    mirror = Mirror(notes, lambda name: target if name == "meter/owner" else None)
    notes.put("other", b"x")
    stamps = [0]
    for content in (b"1", b"22"):
        source.write_bytes(content)
        pusher.look()
        stamps.append(notes.stamps()["meter/owner"])
        pusher.look()
        mirror.look()
        assert target.read_bytes() == content
    assert stamps == sorted(set(stamps))
    assert notes.stamps("meter/") == {"meter/owner": stamps[-1]}
    pusher.close()


def test_what_follows_a_lost_note_is_seen(emptied_url, tmp_path):
    """A crash of the database takes a note back that the leader has seen: the next one is new."""
    prepare_notes(database.open_writer(emptied_url, "notes"))
    notes, path = Notes(emptied_url), tmp_path / "it"
    mirror = Mirror(notes, lambda _name: path)
    notes.put("it", b"first")
    before = notes.stamps()["it"]
    notes.put("it", b"lost")
    mirror.look()
    assert path.read_bytes() == b"lost"
    with database.writing(database.open_writer(emptied_url, "notes")) as connection:
        note = notes_module._note
        connection.execute(note.update().values(n=before, content=b"first"))
    notes.put("it", b"next")
    mirror.look()
    assert path.read_bytes() == b"next"


def test_the_leader_learns_why_a_partition_cannot_be_owned(emptied_url, emptied_place, tmp_path):
    """Though nobody owns it: the reason does not wait for an owner that tells of its metrics."""
    prepare_notes(database.open_writer(emptied_url, "notes"))
    log = KafkaPlace(servers=("127.0.0.1:1",), prefix="p")
    places = ClusterPlaces(Entrusted(shared=SharedPlaces(log=log, store=emptied_place)), tmp_path)
    places.tell_why(3, "the rows are damaged")
    shown = tmp_path / "sick-3"
    Mirror(Notes(emptied_url), {f"{notes_module.SICK}3": shown}.get).look()
    assert shown.read_text() == "the rows are damaged"


@pytest.mark.usefixtures("machine")
def test_owners_end_where_their_own_driver_stops(emptied_url, emptied_place, tmp_path):
    """And not where that of the leader before does, which leaves late."""
    prepare_pages(database.open_writer(emptied_url, "pages"))
    log = KafkaPlace(servers=("127.0.0.1:1",), prefix="p")
    driver = PageExchange(emptied_url)
    pages = []
    for number in (5, 6):
        shared = SharedPlaces(log=log, store=emptied_place)
        places = ClusterPlaces(Entrusted(shared=shared, driver=number), tmp_path)
        pages.append((places, places.status_page(0)))
    page = OwnStop(driver.page(0), 5)
    page[StatusField.STOP] = 1
    driver.exchange()
    for places, _ in pages:
        places._pages.exchange()
    assert [page[StatusField.STOP] for _, page in pages] == [1, 0]


def test_each_driver_has_a_number_of_its_own(emptied_place, tmp_path):
    """It goes to executors with all else."""
    log = KafkaPlace(servers=("127.0.0.1:1",), prefix="p")
    shared, paths = SharedPlaces(log=log, store=emptied_place), DataDir(tmp_path)
    given = [entrusted_of(shared, paths, key_file="", issuer_key_file="") for _ in range(2)]
    assert len({NO_DRIVER, *(each.driver for each in given)}) == 3


def test_the_next_owner_learns_which_routes_stand_where(
    emptied_url, emptied_place, tmp_path, monkeypatch
):
    """On whichever machine it is; however many routes there are, the note is as short."""
    monkeypatch.setattr(cluster_places, "Pusher", functools.partial(Pusher, every_s=0.05))
    prepare_notes(database.open_writer(emptied_url, "notes"))
    log = KafkaPlace(servers=("127.0.0.1:1",), prefix="p")
    given = Entrusted(shared=SharedPlaces(log=log, store=emptied_place))
    here, there = (ClusterPlaces(given, tmp_path / name) for name in ("here", "there"))
    assert there.routes_at(3) is None

    path = here.scratch.routes(3)
    path.parent.mkdir(parents=True)
    table = RouteTable()
    for seq in range(1, 41):
        table.apply(RouteRecord(seq=seq, op="put", uid=f"route-{seq}", revision=1, types=("t",)))
    save_table(path, 70, table.snapshot())
    ends = here.tell(3)
    wait_until(lambda: there.routes_at(3) == RoutesAt(70, 40), 20.0, "it is told")
    move_table(path, 95)
    wait_until(lambda: there.routes_at(3) == RoutesAt(95, 40), 20.0, "it is told anew")
    assert there.routes_at(2) is None
    assert len(Notes(emptied_url).get(f"{notes_module.ROUTES}3")) == ROUTES_AT_BYTES
    ends()


def test_a_note_has_a_bound(url, tables, monkeypatch):
    """Nobody fills the database by it."""
    del tables
    monkeypatch.setattr(notes_module, "BYTES_MAX", 4)
    notes = Notes(url)
    notes.put("long", b"123456")
    assert notes.get("long") == b"1234"
    assert notes.get("none") is None


def test_settings_are_read_once_for_each_change(url, tables):
    """None before there are any, and none where they cannot be understood."""
    del tables
    notes, live = Notes(url), LiveNote(Notes(url))
    assert live.look() is None
    notes.put(notes_module.LIVE, b'{"number":3,"log_level":"info","session":{},"ingest":{}}')
    found = live.look()
    assert found is not None
    assert found.number == 3
    assert live.look() is None
    notes.put(notes_module.LIVE, b"what a later version writes")
    assert live.look() is None


class ByFile:
    """``Requests`` of an owner on the leader's machine."""

    def __init__(self, path, _url):
        self.requests = RequestsFile(path)
        self.look = lambda: None


class ByNote:
    """``Requests`` of an owner elsewhere, whose cluster is away."""

    def __init__(self, path, url):
        folder = path.parent.with_name("recalled")
        folder.mkdir()
        put = functools.partial(Notes(url).put, f"{notes_module.RECALL}3")
        self.requests = Courier(put, self._connect, folder, lambda _reason: None)
        paths = {f"{notes_module.RECALL}3": path}
        self.look = Mirror(Notes(url), paths.get, notes_module.RECALL).look

    def _connect(self):
        raise LogUnavailableError("no broker answers")


@pytest.mark.parametrize("way", [ByFile, ByNote])
def test_what_owners_ask_of_the_archive_comes_to_the_leader(way, url, tables, tmp_path):
    """The newest request counts, in its order, whatever was asked for before; an empty one too."""
    del tables
    path = tmp_path / "leader" / "requests.json"
    made = way(path, url)

    def comes(wanted):
        def there():
            made.look()
            return path.exists() and read_requests(path) == wanted

        wait_until(there, 30.0, f"{wanted} is asked for")

    for wanted in ([(20, 30), (0, 10)], [], [(30, 1 << 60)], [(0, 10)]):
        made.requests.put(wanted)
        comes(wanted)
    assert is_awaited(path, 9)
    assert not is_awaited(path, 10)
    made.requests.close()


def test_stretches_of_an_archive_are_known_to_owners(emptied_url):
    """Once the job has written them; what an earlier version has written knows of none."""
    with contextlib.ExitStack() as opened:
        writer = database.open_writer(emptied_url, "tests")
        opened.callback(writer.dispose)
        reader = database.open_reader(emptied_url, "tests")
        opened.callback(reader.dispose)
        with database.migrating(writer) as connection:
            connection.exec_driver_sql("DROP TABLE IF EXISTS distributary.log_archived")
            connection.exec_driver_sql(
                "CREATE TABLE distributary.log_archived (archive TEXT, partition INTEGER,"
                " position BIGINT NOT NULL, PRIMARY KEY (archive, partition))"
            )
            connection.exec_driver_sql("INSERT INTO distributary.log_archived VALUES ('/a', 0, 7)")
        assert read_positions(reader, "/a") == {0: 7}
        for _ in range(2):
            prepare_archived(writer)
        stored = StoredStretches(reader, "/a", 0)
        assert stored.read() == []
        assert read_positions(reader, "/a") == {0: 7}
        first, second = (0, 10, 1_000, 1_900), (10, 20, 2_000, 2_900)
        for found in ([first], [first, second], [second]):
            write_archived(emptied_url, "/a", {0: 20, 1: 5}, {0: found})
            assert stored.read() == stored.read() == found
            assert StoredStretches(reader, "/a", 1).read() == []
            assert StoredStretches(reader, "/elsewhere", 0).read() == []
        with database.writing(writer) as connection:  # a job of an earlier version
            connection.exec_driver_sql("DELETE FROM distributary.log_archived")
            connection.exec_driver_sql("INSERT INTO distributary.log_archived VALUES ('/a', 0, 9)")
        assert stored.read() == []


def test_a_job_whose_lease_was_taken_notes_nothing(emptied_url):
    """It was stopped for long: what a later one has noted would be unknown again, and is needed."""
    with contextlib.ExitStack() as opened:
        writer = database.open_writer(emptied_url, "tests")
        opened.callback(writer.dispose)
        prepare_leases(writer)
        first = PostgresLease(emptied_url, "archive", renews=False, ttl_s=0.0)
        opened.callback(first.release)
        write_archived(emptied_url, "/a", {0: 10}, {}, first.check_in)
        later = PostgresLease(emptied_url, "archive", renews=False)
        opened.callback(later.release)
        write_archived(emptied_url, "/a", {0: 20}, {}, later.check_in)
        with pytest.raises(FencedError, match="generation 1"):
            write_archived(emptied_url, "/a", {0: 10}, {}, first.check_in)
        assert noted_positions(emptied_url, "/a") == {0: 20}
        assert noted_positions(emptied_url, "/b") == {}


def test_readers_of_a_shared_log_say_in_the_store_how_far_they_are(emptied_url):
    """Each has a row, which its next note replaces; what is no note says so."""
    with contextlib.ExitStack() as opened:
        rows = ReaderRows(emptied_url)
        opened.callback(rows.close)
        assert rows.read() == {}
        for name, end in (("slow", 3), ("fast", 8)):
            own = ReaderRow(emptied_url, name)
            opened.callback(own.close)
            for at in (0, end):
                own.write({0: at, 1: at + 1}, 1_000 + at)
        writer = database.open_writer(emptied_url, "tests")
        opened.callback(writer.dispose)
        with database.writing(writer) as connection:
            connection.exec_driver_sql(
                "INSERT INTO distributary.log_readers VALUES ('odd', '{\"positions\": 1}')"
            )
        slow, fast = ReaderNote({0: 3, 1: 4}, 1_003), ReaderNote({0: 8, 1: 9}, 1_008)
        found = rows.read()
        assert isinstance(found.pop("odd"), UnreadNote)
        assert found == {"fast": fast, "slow": slow}
        rows.forget("slow")
        assert rows.read().keys() == {"fast", "odd"}
