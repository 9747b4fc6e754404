"""A rotation of the key that signs depends on no Broker, and moves the subscription to none."""

import sqlite3
from contextlib import closing

import pytest

from distributary.core.errors import ResourceError
from distributary.core.flow import decode_route
from distributary.subscriptions.resource import Rotation
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Applied, Put, Rotate

_AS_VERSION_9 = """
ALTER TABLE api_subscription DROP COLUMN address;
UPDATE control_schema SET version = 9;
"""


def write(url, *statements):
    """Change the store as another process does."""
    with closing(sqlite3.connect(url.database)) as connection, connection:
        for statement in statements:
            connection.executescript(statement)


def broker(url, uid):
    """Let the Broker ``b`` have this uid; None: there is none."""
    write(url, "DELETE FROM address")
    if uid is not None:
        write(url, f"INSERT INTO address (path, uid) VALUES ('brokers/default/b', '{uid}')")


def rotate(store):
    """Rotate the key; returns the address of the new route record."""
    (outcome,) = store.apply([Rotate("a", Rotation())], 6)
    assert isinstance(outcome, Applied), outcome
    return decode_route(outcome.record).address


@pytest.fixture
def signed(store, url, spec):
    """A signed subscription to the Broker ``b``."""
    broker(url, "broker-1")
    settings = {"signature": {"scheme": "v1"}}
    change = Put("a", spec(config={"broker": "b"}, protocolsettings=settings), "u1")
    (outcome,) = store.apply([change], 5)
    assert isinstance(outcome, Applied)
    return change


@pytest.mark.parametrize("uid", [None, "broker-2"], ids=["deleted", "recreated"])
@pytest.mark.usefixtures("signed")
def test_a_rotation_leaves_the_subscription_where_it_listens(store, url, uid):
    """A leaked key ends without its Broker too; events of the new one are for who asks for them."""
    broker(url, uid)
    assert rotate(store) == "broker-1"
    assert rotate(store) == "broker-1"


def test_a_replacement_follows_the_broker(signed, store, url):
    """As before: it is refused without one, and listens to the new one."""
    broker(url, None)
    (refused,) = store.apply([signed], 6)
    assert isinstance(refused, ResourceError)
    broker(url, "broker-2")
    (replaced,) = store.apply([signed], 6)
    assert decode_route(replaced.record).address == "broker-2"
    broker(url, None)
    assert rotate(store) == "broker-2"


@pytest.mark.usefixtures("signed")
def test_an_upgraded_store_knows_where_its_subscriptions_listen(store, url):
    """From their newest route records."""
    store.close()
    write(url, _AS_VERSION_9)
    broker(url, "broker-2")
    upgraded = Store(url)
    assert rotate(upgraded) == "broker-1"
    upgraded.close()


@pytest.mark.parametrize(
    "loss",
    ["DELETE FROM route_change", "UPDATE route_change SET record_json = '{'"],
    ids=["trimmed", "damaged"],
)
@pytest.mark.usefixtures("signed")
def test_without_its_route_record_the_broker_of_that_name_counts(store, url, loss):
    """Of a store of an earlier version; from the first rotation on, the address is kept."""
    store.close()
    write(url, _AS_VERSION_9, loss)
    upgraded = Store(url)
    assert rotate(upgraded) == "broker-1"
    broker(url, None)
    assert rotate(upgraded) == "broker-1"
    upgraded.close()
