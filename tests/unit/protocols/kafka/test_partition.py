"""Which offset of a partition may be committed, and what a record that is no text comes to."""

import random

import pytest

from distributary.core.errors import EventError
from distributary.protocols.kafka import source as kafka
from distributary.protocols.kafka._partition import ConsumedPartition


def test_where_a_group_has_begun_is_kept():
    """It has a commit from its first record on."""
    partition = ConsumedPartition(0)
    assert partition.done is None

    partition.take(7)

    assert (partition.done, partition.unsettled) == (7, 1)


def test_the_first_message_that_is_not_settled_holds_the_others_back():
    """What comes after it is read again, which is better than never."""
    partition = ConsumedPartition(0)
    for offset in (3, 4, 7):  # compacted topics and transactions leave offsets out
        partition.take(offset)

    partition.settle(7)
    partition.settle(4)
    assert (partition.done, partition.unsettled) == (3, 1)

    partition.settle(3)
    assert (partition.done, partition.unsettled) == (8, 0)


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_settling(seed):
    """The offset never passes a message that is not settled, and reaches the end."""
    chance = random.Random(seed)
    partition = ConsumedPartition(0)
    waiting = []
    settled = {-1}
    offset = 0
    for _ in range(200):
        if waiting and chance.random() < 0.5:
            done = waiting.pop(chance.randrange(len(waiting)))
            partition.settle(done)
            settled.add(done)
        else:
            partition.take(offset)
            waiting.append(offset)
            offset += 1
        assert partition.unsettled == len(waiting)
        assert partition.done == min(waiting, default=offset)
    for done in waiting:
        partition.settle(done)
    assert partition.done == offset


def test_a_header_whose_name_is_no_text_is_a_fault():
    """The client cannot read it; the record is passed over like any that is no event."""

    class Record:
        def headers(self):
            return b"\xff".decode()

    with pytest.raises(EventError):
        kafka._headers(Record())
