"""An executor that reaches the store, and cannot reach a log that others read."""

import itertools

import msgspec
import pytest

from distributary.core import database
from distributary.core.cluster import KafkaPlace, SharedPlaces
from distributary.core.errors import LogUnavailableError
from distributary.core.postgres_lease import (
    PARTITIONS,
    PostgresLease,
    partition_lease,
    read_leases,
)
from distributary.datadir import StatusField
from distributary.partitions import Entrusted, SessionSettings, cluster_places
from distributary.partitions._scratch import GIVEN_BY
from distributary.partitions.cluster_places import ClusterPlaces
from distributary.server.nodes import NodeSign
from distributary.server.nodes.postgres import PostgresNodes, make_tables
from distributary.spark._delivery_task import rows
from distributary.subscriptions.store.store import make_missing

ROWS_MAX = 2
"""A task that waits for the log goes on for ever."""

NOWHERE = KafkaPlace(servers=("127.0.0.1:1",), prefix="p")

pytestmark = pytest.mark.slow


@pytest.fixture
def entrusted(emptied_url, emptied_place, tmp_path, monkeypatch):
    """What an executor gets; the nodes' table is there, and no node."""
    monkeypatch.setenv(GIVEN_BY[0], str(tmp_path))
    monkeypatch.setattr(cluster_places, "REACHED_S_MAX", 0.2)
    cluster_places.prepare_places(emptied_url)
    make_missing(emptied_url)
    make_tables(emptied_url)
    return Entrusted(shared=SharedPlaces(log=NOWHERE, store=emptied_place))


def see_node(url, *, reaches_log):
    """A node says whether it reaches the log."""
    said = {"address": "node-1:1", "version": "1", "started_ms": 1, "role": "leader"}
    sign = NodeSign(name="node-1", run="run-1", reaches_log=reaches_log, **said)
    nodes = PostgresNodes(url)
    nodes.sign(sign, access=0, addresses=0)
    nodes.close()


def test_a_log_is_out_of_reach_only_where_others_reach_it(entrusted, emptied_url, tmp_path):
    """While nobody does, whoever owns goes on with what it has."""
    places = ClusterPlaces(entrusted, tmp_path)
    found = [places.is_out_of_reach(0)]
    for reaches in (False, True):
        see_node(emptied_url, reaches_log=reaches)
        found.append(places.is_out_of_reach(0))
    assert found == [False, False, True]


def test_what_another_one_owns_is_not_out_of_reach(entrusted, emptied_url, tmp_path):
    """Else its page would say that it has failed."""
    see_node(emptied_url, reaches_log=True)
    lease = PostgresLease(emptied_url, partition_lease(0), renews=False)
    places = ClusterPlaces(entrusted, tmp_path)
    assert not places.is_out_of_reach(0)
    lease.release()


def test_a_task_leaves_a_partition_to_other_executors(entrusted, emptied_url):
    """It takes no lease: Spark starts it again where there is room."""
    see_node(emptied_url, reaches_log=True)
    settings = SessionSettings(data_dir="", partitions=1, log_level="error")
    words = msgspec.json.encode(settings).decode()
    page = settings.of_executor(entrusted).places().status_page(0)
    page[StatusField.FAILURES] = 1  # the session that was here has given up
    with pytest.raises(LogUnavailableError, match="out of reach from here"):
        for _ in itertools.islice(rows(words, 0, 1, entrusted), ROWS_MAX):
            pass
    reader = database.open_reader(emptied_url, "leases")
    assert read_leases(reader, PARTITIONS) == []
    reader.dispose()
