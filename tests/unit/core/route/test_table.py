"""Route records applied in log order, snapshots, and what is refused."""

import json

import pytest

from distributary.core.errors import LogDamagedError, LogFormatError, ResourceError
from distributary.core.event import Event
from distributary.core.flow import RouteRecord
from distributary.core.route import SNAPSHOT_FORMAT, RouteTable, _table

PUSH = Event({"specversion": "1.0", "id": "1", "source": "/repo", "type": "push"}, None)


def put(seq, uid, revision=1, **what):
    """A put record."""
    return RouteRecord(seq=seq, op="put", uid=uid, revision=revision, **what)


def delete(seq, uid):
    """A delete record."""
    return RouteRecord(seq=seq, op="delete", uid=uid, revision=1)


def table(*records):
    """A table with *records* applied."""
    made = RouteTable()
    for record in records:
        made.apply(record)
    return made


def test_an_empty_table_matches_nothing():
    """No routes, no change applied yet."""
    empty = RouteTable()
    assert empty.match(PUSH) == ()
    assert (len(empty), empty.last_seq) == (0, 0)


def test_an_event_is_seen_by_the_routes_that_stand_before_it():
    """Created, replaced, deleted: each change shows in the next match."""
    routes = RouteTable()
    seen = []
    for record in (
        put(1, "a"),
        put(2, "b", types=("pull",)),
        put(3, "b", 2, types=("push",)),
        delete(4, "a"),
    ):
        assert routes.apply(record) is True
        seen.append(routes.match(PUSH))
    assert seen == [("a",), ("a",), ("a", "b"), ("b",)]
    assert routes.last_seq == 4
    assert routes.record("b").revision == 2
    assert routes.record("a") is None
    assert [record.uid for record in routes.records()] == ["b"]


def test_a_route_sees_events_of_its_own_address_alone():
    """Whatever its filters say; most routes listen at the default broker."""
    routes = table(put(1, "a"), put(2, "b", address="x"), put(3, "c", address="y"))
    assert routes.match(PUSH) == routes.match(PUSH, "") == ("a",)
    assert (routes.match(PUSH, "x"), routes.match(PUSH, "y")) == (("b",), ("c",))
    assert routes.match(PUSH, "z") == ()
    assert len(routes) == 3


def test_a_route_that_moves_leaves_its_old_address_and_comes_last_to_the_new_one():
    """Also back; where nobody listens any more nothing is left."""
    routes = table(put(1, "a"), put(2, "b", address="x"), put(3, "c"), put(4, "d", address="x"))
    routes.apply(put(5, "a", 2, address="x"))
    assert (routes.match(PUSH), routes.match(PUSH, "x")) == (("c",), ("b", "d", "a"))
    routes.apply(put(6, "b", 2, address="x", types=("push",)))
    assert routes.match(PUSH, "x") == ("b", "d", "a")  # an update keeps its place
    for seq, uid in enumerate("bda", 7):
        routes.apply(put(seq, uid, 3))
    assert routes.match(PUSH) == ("c", "b", "d", "a")
    assert (routes.match(PUSH, "x"), routes._elsewhere, routes._addresses) == ((), {}, {})


def test_a_delete_reaches_a_route_wherever_it_listens():
    """The record of a delete does not say where."""
    routes = table(put(1, "a", address="x"), delete(2, "a"), delete(3, "unknown"))
    assert (len(routes), routes.match(PUSH, "x"), routes._elsewhere) == (0, (), {})


def test_a_move_that_cannot_be_compiled_changes_nothing():
    """The route stays at its old address; at the new one nothing has begun."""
    routes = table(put(1, "a"))
    with pytest.raises(ResourceError):
        routes.apply(put(2, "a", 2, address="x", filters=({"sql": "("},)))
    assert (routes.match(PUSH), routes._elsewhere, routes.last_seq) == (("a",), {}, 1)


def test_addresses_are_in_snapshots():
    """And the order of arrival at each; an old snapshot names none."""
    routes = table(put(1, "a"), put(2, "b", address="x"), put(3, "a", 2, address="x"))
    again = RouteTable.restore(routes.snapshot())
    assert again.match(PUSH, "x") == routes.match(PUSH, "x") == ("b", "a")
    assert again.snapshot() == routes.snapshot()


def test_a_timer_asks_its_route_wherever_that_listens():
    """A tick is published nowhere."""
    assert table(put(1, "a", address="x")).matches("a", PUSH) is True


def test_a_route_can_be_asked_for_alone():
    """By the filters that stand now; a route that does not stand matches nothing."""
    routes = table(put(1, "a", types=("push",)), put(2, "b", types=("pull",)))
    assert [routes.matches(uid, PUSH) for uid in ("a", "b", "c")] == [True, False, False]
    assert [uid in routes for uid in ("a", "c")] == [True, False]
    routes.apply(put(3, "a", 2, types=("pull",)))
    routes.apply(put(4, "b", 2, types=("push",)))
    assert [routes.matches(uid, PUSH) for uid in ("a", "b")] == [False, True]
    routes.apply(delete(5, "b"))
    assert routes.matches("b", PUSH) is False


def test_what_is_kept_of_routes_asked_for_alone_is_bounded(monkeypatch):
    """A hundred thousand timers must not hold a hundred thousand compiled filters more."""
    monkeypatch.setattr(_table, "ALONE_COUNT_MAX", 3)
    routes = table(*(put(number, f"r{number}") for number in range(1, 9)))
    assert all(routes.matches(f"r{number}", PUSH) for number in range(1, 9))
    assert len(routes._alone) <= 3


def test_a_change_rolled_forward_twice_is_ignored():
    """A seq that is not above the last applied one changes nothing (DESIGN rule 4)."""
    routes = table(put(1, "a"), put(2, "b"), delete(3, "a"))
    before = routes.snapshot()
    for record in (put(1, "a"), put(2, "b", types=("pull",)), delete(3, "b"), put(3, "c")):
        assert routes.apply(record) is False
    assert routes.snapshot() == before


def test_numbers_may_leave_gaps():
    """Changes of other kinds may take numbers of the same sequence."""
    routes = table(put(5, "a"), put(900, "b"))
    assert routes.last_seq == 900
    assert routes.match(PUSH) == ("a", "b")


def test_deleting_an_unknown_route_is_applied():
    """The number counts as applied."""
    routes = table(put(1, "a"))
    assert routes.apply(delete(2, "b")) is True
    assert routes.last_seq == 2


def test_a_record_that_cannot_be_compiled_is_not_skipped():
    """The error comes out, and the record still is the next one."""
    routes = table(put(1, "a"))
    with pytest.raises(ResourceError):
        routes.apply(put(2, "b", filters=({"sparkle": {}},)))
    assert routes.last_seq == 1
    assert routes.match(PUSH) == ("a",)


def test_a_snapshot_restores_the_same_table():
    """Routes, order and number; and the restored table goes on like the first."""
    routes = table(
        put(1, "a", source="/repo"),
        put(2, "b", filters=({"not": {"exact": {"type": "x"}}},)),
        put(3, "c", types=("push", "pull")),
        put(4, "a", 2),
        delete(5, "b"),
    )
    again = RouteTable.restore(routes.snapshot())
    assert again.last_seq == 5
    assert list(again.records()) == list(routes.records())
    assert again.match(PUSH) == routes.match(PUSH) == ("a", "c")
    assert again.snapshot() == routes.snapshot()
    assert again.apply(put(5, "d")) is False
    assert again.apply(put(6, "d")) is True


def test_a_snapshot_is_json_that_says_its_format():
    """People can read the log."""
    content = json.loads(table(put(1, "a", types=("push",))).snapshot())
    assert content == {
        "format": SNAPSHOT_FORMAT,
        "last_seq": 1,
        "routes": [{"seq": 1, "op": "put", "uid": "a", "revision": 1, "types": ["push"]}],
    }


def test_an_empty_table_has_a_snapshot_too():
    """A partition may be cut before any route came."""
    assert len(RouteTable.restore(RouteTable().snapshot())) == 0


def test_a_snapshot_of_a_newer_version_is_refused_as_such():
    """Whatever else stands in it: the operator must upgrade."""
    with pytest.raises(LogFormatError, match="upgrade"):
        RouteTable.restore(b'{"format": 2, "tables": {}}')


ROUTE = '{"seq":1,"op":"put","uid":"a","revision":1}'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"format":1}',
        b'{"format":"1","last_seq":0,"routes":[]}',
        b'{"format":0,"last_seq":0,"routes":[]}',
        b'{"format":1,"last_seq":-1,"routes":[]}',
        b'{"format":1,"last_seq":0,"routes":{}}',
        b'{"format":1,"last_seq":1,"routes":[{"seq":1}]}',
        f'{{"format":1,"last_seq":0,"routes":[{ROUTE}]}}'.encode(),
        f'{{"format":1,"last_seq":1,"routes":[{ROUTE},{ROUTE}]}}'.encode(),
        f'{{"format":1,"last_seq":1,"routes":[{ROUTE.replace("put", "delete")}]}}'.encode(),
        f'{{"format":1,"last_seq":1,"routes":[{ROUTE.replace("1", "0", 1)}]}}'.encode(),
        b"[" * 100_000,
        b'{"format":1,"x":' + b"[" * 100_000,
        table(put(1, "a")).snapshot()[:-1],
    ],
    ids=lambda body: repr(body)[:50],
)
def test_a_damaged_snapshot_is_refused(body):
    """Never half a table."""
    with pytest.raises(LogDamagedError):
        RouteTable.restore(body)


def test_a_snapshot_with_a_filter_of_a_newer_version_is_not_skipped():
    """An unknown dialect stops the partition, as in a single record."""
    body = b"""{"format":1,"last_seq":1,"routes":[
        {"seq":1,"op":"put","uid":"a","revision":1,"filters":[{"sparkle":{}}]}]}"""
    with pytest.raises(ResourceError):
        RouteTable.restore(body)
