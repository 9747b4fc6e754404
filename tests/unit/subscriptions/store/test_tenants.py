"""Namespaces in the store: equal ids, separate addresses, counts, and stores without namespaces."""

import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa

from distributary.core import database
from distributary.core.errors import (
    ConflictError,
    LogUnavailableError,
    NotFoundError,
    RequestError,
    ResourceError,
)
from distributary.core.flow import decode_route
from distributary.core.policy import DeliveryPolicy
from distributary.core.quotas import Quotas, QuotaTable
from distributary.core.tenant import broker_address, is_namespace
from distributary.knative.apiserver.objects import AddressBook
from distributary.routes import DropRoute, PutRoute, RouteEndpoint, RouteSettings
from distributary.routes import tables as _tables
from distributary.subscriptions.store import Directory, Listed
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Applied, Delete, Precondition, Put

SINK = RouteEndpoint("http://127.0.0.1:9/")
POLICY = DeliveryPolicy()


def put(store, spec, uid, namespace, id_="a", **more) -> Applied:
    """Apply one put that must succeed."""
    (outcome,) = store.apply([Put(id_, spec, uid, namespace=namespace, **more)], 5)
    assert isinstance(outcome, Applied)
    return outcome


def counts(url):
    """Live subscriptions and bytes of each namespace."""
    engine = database.open_reader(url, "resource store")
    with database.reading(engine) as connection:
        rows = connection.exec_driver_sql("SELECT namespace, live_count, stored_bytes FROM tenant")
        found = {name: (count, size) for name, count, size in rows}
    engine.dispose()
    return found


@pytest.mark.parametrize("good", ["a", "shop", "a-b", "0", "x" * 63])
def test_names_of_namespaces_are_those_of_kubernetes(good):
    """Lower case, digits and hyphens inside."""
    assert is_namespace(good)


@pytest.mark.parametrize("bad", ["", "A", "-a", "a-", "a.b", "a_b", "ä", "x" * 64, "a\n", "@a"])
def test_other_names_are_none(bad):
    """Also what only a regular expression without an end would let pass."""
    assert not is_namespace(bad)


def test_one_id_in_two_namespaces_is_two_subscriptions(store, spec):
    """Nothing that happens to one of them is seen at the other."""
    mine = put(store, spec(source="/mine"), "u1", "mine")
    theirs = put(store, spec(source="/theirs"), "u2", "theirs")
    assert store.find("a", "mine") == mine.subscription
    assert store.find("a", "theirs") == theirs.subscription
    with pytest.raises(NotFoundError):
        store.find("a")
    put(store, spec(source="/new"), "u3", "theirs")
    assert store.find("a", "mine") == mine.subscription
    (gone,) = store.apply([Delete("a", namespace="mine")], 6)
    assert gone.subscription.uid == "u1"
    assert store.find("a", "theirs").uid == "u2"


def test_a_page_is_of_one_namespace(store, spec):
    """In the order of its ids."""
    for number, namespace in enumerate(("mine", "theirs", "mine")):
        put(store, spec(), f"u{number}", namespace, f"id{number}")
    assert [found.id for found in store.page("", 10, "mine")] == ["id0", "id2"]
    assert [found.id for found in store.page("id0", 10, "mine")] == ["id2"]
    assert store.page("", 10) == []


def test_each_namespace_listens_at_its_own_broker(store, spec):
    """The namespace default where it always did."""
    records = {
        namespace: decode_route(put(store, spec(), f"u-{namespace}", namespace).record)
        for namespace in ("default", "mine", "theirs")
    }
    assert {name: record.address for name, record in records.items()} == {
        "default": "",
        "mine": broker_address("mine"),
        "theirs": broker_address("theirs"),
    }
    assert len({record.address for record in records.values()}) == 3


def test_changes_of_one_batch_meet_only_their_namesakes(store, spec):
    """A condition, a delete and a create of the same id, in three namespaces."""
    put(store, spec(), "u1", "mine")
    put(store, spec(), "u2", "theirs")
    absent = Precondition(if_none_match=frozenset("*"))
    outcomes = store.apply(
        [
            Put("a", spec(), "u3", precondition=absent, namespace="mine"),
            Put("a", spec(), "u4", precondition=absent, namespace="third"),
            Delete("a", namespace="theirs"),
            Delete("a", namespace="fourth"),
        ],
        7,
    )
    assert isinstance(outcomes[0], ConflictError)
    assert [outcomes[1].op, outcomes[2].op] == ["created", "deleted"]
    assert isinstance(outcomes[3], NotFoundError)


def test_secrets_are_kept_for_the_subscription_of_this_namespace(store, spec, kept):
    """A masked setting of one never gets the secret of another of the same id."""
    secret = {"headers": {"X-Api-Key": "theirs-alone"}}
    put(store, spec(protocolsettings=secret), "u1", "theirs")
    masked = store.find("a", "theirs").to_json()["protocolsettings"]
    (refused,) = store.apply([Put("a", kept(protocolsettings=masked), "u2", namespace="mine")], 6)
    assert not isinstance(refused, Applied)


def test_counts_follow_every_change(store, spec, url):
    """Of subscriptions, and of what is stored of them."""
    first = put(store, spec(), "u1", "mine").subscription
    assert counts(url)["mine"] == (1, len(first.realized))
    longer = put(store, spec(types=["a-long-type"]), "u2", "mine").subscription
    assert counts(url)["mine"] == (1, len(longer.realized))
    put(store, spec(), "u3", "theirs")
    store.apply([Delete("a", namespace="mine")], 6)
    assert counts(url) == {"mine": (0, 0), "theirs": (1, len(first.realized))}


def test_readers_of_the_store_know_the_namespace(store, spec, url):
    """As owners of partitions read it."""
    put(store, spec(), "u1", "mine")
    directory = Directory(url)
    directory.refresh()
    listed = directory.get("u1")
    assert isinstance(listed, Listed)
    assert listed.namespace == "mine"
    directory.close()


def test_receivers_are_told_before_the_first_subscription_of_a_namespace_is_answered(
    service, appender, runner, proposal
):
    """And not for those after it."""
    for _ in range(2):
        runner.run(service.create(proposal(), "mine"))
    assert appender.looks == 1
    runner.run(service.create(proposal()))
    assert appender.looks == 1


def test_a_receiver_that_cannot_be_told_stops_no_change(service, appender, runner, proposal):
    """It reads the store by itself a moment later; the next change tells it again."""
    appender.look_fault = LogUnavailableError("away")
    runner.run(service.create(proposal(), "mine"))
    appender.look_fault = None
    runner.run(service.create(proposal(), "mine"))
    assert appender.looks == 2


def test_a_namespace_with_a_subscription_has_a_path(store, spec, url):
    """Beside those of Brokers; the version tells when to look."""
    book = AddressBook(url)
    before = book.version()
    assert "namespaces/mine/events" not in book.read()
    put(store, spec(), "u1", "mine")
    assert book.version() != before
    assert book.read()["namespaces/mine/events"] == broker_address("mine")
    book.close()


_AS_VERSION_4 = """
DROP INDEX api_subscription_live_name;
ALTER TABLE api_subscription DROP COLUMN namespace;
CREATE UNIQUE INDEX api_subscription_live_id ON api_subscription (id) WHERE state = 'live';
ALTER TABLE generation DROP COLUMN tenant_seq;
DROP TABLE tenant;
UPDATE control_schema SET version = 4;
ALTER TABLE address DROP COLUMN open;
INSERT INTO address VALUES ('brokers/shop/default', 'uid-of-the-broker');
INSERT INTO address VALUES ('brokers/shop/other', 'uid-of-another');
INSERT INTO address VALUES ('brokers/default/default', '');
"""
"""What a version before namespaces wrote, with a Broker ``default`` in the namespace ``shop``."""


@pytest.fixture
def upgraded(store, spec, url):
    """A store of version 4 with one subscription, opened by this version."""
    put(store, spec(), "u1", "default")
    store.close()
    with closing(sqlite3.connect(url.database)) as connection, connection:
        connection.executescript(_AS_VERSION_4)
    made = Store(url)
    yield made
    made.close()


def test_subscriptions_of_an_earlier_version_are_in_default(upgraded, url):
    """And are counted there."""
    found = upgraded.find("a")
    assert (found.namespace, found.uid) == ("default", "u1")
    assert counts(url)["default"] == (1, len(found.realized))


def test_ids_are_unique_in_a_namespace_after_an_upgrade(upgraded, spec):
    """The index of the earlier version would have refused the second."""
    assert put(upgraded, spec(), "u2", "shop").subscription.uid == "u2"
    assert put(upgraded, spec(), "u3", "default").op == "replaced"


def test_a_broker_of_an_earlier_version_keeps_its_address(upgraded, spec, url):
    """The log has events there, so the subscriptions of its namespace listen there too."""
    assert decode_route(put(upgraded, spec(), "u2", "shop").record).address == "uid-of-the-broker"
    book = AddressBook(url)
    assert book.read() == {
        "brokers/default/default": "",
        "brokers/shop/default": "uid-of-the-broker",
        "brokers/shop/other": "uid-of-another",
        "namespaces/default/events": "",
        "namespaces/shop/events": "uid-of-the-broker",
    }
    book.close()


def refused(store, spec, uid, **more):
    """The refusal of a put in the namespace ``mine``."""
    (outcome,) = store.apply([Put(more.pop("id_", "x"), spec, uid, namespace="mine", **more)], 6)
    assert isinstance(outcome, RequestError)
    assert outcome.request_code == "quota-exceeded"
    return str(outcome)


def keep_within(store, **limits):
    """Limit the namespace ``mine``."""
    store.keep_within(QuotaTable(named={"mine": Quotas(**limits)}))


def test_a_namespace_has_as_many_subscriptions_as_its_quota(store, spec, url):
    """The refusal says which quota, its value and its use; others are not concerned."""
    keep_within(store, subscriptions=1)
    put(store, spec(), "u1", "mine")
    assert "mine has the quota subscriptions = 1; its subscriptions use 1" in refused(
        store, spec(), "u2"
    )
    put(store, spec(), "u3", "theirs")
    put(store, spec(types=["t"]), "u4", "mine")  # a replace is none more
    store.apply([Delete("a", namespace="mine")], 7)
    put(store, spec(), "u5", "mine")
    assert counts(url)["mine"][0] == 1


def test_stored_bytes_have_a_quota(store, spec):
    """What makes a subscription no larger is always taken."""
    first = put(store, spec(), "u1", "mine").subscription
    keep_within(store, stored_bytes=len(first.realized) + 10)
    assert "stored_bytes" in refused(store, spec(types=["x" * 100]), "u1", id_="a")
    assert "stored_bytes" in refused(store, spec(), "u2")
    put(store, spec(), "u3", "mine")


def test_timers_have_a_quota_together(store, spec):
    """Of events a second; changes and deletes of one batch count at once."""
    keep_within(store, timer_events_per_s=0.5)
    timer = lambda seconds: spec(source="/s", config={"interval": seconds})  # noqa: E731 - short
    put(store, timer(2), "u1", "mine", "a")
    keep_within(store, timer_events_per_s=1.0)
    put(store, timer(4), "u2", "mine", "b")
    assert "timer_events_per_s = 1; its subscriptions use 0.75" in refused(
        store, timer(2), "u3", id_="c"
    )
    put(store, timer(1), "u4", "theirs", "c")
    outcomes = store.apply(
        [
            Delete("a", namespace="mine"),
            Put("c", timer(2), "u5", namespace="mine"),
            Put("d", timer(2), "u6", namespace="mine"),
        ],
        8,
    )
    assert [isinstance(outcome, Applied) for outcome in outcomes] == [True, True, False]
    put(store, timer(10), "u7", "mine", "c")
    put(store, timer(2), "u8", "mine", "d")


def test_a_refused_change_takes_no_room(store, spec, url):
    """Of the whole server neither."""
    keep_within(store, subscriptions=1)
    put(store, spec(), "u1", "mine")
    before = store.live_count()
    outcomes = store.apply(
        [Put("b", spec(), "u2", namespace="mine"), Put("c", spec(), "u3", namespace="theirs")], 6
    )
    assert isinstance(outcomes[0], RequestError)
    assert store.live_count() == before + 1
    assert counts(url)["mine"][0] == 1


def test_a_refused_change_makes_no_namespace_known(store, spec, url):
    """Rows of namespaces are never deleted, and their number is limited."""
    keep_within(store, stored_bytes=1)
    outcomes = store.apply(
        [Put("a", spec(), "u1", namespace="mine"), Put("a", spec(), "u2", namespace="theirs")], 6
    )
    assert isinstance(outcomes[0], RequestError)
    assert isinstance(outcomes[1], Applied)
    assert "mine" not in counts(url)


def test_routes_of_objects_count_in_their_namespace(store, url):
    """Each with the bytes of its settings, until it is dropped."""
    route = lambda name: PutRoute(  # noqa: E731 - short
        "r", "at", (), (), RouteSettings(name=name, sink=SINK, policy=POLICY, namespace="mine")
    )
    sizes = []
    for change in (route("Trigger mine/t"), route("Trigger mine/" + "t" * 60), DropRoute("r")):
        store.apply([change], 5)
        sizes.append(counts(url)["mine"])
    (made, first), (changed, longer), gone = sizes
    assert (made, changed, longer - first) == (1, 1, 59)
    assert gone == (0, 0)


def address_of(applied):
    """Where the route of a change listens."""
    return decode_route(applied.record).address


def make_broker(url, path, uid):
    """A Broker, as the API of Kubernetes stores its address."""
    engine = database.open_writer(url, "resource store")
    with database.writing(engine) as connection:
        connection.execute(sa.insert(_tables.address).values(path=path, uid=uid))
    engine.dispose()


def test_a_subscription_listens_to_the_broker_that_it_names(store, spec, url):
    """Of its own namespace; a replace moves it, and what names none is where it always was."""
    make_broker(url, "brokers/mine/orders", "uid-1")
    make_broker(url, "brokers/theirs/orders", "uid-2")
    at = lambda broker: spec(config={"broker": broker})  # noqa: E731 - short
    assert address_of(put(store, at("orders"), "u1", "mine")) == "uid-1"
    assert address_of(put(store, at("orders"), "u2", "theirs")) == "uid-2"
    assert address_of(put(store, at("default"), "u1", "mine")) == "@mine"
    assert address_of(put(store, spec(), "u3", "new")) == "@new"
    assert address_of(put(store, at("lifecycle"), "u4", "new", "b")) == "!new"
    assert address_of(put(store, at("lifecycle"), "u5", "default", "b")) == "!default"


def test_a_broker_that_is_not_there_is_a_fault_that_costs_nothing(store, spec, url):
    """Also one of another namespace; the counts are as before."""
    make_broker(url, "brokers/theirs/orders", "uid-2")
    put(store, spec(), "u1", "mine")
    before = counts(url)
    for id_ in ("a", "b"):
        change = Put(id_, spec(config={"broker": "orders"}), "u2", namespace="mine")
        (outcome,) = store.apply([change], 6)
        assert isinstance(outcome, ResourceError)
        assert [(fault.path, fault.code) for fault in outcome.faults] == [
            ("$.config.broker", "unknown")
        ]
    assert counts(url) == before


def test_a_broker_lifecycle_of_an_earlier_version_stays_its_owners(store, spec, url):
    """It had its events before the name was the server's."""
    make_broker(url, "brokers/mine/lifecycle", "uid-9")
    at = spec(config={"broker": "lifecycle"})
    assert address_of(put(store, at, "u1", "mine")) == "uid-9"
