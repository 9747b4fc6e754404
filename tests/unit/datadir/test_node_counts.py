"""What receivers count together: connections of a node and of an address, over processes."""

import pytest

from distributary.datadir import NamedCount, NodeCount, NodeCounts, make_node_counts


@pytest.fixture
def counts(tmp_path):
    """The views of three receivers."""
    path = tmp_path / "run" / "receivers.counts"
    make_node_counts(path, 3)
    return [NodeCounts(path, number) for number in range(3)]


def test_each_sees_what_the_others_have(counts):
    """Its own is left out."""
    first, second, third = counts
    first.add(NodeCount.CONNECTIONS, 5)
    second.add(NodeCount.CONNECTIONS, 2)
    second.add(NodeCount.WATCHES, 1)
    second.add(NodeCount.CONNECTIONS, -1)
    assert [each.elsewhere(NodeCount.CONNECTIONS) for each in counts] == [1, 5, 6]
    assert first.elsewhere(NodeCount.WATCHES) == 1
    assert (first.own(NodeCount.CONNECTIONS), third.own(NodeCount.WATCHES)) == (5, 0)
    assert first.least_elsewhere(NodeCount.CONNECTIONS) == 0


def test_a_name_has_a_number_of_each_kind(counts):
    """Watches of a namespace are no requests."""
    counts[0].add_named(NamedCount.WATCHES, "shop", 3)
    seen = [counts[1].named_elsewhere(each, "shop") for each in NamedCount]
    assert seen == [0, 3, 0]


def test_an_address_is_counted_wherever_it_connects(counts):
    """Never less than it has at the others."""
    first, second, third = counts
    for number in range(300):
        second.add_named(NamedCount.CONNECTIONS, f"192.0.2.{number}", 1)
    third.add_named(NamedCount.CONNECTIONS, "192.0.2.7", 1)
    assert first.named_elsewhere(NamedCount.CONNECTIONS, "192.0.2.7") >= 2
    assert first.named_elsewhere(NamedCount.CONNECTIONS, "198.51.100.1") <= 1
    second.add_named(NamedCount.CONNECTIONS, "192.0.2.7", -1)
    assert second.named_elsewhere(NamedCount.CONNECTIONS, "192.0.2.7") == 1


def test_a_new_process_of_a_receiver_begins_at_zero(counts, tmp_path):
    """The connections of the old one ended with it."""
    counts[1].add(NodeCount.CONNECTIONS, 7)
    counts[1].add_named(NamedCount.CONNECTIONS, "192.0.2.1", 7)
    NodeCounts(tmp_path / "run" / "receivers.counts", 1)
    assert counts[0].elsewhere(NodeCount.CONNECTIONS) == 0
    assert counts[0].named_elsewhere(NamedCount.CONNECTIONS, "192.0.2.1") == 0


def test_one_receiver_is_alone():
    """It needs no file, and nobody else has anything."""
    alone = NodeCounts()
    alone.add(NodeCount.RELAYS, 3)
    alone.add_named(NamedCount.CONNECTIONS, "192.0.2.1", 1)
    assert alone.alone
    assert alone.own(NodeCount.RELAYS) == 3
    assert (
        alone.elsewhere(NodeCount.RELAYS)
        == alone.named_elsewhere(NamedCount.CONNECTIONS, "192.0.2.1")
        == 0
    )
