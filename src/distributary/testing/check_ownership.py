"""Contract suite of ``Ownership``, the stored state of a partition: run ``CHECKS`` over each.

Called by tests of this package, and by those of further back ends.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from distributary.core.errors import FencedError, LogLockedError, StoreError
from distributary.core.flow import DoneKey, Mark, Stage
from distributary.core.journal_frames import HistoryBlock
from distributary.core.outcome import (
    CLOCK_MS_MIN,
    IN_STORE,
    BackfillRow,
    Batch,
    Budgets,
    Changes,
    DeadLetter,
    Deliveries,
    Failure,
    GivenUp,
    LetterChoice,
    Ownership,
    ParkedRow,
    RetryRow,
    RunRow,
)

__all__ = ["CHECKS", "Ownerships", "PowerCut"]


class PowerCut(BaseException):
    """A simulated power failure: state that is not durable is lost."""


class Ownerships(Protocol):
    """The partitions under test.

    Attributes:
        places: Places within a flush at which ``arm`` can stop it. At "rows" nothing is durable
            yet, at "end" everything is.
    """

    places: Sequence[str]

    def open(self, partition: int, budgets: Budgets | None = None) -> Ownership:
        """Own *partition*, as it was left.

        Raises:
            LogLockedError: It has an owner.
        """
        ...

    def let_go(self, ownership: Ownership) -> None:
        """Release the partition, in order or after ``PowerCut`` or an error."""
        ...

    def usurp(self, partition: int) -> None:
        """Make it possible to open *partition*, whose owner does not notice."""
        ...

    def arm(self, place: str, error: BaseException) -> None:
        """Have the next flush that reaches *place* raise *error* there, once."""
        ...


Check = Callable[[Ownerships], None]

FAILURE = Failure("status-503", "http://sink.example/", 503, "YnVzeQ==")


def _key(offset: int, route: str = "r") -> DoneKey:
    return DoneKey(offset, 0, route)


def _row(offset: int, **more: Any) -> RetryRow:
    row = RetryRow(_key(offset), offset, Stage.PRIMARY, 2, 1_000 - offset, FAILURE, done=False)
    return row._replace(**more)


def _dead_letter(offset: int, route: str = "r", *, kept_ms: int = 1, size: int = 10) -> DeadLetter:
    event = f"{offset:06d}".encode().ljust(size, b".")
    return DeadLetter(_key(offset, route), offset, FAILURE, event, kept_ms)


def _rows(*rows: RetryRow) -> dict[DoneKey, RetryRow]:
    return {row.key: row for row in rows}


BACKFILL = BackfillRow("lagging", 3, 1, 3, None, b"{}")
PARKED = ParkedRow("gone", 2, 0, 5, "status-410", "http://sink.example/")
FIRST = Batch(
    Mark(4, 44),
    [(_key(5), 55), (_key(3, "lagging"), 33)],
    Changes(
        rows=_rows(_row(1), _row(2, event=b"a reply")),
        backfills={BACKFILL.name: BACKFILL},
        dead_letters=[_dead_letter(0)],
        parked={"gone": PARKED},
    ),
    {"lagging": 3},
)
SECOND = Batch(
    Mark(7, 77),
    [(_key(4), 4), (_key(8), 88)],
    Changes(
        rows=_rows(_row(2, attempt=3, event=IN_STORE), _row(6)),
        forget=[_key(1)],
        backfills={BACKFILL.name: BACKFILL._replace(from_offset=5)},
        dead_letters=[_dead_letter(4)],
        parked={"gone": None},
    ),
    {"lagging": 5},
)
THIRD = Batch(Mark(9, 99), [(_key(9), 99)], Changes(rows=_rows(_row(10))))


def _told(ownership: Ownership) -> tuple[Mark, dict[DoneKey, int], list[object]]:
    """Returns the whole state of an ownership."""
    store = ownership.store
    kept = [found.dead_letter for found in store.kept_dead_letters(100)]
    events = [store.row_event(row.key) for row in store.rows()]
    waits = [store.rows(), events, store.backfills(), store.parked(), kept]
    return ownership.state.mark, dict(ownership.state.done), waits


def _after(made: Ownerships, partition: int, *batches: Batch) -> Any:
    """Returns the state that a new owner loads after *batches* were flushed."""
    ownership = made.open(partition)
    for batch in batches:
        ownership.flush(batch)
    made.let_go(ownership)
    return _reopened(made, partition)


def _reopened(made: Ownerships, partition: int) -> Any:
    ownership = made.open(partition)
    told = _told(ownership)
    made.let_go(ownership)
    return told


def _raises(error: type[BaseException], act: Callable[[], object]) -> bool:
    try:
        act()
    except error:
        return True
    return False


def check_a_new_partition_has_nothing(made: Ownerships) -> None:
    """The cursor is at the beginning, and nothing waits."""
    assert _reopened(made, 0) == (Mark(0, 0), {}, [[], [], [], [], []])


def check_one_owner_at_a_time(made: Ownerships) -> None:
    """The next owner must wait for the first to release; other partitions are independent."""
    first, other = made.open(0), made.open(1)
    assert _raises(LogLockedError, lambda: made.open(0))
    first.flush(FIRST)
    for ownership in (first, other):
        made.let_go(ownership)
    assert _reopened(made, 1)[0] == Mark(0, 0)
    assert _reopened(made, 0)[0] == FIRST.mark


def check_what_was_flushed_is_there_again(made: Ownerships) -> None:
    """Every part of the batch is loaded; rows by time of their attempts, events separately."""
    mark, done, (rows, events, backfills, parked, dead_letters) = _after(made, 0, FIRST)
    assert (mark, done) == (FIRST.mark, dict(FIRST.done))
    assert rows == [_row(2, event=IN_STORE), _row(1)]
    assert events == [b"a reply", None]
    assert (backfills, parked, dead_letters) == ([BACKFILL], [PARKED], [_dead_letter(0)])


def check_a_later_flush_goes_on_from_the_earlier_one(made: Ownerships) -> None:
    """A flush replaces, deletes and adds; an event in the store stays there."""
    mark, done, (rows, events, backfills, parked, dead_letters) = _after(made, 0, FIRST, SECOND)
    assert mark == SECOND.mark
    assert done.items() >= {_key(8): 88, _key(3, "lagging"): 33}.items()
    assert rows == [_row(6), _row(2, attempt=3, event=IN_STORE)]
    assert events == [None, b"a reply"]
    assert (backfills, parked) == ([BACKFILL._replace(from_offset=5)], [])
    assert dead_letters == [_dead_letter(0), _dead_letter(4)]


def check_a_flush_made_again_changes_nothing(made: Ownerships) -> None:
    """The next owner may repeat an interrupted flush as a whole."""
    assert _after(made, 0, FIRST, SECOND, SECOND) == _after(made, 1, FIRST, SECOND)


def check_a_letter_that_is_taken_is_no_letter(made: Ownerships) -> None:
    """One flush moves it to its row, and stores the progress of the run."""
    run = RunRow(1, 1, 1, 1, 0, done=True)
    taken = Changes(rows=_rows(_row(0)), taken=[_key(0)], runs={1: run})
    _, _, (rows, _, _, _, dead_letters) = _after(made, 0, FIRST, Batch(FIRST.mark, [], taken))
    assert _row(0) in rows
    assert dead_letters == []
    ownership = made.open(0)
    assert ownership.store.begin_run(1) == run
    made.let_go(ownership)


def check_the_power_goes_within_a_flush(made: Ownerships) -> None:
    """Nothing durable is lost, and no cursor or outcome precedes its rows (rule 1, the cursor)."""
    whole = _after(made, 0, FIRST, SECOND)
    for partition, place in enumerate(made.places, 1):
        before = _after(made, partition, FIRST)
        ownership = made.open(partition)
        made.arm(place, PowerCut())
        assert _raises(PowerCut, lambda: ownership.flush(SECOND)), place  # noqa: B023
        made.let_go(ownership)
        mark, done, waits = found = _reopened(made, partition)
        assert done.items() >= dict(FIRST.done).items(), place
        assert waits in (before[2], whole[2]), f"{place}: the changes of a flush are one"
        if waits == before[2]:
            assert found == before, f"{place}: a cursor or an outcome without its rows"
        assert (mark == SECOND.mark) == (_key(8) in done), f"{place}: an outcome is its cursor's"
        assert place != "rows" or found == before
        assert place != "end" or found == whole
        assert _after(made, partition, SECOND) == whole, f"{place}: it is made again"


def check_a_kept_letter_is_the_outcome_of_its_match(made: Ownerships) -> None:
    """Wherever the power goes: with the letter in the store, the match is not made again."""
    done = {_key(6): 6, _key(3, "lagging"): 3}
    letters = [_dead_letter(6), _dead_letter(3, "lagging"), _dead_letter(5)]
    changes = Changes(_rows(_row(5, done=True)), dead_letters=letters)
    changes.backfills[BACKFILL.name] = BACKFILL
    batch = Batch(Mark(4, 44), list(done.items()), changes, {"lagging": 3})
    for partition, place in enumerate(made.places):
        ownership = made.open(partition)
        made.arm(place, PowerCut())
        assert _raises(PowerCut, partial(ownership.flush, batch)), place
        made.let_go(ownership)
        for _ in range(2):
            _, told, (*_, kept) = _reopened(made, partition)
            assert told == (done if kept else {}), f"{place}: the finished row says so of the third"


def check_a_medium_that_refuses_ends_the_ownership(made: Ownerships) -> None:
    """A failed store is never retried; the next owner continues from the durable state."""
    whole = _after(made, 0, FIRST, SECOND)
    for partition, place in enumerate(made.places, 1):
        _after(made, partition, FIRST)
        ownership = made.open(partition)
        made.arm(place, StoreError("the medium refuses"))
        assert _raises(StoreError, lambda: ownership.flush(SECOND)), place  # noqa: B023
        assert _raises(StoreError, lambda: ownership.flush(THIRD)), place  # noqa: B023
        made.let_go(ownership)
        mark, done, (rows, *_) = _reopened(made, partition)
        assert mark in {FIRST.mark, SECOND.mark}, place
        assert not {_key(9), _key(10)} & {*done, *(row.key for row in rows)}, place
        assert _after(made, partition, SECOND) == whole, place


def check_an_owner_that_lost_the_partition_writes_nothing(made: Ownerships) -> None:
    """An older generation cannot write, in a flush or otherwise, whatever its successor does."""
    old = made.open(0, Budgets(age_max_s=1.0))
    old.flush(FIRST)
    made.usurp(0)
    others = old.store
    writes: tuple[Callable[[], object], ...] = (
        lambda: others.begin_run(1),
        lambda: others.begin_run_as(RunRow(1, 0, 100, 0, 0, done=False)),
        lambda: others.keep_house(["r"], 10**12),
        lambda: old.fit(lambda _mark: False),
        lambda: old.flush(SECOND),
    )
    assert all(_raises(FencedError, write) for write in writes[:-1])
    new = made.open(0)
    assert _raises(FencedError, lambda: old.flush(SECOND))
    before = _told(new)
    assert before == _after(made, 1, FIRST)
    new.flush(THIRD)
    assert all(_raises(StoreError, write) for write in writes)
    made.let_go(old)
    made.let_go(new)
    assert _reopened(made, 0) == _after(made, 1, THIRD)


def check_a_cursor_that_the_log_does_not_know_is_taken_back(made: Ownerships) -> None:
    """It moves back durably to the newest that fits; outcomes stay, each with its checksum."""
    _after(made, 0, FIRST, SECOND)
    ownership = made.open(0)
    assert not ownership.fit(lambda _mark: True)
    assert ownership.fit(lambda mark: mark.offset < SECOND.mark.offset)
    assert ownership.state.mark == FIRST.mark
    made.let_go(ownership)
    mark, done, _ = _reopened(made, 0)
    assert mark == FIRST.mark
    assert _key(8) in done
    ownership = made.open(0)
    assert ownership.fit(lambda _mark: False)
    made.let_go(ownership)
    assert _reopened(made, 0)[0] == Mark(0, 0)


def check_letters_stay_within_their_budgets(made: Ownerships) -> None:
    """The oldest of a route are deleted first, then the oldest of all; the flush reports them."""
    ownership = made.open(0, Budgets(route_bytes_max=5_000, bytes_max=9_000))
    few = [_dead_letter(offset, "r", kept_ms=offset, size=1_000) for offset in range(1, 4)]
    assert ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=few))) == []
    more = [_dead_letter(offset, "r", kept_ms=offset, size=1_000) for offset in range(4, 7)]
    told = ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=more)))
    assert told == [GivenUp("r", 2, "kept-bytes")]
    others = [_dead_letter(offset, "q", kept_ms=offset, size=1_000) for offset in range(10, 14)]
    others += [_dead_letter(offset, "p", kept_ms=offset, size=1_000) for offset in range(20, 22)]
    told = ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=others)))
    assert told == [GivenUp("r", 3, "kept-bytes")]
    kept = [found.dead_letter.key.offset for found in ownership.store.kept_dead_letters(100)]
    assert kept == [6, *range(10, 14), 20, 21]
    made.let_go(ownership)


def check_letters_of_one_namespace_push_out_no_others(made: Ownerships) -> None:
    """Beyond the budget of all, the namespace with most bytes gives up; also one that is new."""
    ownership = made.open(0, Budgets(bytes_max=9_000))
    few = [
        _dead_letter(offset, "shop", kept_ms=offset, size=1_000)._replace(namespace="shop")
        for offset in range(1, 4)
    ]
    ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=few)))
    given_up = 0
    for offset in range(10, 30, 4):
        many = [
            _dead_letter(at, f"r{at}", kept_ms=at, size=1_000)._replace(namespace="till")
            for at in range(offset, offset + 4)
        ]
        told = ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=many)))
        assert all(one.route != "shop" and one.reason == "kept-bytes" for one in told)
        given_up += sum(one.count for one in told)
    kept = [found.dead_letter.key.offset for found in ownership.store.kept_dead_letters(100)]
    assert kept[:3] == [1, 2, 3]
    assert kept[3:] == list(range(33 - len(kept), 30))
    assert given_up == 23 - len(kept) > 0
    made.let_go(ownership)


def check_letters_are_read_in_slices(made: Ownerships) -> None:
    """Slices begin with the oldest, by rising number; of all routes, or of one."""
    ownership = made.open(0)
    dead_letters = [_dead_letter(n, "odd" if n % 2 else "even", kept_ms=n) for n in range(1, 8)]
    ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=dead_letters)))
    read = ownership.store.kept_dead_letters
    first = read(3)
    assert [found.dead_letter for found in first + read(100, first[-1].id)] == dead_letters
    odd = [found.dead_letter.key.offset for found in read(100, first[0].id, "odd")]
    assert odd == [3, 5, 7]
    made.let_go(ownership)


def check_old_letters_and_those_of_deleted_routes_go(made: Ownerships) -> None:
    """Outside of flushes. The age of one that was kept in 1970 begins once the clock is right."""
    ownership, since_ms = made.open(0, Budgets(age_max_s=10.0)), CLOCK_MS_MIN
    times = [("r", since_ms), ("r", since_ms + 19_000), ("deleted", since_ms + 19_000), ("r", 5)]
    letters = [_dead_letter(n, route, kept_ms=ms) for n, (route, ms) in enumerate(times)]
    ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=letters[:3])))
    ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=letters[3:])))
    store = ownership.store
    assert store.keep_house(["deleted", "never there"], 20_000).given_up == []
    kept = store.keep_house([], since_ms + 20_000)
    assert kept.given_up == [GivenUp("r", 1, "kept-age")]
    assert (kept.routes, kept.more) == (["r"], False)
    dated = letters[3]._replace(kept_ms=since_ms + 20_000)
    assert [found.dead_letter for found in store.kept_dead_letters(9)] == [letters[1], dated]
    assert store.keep_house([], since_ms + 30_001).given_up == [GivenUp("r", 2, "kept-age")]
    made.let_go(ownership)


def check_a_run_takes_the_letters_of_its_beginning(made: Ownerships) -> None:
    """Later dead letters do not belong to it; its progress outlives its owner."""
    ownership = made.open(0)
    dead_letters = [_dead_letter(n, route, kept_ms=n) for n, route in enumerate("rrq", 1)]
    ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=dead_letters)))
    run = ownership.store.begin_run(5)
    ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=[_dead_letter(8, "r", kept_ms=8)])))
    assert ownership.store.begin_run(5) == run
    choice = LetterChoice("r", through=run.through)
    chosen = ownership.store.chosen_letters(choice, 9, run.at, 1_000_000)
    assert [found.dead_letter.key.offset for found in chosen] == [1, 2]
    run = run._replace(at=chosen[0].id, handled=1, selected=1, looked=1, cancelled=True)
    run = run._replace(route_deleted=True)
    taken = Changes(taken=[chosen[0].dead_letter.key], runs={5: run})
    ownership.flush(Batch(Mark(9, 1), [], taken))
    made.let_go(ownership)
    ownership = made.open(0)
    store: Deliveries = ownership.store
    assert store.begin_run(5) == run
    assert store.runs([5, 6]) == {5: run}
    assert [found.dead_letter.key.offset for found in store.kept_dead_letters(9)] == [2, 3, 8]
    made.let_go(ownership)


def check_a_run_begins_where_it_is_told(made: Ownerships) -> None:
    """A replay has its place in the log; whoever begins it again finds what was done."""
    ownership = made.open(0)
    told = RunRow(7, 40, 90, 0, 0, done=False, total=50, oldest_ms=123).passing(50, 60)
    assert ownership.store.begin_run_as(told) == told
    assert ownership.store.begin_run_as(told._replace(at=60)) == told
    made.let_go(ownership)


def check_letters_are_chosen(made: Ownerships) -> None:
    """By route, number and time; an event of a run has no error attributes."""
    ownership = made.open(0)
    dead_letters = [_dead_letter(n, "odd" if n % 2 else "even", kept_ms=n) for n in range(1, 8)]
    ownership.flush(Batch(Mark(9, 1), [], Changes(dead_letters=dead_letters)))
    choose = ownership.store.chosen_letters
    every = choose(LetterChoice(), 100, 0, 1_000_000)
    offsets = [found.dead_letter.key.offset for found in every]
    assert offsets == [1, 2, 3, 4, 5, 6, 7]
    assert all(found.dead_letter.event == found.event for found in every)

    def told(choice: LetterChoice, limit: int = 100, bytes_max: int = 1_000_000) -> list[int]:
        return [kept.dead_letter.key.offset for kept in choose(choice, limit, 0, bytes_max)]

    assert told(LetterChoice("odd")) == [1, 3, 5, 7]
    assert told(LetterChoice("odd", since_ms=3, until_ms=7)) == [3, 5]
    assert told(LetterChoice(ids=(every[1].id, every[4].id, 999))) == [2, 5]
    assert told(LetterChoice("odd", through=every[3].id)) == [1, 3]
    assert told(LetterChoice("nobody")) == []
    assert told(LetterChoice(), 2) == [1, 2]
    assert told(LetterChoice(), 100, 1) == [1]
    assert ownership.store.begin_run(1, LetterChoice("odd", until_ms=7)).total == 3
    assert ownership.store.begin_run(2, LetterChoice("nobody")).done
    made.let_go(ownership)


def check_history_stays_until_files_hold_it(made: Ownerships) -> None:
    """Rows have numbers that rise by one, over owners too, and none is used again."""
    ownership = made.open(0)
    ownership.flush(Batch(Mark(1, 1), history=(2, b"two")))
    ownership.flush(Batch(Mark(2, 2), [(_key(2), 22)], history=(3, b"three")))
    made.let_go(ownership)
    ownership = made.open(0)
    first, second = HistoryBlock(0, 2, b"two"), HistoryBlock(2, 3, b"three")
    assert ownership.state.blocks == [first, second]
    ownership.flush(Batch(Mark(2, 2), filed=2))
    assert ownership.state.blocks == [second]
    ownership.flush(Batch(Mark(2, 2), filed=5))
    made.let_go(ownership)
    ownership = made.open(0)
    assert (ownership.state.blocks, ownership.state.history_end) == ([], 5)
    ownership.flush(Batch(Mark(3, 3), history=(1, b"one"), filed=5))
    made.let_go(ownership)
    ownership = made.open(0)
    assert ownership.state.blocks == [HistoryBlock(5, 1, b"one")]
    made.let_go(ownership)


def check_no_outcome_is_durable_before_its_history(made: Ownerships) -> None:
    """Wherever the power goes: neither an outcome of the live reader, nor a row that is done."""
    batch = Batch(
        Mark(3, 3),
        [(_key(3), 33)],
        Changes(rows=_rows(_row(1, done=True)), dead_letters=[_dead_letter(2)]),
        history=(3, b"all three"),
    )
    for partition, place in enumerate(made.places):
        ownership = made.open(partition)
        made.arm(place, PowerCut())
        assert _raises(PowerCut, partial(ownership.flush, batch))
        made.let_go(ownership)
        ownership = made.open(partition)
        _, done, (rows, *_, kept) = _told(ownership)
        if done or rows or kept:
            assert ownership.state.blocks == [HistoryBlock(0, 3, b"all three")], place
        made.let_go(ownership)


CHECKS: tuple[Check, ...] = (
    check_history_stays_until_files_hold_it,
    check_no_outcome_is_durable_before_its_history,
    check_a_new_partition_has_nothing,
    check_one_owner_at_a_time,
    check_what_was_flushed_is_there_again,
    check_a_later_flush_goes_on_from_the_earlier_one,
    check_a_flush_made_again_changes_nothing,
    check_a_letter_that_is_taken_is_no_letter,
    check_the_power_goes_within_a_flush,
    check_a_kept_letter_is_the_outcome_of_its_match,
    check_a_medium_that_refuses_ends_the_ownership,
    check_an_owner_that_lost_the_partition_writes_nothing,
    check_a_cursor_that_the_log_does_not_know_is_taken_back,
    check_letters_stay_within_their_budgets,
    check_letters_of_one_namespace_push_out_no_others,
    check_letters_are_read_in_slices,
    check_old_letters_and_those_of_deleted_routes_go,
    check_a_run_takes_the_letters_of_its_beginning,
    check_a_run_begins_where_it_is_told,
    check_letters_are_chosen,
)
"""Every check; each needs new partitions."""
