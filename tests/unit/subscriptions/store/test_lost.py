"""A store that has gone back goes on after the log: what it lacks is undone there."""

import contextlib

from distributary.core.database import StoreWriter
from distributary.core.flow import RouteRecord, decode_route
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.routes import PutRoute, RouteEndpoint, RouteSettings, tables
from distributary.subscriptions.store import Directory, lost
from distributary.subscriptions.store.stored import Put


def go_on(url, *changes):
    """Go on after *changes* of the log: number, operation, route, revision."""
    found = [RouteRecord(seq=n, op=op, uid=uid, revision=r) for n, op, uid, r in changes]
    writer = StoreWriter(url, tables.STORE)
    with contextlib.closing(writer), writer.changing() as connection:
        return lost.go_on_after(connection, found)


def pending(store):
    """What is to be appended: number, operation, route, revision."""
    records = [decode_route(body) for _, body in store.pending(100)]
    return [(record.seq, record.op, record.uid, record.revision) for record in records]


def test_changes_that_are_lost_are_undone_under_new_numbers(store, url, spec):
    """One was changed, one deleted and one made; later changes have numbers above all of them."""
    filters = [{"exact": {"type": "t"}}]
    store.apply([Put("a", spec(filters=filters), "u1"), Put("b", spec(), "u2")], 5)
    store.mark_appended(2)
    before = store.find("a")
    log = [(3, "put", "u1", 2), (4, "delete", "u2", 1), (5, "put", "u3", 1), (6, "put", "u3", 2)]
    assert go_on(url, log[0], *log) == 3
    assert pending(store)[:4] == log
    new = [(7, "put", "u1", 3), (8, "put", "u2", 2), (9, "delete", "u3", 3)]
    assert pending(store)[4:] == new
    undone = decode_route(store.pending(5)[4][1])
    assert undone.filters == ({"exact": {"type": "t"}},)
    after = store.find("a")
    assert after.revision == 3
    assert after.etag != before.etag
    assert after.realized == before.realized
    (made,) = store.apply([Put("a", spec(), "u1")], 5)
    assert (made.seq, made.subscription.revision) == (10, 4)


def test_a_credential_goes_on_with_its_subscription(store, url, spec):
    """It is of the revision of which it was: the sink has not changed."""
    secret = {
        "credentialtype": "ACCESSTOKEN",
        "accesstoken": "canary",
        "accesstokentype": "Bearer",
        "accesstokenexpiresutc": "2099-01-01T00:00:00Z",
    }
    store.apply([Put("a", spec(sink="https://s.example/", sinkcredential=secret), "u1")], 5)
    with contextlib.closing(Directory(url)) as directory:
        directory.refresh()
        go_on(url, (2, "delete", "u1", 1))
        directory.refresh()
        assert directory.revision("u1") == 2
        assert directory.credential("u1").access_token == "canary"


def test_the_route_of_an_object_is_written_anew(store, url):
    """Its object has the filters: the reconciler finds that it stands as nothing that it wants."""
    policy = DeliveryPolicy(3, BackoffPolicy.LINEAR, 0.5, 60.0, 5.0)
    endpoint = RouteEndpoint("http://h.example/")
    settings = RouteSettings(name="Trigger a/b", sink=endpoint, policy=policy)
    change = PutRoute("r1", "at", (), (), settings)
    store.apply([change], 5)
    store.mark_appended(1)
    go_on(url, (2, "put", "r1", 2))
    assert pending(store) == [(2, "put", "r1", 2)]
    (again,) = store.apply([change], 5)
    assert (again.op, again.seq, again.revision) == ("replaced", 3, 4)
