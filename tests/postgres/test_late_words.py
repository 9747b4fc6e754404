"""What a former owner, or the driver of a former leader, says late: it was stopped, and wakes."""

import pytest

from distributary.core import database
from distributary.core.cluster import KafkaPlace, SharedPlaces
from distributary.core.postgres_lease import (
    CONTROL,
    PostgresLease,
    partition_lease,
    prepare_leases,
)
from distributary.datadir import Phase, StatusField
from distributary.partitions.cluster_places import ClusterPlaces
from distributary.partitions.entrusted import Entrusted
from distributary.partitions.notes import LIVE, Notes, prepare_notes
from distributary.partitions.shared_page import OwnStop, PageExchange, prepare_pages, read_page

pytestmark = pytest.mark.slow


@pytest.fixture
def by_hand(monkeypatch):
    """Pages are exchanged when a test does so."""
    monkeypatch.setattr("distributary.partitions.shared_page.EXCHANGED_EVERY_S", 3600.0)


@pytest.fixture
def url(tables, by_hand):
    """A database with pages and notes."""
    del by_hand
    prepare_pages(tables.writer)
    prepare_notes(tables.writer)
    return tables.url


@pytest.fixture
def machine(url):
    """Makes an exchange of one more machine."""
    return lambda: PageExchange(url)


def test_the_words_of_a_former_owner_are_dropped(machine, url):
    """It woke up late. What it asks for is written, and so were its last words before others'."""
    there = machine()
    page = there.page(0)
    former, now = machine(), machine()
    first = PostgresLease(url, partition_lease(0), renews=False)
    former.own(0, first.generation)
    late = former.page(0)
    late[StatusField.KEEP_FROM] = 1
    former.exchange()
    first.release()
    late[StatusField.PHASE] = Phase.DRAINING
    former.exchange()
    there.exchange()
    assert (page[StatusField.KEEP_FROM], page[StatusField.PHASE]) == (1, Phase.DRAINING)
    second = PostgresLease(url, partition_lease(0), renews=False)
    now.own(0, second.generation)
    living = now.page(0)
    living[StatusField.KEEP_FROM], living[StatusField.PHASE] = 5, Phase.RUNNING
    now.exchange()
    late[StatusField.KEEP_FROM], late[StatusField.EPOCH] = 900, 40
    late[StatusField.SUCCESSOR] = 77
    former.exchange()
    now.exchange()
    words = StatusField.KEEP_FROM, StatusField.EPOCH, StatusField.PHASE, StatusField.SUCCESSOR
    assert [living[word] for word in words] == [5, 0, Phase.RUNNING, 77]
    assert [late[word] for word in words] == [5, 0, Phase.RUNNING, 77]  # it looks on
    second.release()


def test_the_words_and_settings_of_a_former_leader_are_dropped(machine, url):
    """Its driver woke up late: epochs of the next one go on, and revoked settings stay so."""
    there, former, now = machine(), machine(), machine()
    former.lead("first")
    now.lead("second")
    late, leading, page, notes = former.page(0), now.page(0), there.page(0), Notes(url)
    words = StatusField.END_EPOCH, StatusField.READY

    def seen():
        for each in (former, now, there):
            each.exchange()
        return [page[word] for word in words], notes.get(LIVE)

    for _ in range(2):  # it may lead once more
        PostgresLease(url, CONTROL, holder="first", renews=False).release()
        late[StatusField.END_EPOCH] += 1
        notes.put(LIVE, b"first", leads="first")
    assert seen() == ([2, 0], b"first")
    PostgresLease(url, CONTROL, holder="second", renews=False).release()
    leading[StatusField.END_EPOCH] = 3
    notes.put(LIVE, b"second", leads="second")
    late[StatusField.END_EPOCH], late[StatusField.READY] = 5_000, 1
    notes.put(LIVE, b"late", leads="first")
    assert seen() == ([3, 0], b"second")


def test_a_leader_that_leaves_stops_its_owners_whoever_leads_by_then(machine, url):
    """Its node gives the lease back first, and another one may take it at once."""
    driver, owner, other = machine(), machine(), machine()
    driver.lead("leaving")
    leaves = PostgresLease(url, CONTROL, holder="leaving", renews=False)
    said, heard = OwnStop(driver.page(0), 41), OwnStop(owner.page(0), 41)
    next_heard = OwnStop(other.page(0), 42)
    heard[StatusField.PHASE] = Phase.RUNNING
    owner.exchange()
    leaves.release()
    PostgresLease(url, CONTROL, holder="next", renews=False).release()
    said[StatusField.STOP] = 1
    for each in (driver, owner, other):
        each.exchange()
    assert (heard[StatusField.STOP], next_heard[StatusField.STOP]) == (1, 0)


def test_who_owned_a_partition_long_ago_says_that_it_cannot_own_it(machine, url):
    """Another one had it since, and is gone: else tries would follow one another at once."""
    before, since, there = machine(), machine(), machine()
    lease = partition_lease(0)
    for each in (before, since):
        taken = PostgresLease(url, lease, renews=False)
        each.own(0, taken.generation)
        page = each.page(0)
        page[StatusField.PHASE] = Phase.RUNNING
        each.exchange()
        taken.release()
    words = StatusField.FAILURES, StatusField.RETRY_AT_MS, StatusField.PHASE

    def says(failures, phase):
        page = before.page(0)
        page[StatusField.FAILURES], page[StatusField.RETRY_AT_MS] = failures, 9_000 + failures
        page[StatusField.PHASE], page[StatusField.KEEP_FROM] = phase, 800
        before.exchange()
        seen = there.page(0)
        there.exchange()
        assert not seen[StatusField.KEEP_FROM]
        return [seen[word] for word in words]

    assert says(1, Phase.ABSENT) == [1, 9_001, Phase.ABSENT]
    assert says(2, Phase.RUNNING) == [2, 9_002, Phase.ABSENT]
    held = PostgresLease(url, lease, renews=False)
    assert says(3, Phase.ABSENT) == [2, 9_002, Phase.ABSENT]
    before.own(0, held.generation)
    owned, seen = before.page(0), there.page(0)
    owned[StatusField.FAILURES] = 0  # it has run for long
    before.exchange()
    there.exchange()
    assert not seen[StatusField.FAILURES]
    held.release()


@pytest.mark.usefixtures("by_hand")
def test_who_takes_a_partition_writes_by_its_lease(emptied_url, emptied_place, tmp_path):
    """And no more once another one has taken it."""
    writer = database.open_writer(emptied_url, "pages")
    prepare_pages(writer)
    prepare_leases(writer)
    log = KafkaPlace(servers=("127.0.0.1:1",), prefix="p")
    given = Entrusted(shared=SharedPlaces(log=log, store=emptied_place))
    former, now = (ClusterPlaces(given, tmp_path / name) for name in ("a", "b"))
    pages = []
    for places in (former, now):
        lease = places.lease(0, 0.0)
        pages.append(places.status_page(0))
        pages[-1][StatusField.KEEP_FROM] = 7
        places._pages.exchange()
        lease.release()
    pages[0][StatusField.KEEP_FROM] = 900
    former._pages.exchange()
    assert read_page(emptied_url, 0)[StatusField.KEEP_FROM] == 7
