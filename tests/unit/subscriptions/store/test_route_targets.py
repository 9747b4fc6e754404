"""Routes of Triggers and messaging Subscriptions in the store, beside those of the other API."""

import pytest

from distributary.core.errors import ResourceError, StoreError
from distributary.core.flow import decode_route
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.routes import DropRoute, PutRoute, RouteEndpoint, RouteSettings
from distributary.routes.changes import AppliedRoute
from distributary.subscriptions.store import Directory, ListedRoute
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Delete, Put


def settings(**changes):
    """Settings of a route."""
    return RouteSettings(
        **{
            "name": "Trigger a/b",
            "sink": RouteEndpoint("http://127.0.0.1:9/canary"),
            "policy": DeliveryPolicy(3, BackoffPolicy.LINEAR, 0.5, 60.0, 5.0),
            **changes,
        }
    )


def put(uid="r", address="at", filters=(), present=(), **changes):
    """A change that puts a route."""
    return PutRoute(uid, address, filters, present, settings(**changes))


def apply(store, *changes):
    """Apply changes that must succeed."""
    outcomes = store.apply(changes, 5)
    assert all(isinstance(outcome, AppliedRoute) for outcome in outcomes)
    return outcomes


def test_a_route_is_written_with_its_change(store):
    """One number for both APIs; settings stay out of the log (DESIGN rule 4)."""
    (made,) = apply(store, put(filters=({"exact": {"type": "t"}},), present=("source",)))
    assert (made.seq, made.op, made.revision) == (1, "created", 1)
    record = decode_route(made.record)
    assert (record.uid, record.address, record.present) == ("r", "at", ("source",))
    assert record.filters == ({"exact": {"type": "t"}},)
    assert b"canary" not in made.record
    assert store.pending(9) == [(1, made.record)]
    standing = store.routes()["r"]
    assert (standing.revision, standing.address) == (1, "at")


def test_an_equal_route_is_left_alone(store):
    """In the same batch, and later."""
    first, second = apply(store, put(), put())
    (third,) = apply(store, put())
    assert [first.op, second.op, third.op] == ["created", "unchanged", "unchanged"]
    assert len(store.pending(9)) == 1


@pytest.mark.parametrize(
    "change",
    [
        put(address="elsewhere"),
        put(filters=({"prefix": {"type": "t"}},)),
        put(present=("source",)),
        put(policy=DeliveryPolicy(4)),
        put(unusable="gone"),
    ],
    ids=["address", "filters", "present", "settings", "unusable"],
)
def test_whatever_changes_is_a_new_revision(store, change):
    """So that readers look again."""
    apply(store, put())
    (made,) = apply(store, change)
    assert (made.op, made.revision, made.seq) == ("replaced", 2, 2)


def test_a_dropped_route_is_gone(store):
    """And dropping what does not stand is no error."""
    apply(store, put())
    (gone,) = apply(store, DropRoute("r"))
    assert (gone.op, decode_route(gone.record).op) == ("deleted", "delete")
    (again,) = apply(store, DropRoute("r"))
    assert (again.op, again.record) == ("unchanged", None)
    assert store.routes() == {}


def test_both_apis_share_one_order_and_one_limit(url, spec):
    """Subscriptions and routes cost the matcher the same."""
    store = Store(url, subscriptions_max=2)
    try:
        made, _ = store.apply([Put("a", spec(), "u"), put()], 5)
        assert made.seq == 1
        (refused,) = store.apply([put("r2")], 5)
        assert isinstance(refused, ResourceError)
        assert refused.faults[0].code == "too-many"
        assert store.live_count() == 2
        store.apply([Delete("a")], 5)
        apply(store, put("r2"))
        assert set(store.routes()) == {"r", "r2"}
    finally:
        store.close()


def test_a_reader_sees_routes_come_change_and_go(store, url, spec):
    """As subscriptions, by the same two numbers."""
    directory = Directory(url)
    try:
        store.apply([Put("a", spec(), "u"), put()], 5)
        assert directory.refresh()
        assert directory.changed() == {"u", "r"}
        assert directory.get("r") == ListedRoute(1, settings())
        assert directory.credential("r") is None
        apply(store, put(policy=DeliveryPolicy(9)))
        assert directory.refresh()
        assert (directory.revision("r"), directory.get("r").settings.policy.retry) == (2, 9)
        apply(store, DropRoute("r"))
        assert directory.refresh()
        assert directory.get("r") is None
        assert directory.uids() == ["u"]
    finally:
        directory.close()


def test_a_reader_that_slept_reads_all_routes(url):
    """Rows of dropped routes are trimmed, as those of deleted subscriptions."""
    store = Store(url, changes_kept=2)
    directory = Directory(url)
    try:
        apply(store, put("old"), put("kept"))
        directory.refresh()
        apply(store, DropRoute("old"))
        for retry in range(20, 26):
            (made,) = apply(store, put("kept", policy=DeliveryPolicy(retry)))
            store.mark_appended(made.seq)
        directory.refresh()
        assert directory.uids() == ["kept"]
        assert directory.get("kept").settings.policy.retry == 25
    finally:
        directory.close()
        store.close()


def test_damaged_settings_are_told(store, url):
    """The route fails with the reason, alone."""
    apply(store, put(format="cubic"))
    directory = Directory(url)
    try:
        directory.refresh()
        with pytest.raises(StoreError, match="damaged"):
            directory.get("r")
        assert directory.revision("r") == 1
    finally:
        directory.close()
