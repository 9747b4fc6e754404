"""The watermark: the lowest open record, in whatever order matches finish."""

from hypothesis import given
from hypothesis import strategies as st

from distributary.core.engine import Tracker
from distributary.core.event import Event
from distributary.core.flow import Mark, Origin, Position, Stage, Task

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/", "type": "t"}, None)

steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # records that are missing before this one
        st.integers(0, 3),  # matches of this one
        st.lists(st.integers(0, 50), max_size=4),  # which open matches finish then
    ),
    max_size=25,
)


def task(offset, number):
    """A match."""
    place = Position(0, offset, number)
    return Task(place, offset, f"r{number}", EVENT, Stage.PRIMARY, 1, 0, Origin.LIVE)


@given(st.integers(0, 9), steps)
def test_the_cursor_is_the_lowest_open_record_with_the_checksum_before_it(start, plan):
    """And 0 where there is no record before it; below it nothing is open."""
    tracker = Tracker(Mark(start, 99))
    open_tasks, before = [], {start: 99}
    offset = start
    for gap, matches, finishing in plan:
        offset += gap
        tasks = [task(offset, number) for number in range(matches)]
        tracker.take(offset, offset + 1000, tasks)
        open_tasks += tasks
        before[offset + 1] = offset + 1000
        offset += 1
        for pick in finishing:
            if open_tasks:
                tracker.finish(open_tasks.pop(pick % len(open_tasks)))
        lowest = min((found.position.offset for found in open_tasks), default=offset)
        assert tracker.mark() == Mark(lowest, before.get(lowest, 0))
        assert tracker.next_offset == offset
        assert tracker.open_count == len({found.position.offset for found in open_tasks})


@given(st.integers(0, 30), steps)
def test_open_below_gives_every_open_match_before_a_place_oldest_first(limit, plan):
    """No more and no less: they are what must become rows."""
    tracker = Tracker(Mark(0, 0))
    open_tasks = []
    for offset, (_, matches, finishing) in enumerate(plan):
        tasks = [task(offset, number) for number in range(matches)]
        tracker.take(offset, 1, tasks)
        open_tasks += tasks
        for pick in finishing:
            if open_tasks:
                tracker.finish(open_tasks.pop(pick % len(open_tasks)))
    expected = [found for found in open_tasks if found.position.offset < limit]
    found = tracker.open_below(limit)
    assert sorted(found, key=lambda t: t.position) == expected
    assert [t.position.offset for t in found] == [t.position.offset for t in expected]


@given(st.integers(0, 20), st.integers(0, 40))
def test_a_gap_is_passed_forward_alone(start, target):
    """What lies behind it is a cursor without a record before it."""
    tracker = Tracker(Mark(start, 7))
    tracker.skip_to(target)
    assert tracker.mark() == (Mark(target, 0) if target > start else Mark(start, 7))


@given(st.integers(1, 20), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5))
def test_matches_that_are_given_back_and_added_again_are_as_they_were(count, plan):
    """The mark waits for them, whatever of the record is finished meanwhile, and then passes it."""
    tracker = Tracker(Mark(5, 50))
    tasks = [task(5, number) for number in range(count)]
    tracker.take(5, 55, tasks)
    sent = finished = 0
    for more_sent, more_finished in plan:
        sent = min(sent + more_sent, count - 1)
        tracker.give_back(tasks[sent:])
        assert not any(tracker.holds(each) for each in tasks[sent:])
        assert tracker.open_before(1, 9) == []
        until = min(finished + more_finished, sent)
        assert all(tracker.finish(each) for each in tasks[finished:until])
        finished = until
        assert (tracker.mark(), tracker.finished_count) == (Mark(5, 50), finished)
        tasks[sent:] = [task(5, number) for number in range(sent, count)]
        for each in tasks[sent:]:
            tracker.add(each)
        tracker.complete()
        assert tracker.open_below(6) == tasks[finished:]
    assert all(tracker.finish(each) for each in tasks[finished:])
    assert (tracker.mark(), tracker.open_count) == (Mark(6, 55), 0)


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=6),
)
def test_matches_of_several_records_are_passed_again(matches, plan):
    """The mark waits where the tracker was rewound to, whatever finishes; counts are as before."""
    tracker = Tracker(Mark(0, 99))
    chosen = [[task(at, number) for number in range(count)] for at, count in enumerate(matches)]
    for at, tasks in enumerate(chosen):
        tracker.take(at, at + 1000, tasks)
    flat = [each for tasks in chosen for each in tasks]
    sent = finished = 0
    for more_sent, more_finished in plan:
        sent = min(sent + more_sent, len(flat))
        if sent == len(flat):
            break
        tracker.rewind(flat[sent:])
        first = flat[sent].position.offset
        assert tracker.next_offset == first
        until = min(finished + more_finished, sent)
        assert all(tracker.finish(each) for each in flat[finished:until])
        finished = until
        lowest = flat[finished].position.offset
        assert tracker.mark() == Mark(lowest, lowest + 999 if lowest else 99)
        assert tracker.open_below(first + 1) == flat[finished:sent]
        flat[sent:] = [task(*each.position[1:]) for each in flat[sent:]]
        for at in range(first, len(matches)):
            again = [each for each in flat[sent:] if each.position.offset == at]
            take = tracker.take_again if again else tracker.take
            take(at, at + 1000, again)
        assert tracker.open_below(len(matches)) == flat[finished:]
    assert tracker.finished_count <= finished
    assert all(tracker.finish(each) for each in flat[finished:])
    assert (tracker.mark().offset, tracker.open_count) == (len(matches), 0)
    assert tracker.finished_count == 0
