"""What processes of several machines tell each other by rows: pages and notes."""

import pytest

from contract.status_page import test_status_pages as pages_of_files
from distributary.core import database
from distributary.core.cluster import KafkaPlace, SharedPlaces
from distributary.datadir import StatusField
from distributary.partitions import _notes as notes_module
from distributary.partitions._notes import LiveNote, Mirror, Notes, Pusher, prepare_notes
from distributary.partitions._shared_page import PageExchange, prepare_pages, read_page
from distributary.partitions.cluster_places import ClusterPlaces
from distributary.partitions.entrusted import Entrusted

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
    monkeypatch.setattr("distributary.partitions._shared_page.EXCHANGED_EVERY_S", 3600.0)
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
    for content in (b"1", b"22"):
        source.write_bytes(content)
        pusher.look()
        pusher.look()
        mirror.look()
        assert target.read_bytes() == content
    assert notes.numbers("meter/") == {"meter/owner": 2}
    pusher.close()


def test_the_leader_learns_why_a_partition_cannot_be_owned(emptied_url, emptied_place, tmp_path):
    """Though nobody owns it: the reason does not wait for an owner that tells of its metrics."""
    prepare_notes(database.open_writer(emptied_url, "notes"))
    log = KafkaPlace(servers=("127.0.0.1:1",), prefix="p")
    places = ClusterPlaces(Entrusted(shared=SharedPlaces(log=log, store=emptied_place)), tmp_path)
    places.tell_why(3, "the rows are damaged")
    shown = tmp_path / "sick-3"
    Mirror(Notes(emptied_url), {f"{notes_module.SICK}3": shown}.get).look()
    assert shown.read_text() == "the rows are damaged"


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
