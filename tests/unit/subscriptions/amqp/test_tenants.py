"""Requests over AMQP go to the namespace of their link's address."""

import pytest

from distributary.core.quotas import Quotas, QuotaTable
from distributary.subscriptions.amqp._conversation import namespace_of

GOOD = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}


@pytest.mark.parametrize(
    ("address", "namespace"),
    [
        ("subscriptions", "default"),
        ("namespaces/shop/subscriptions", "shop"),
        ("/namespaces/shop/subscriptions", "shop"),
        ("namespaces/Shop/subscriptions", None),
        ("namespaces//subscriptions", None),
        ("namespaces/a/b/subscriptions", None),
        ("shop/subscriptions", None),
        ("", None),
    ],
)
def test_an_address_names_a_namespace(address, namespace):
    """As the paths over HTTP do."""
    assert namespace_of(address) == namespace


def test_each_link_sees_its_namespace(served):
    """The same id, made over two links; a third one finds none."""

    async def talk():
        counts = {}
        for namespace in ("mine", "theirs"):
            client = served.connect(address=f"namespaces/{namespace}/subscriptions")
            made = await client.ask("Update", GOOD | {"source": f"/{namespace}"}, id="s")
            assert made.code == 201
            listed = await client.ask("Query")
            counts[namespace] = [found["source"] for found in listed.json()]
        other = served.connect(address="namespaces/other/subscriptions")
        answer = await other.ask("Delete", id="s")
        return counts, answer.status

    counts, status = served.run(talk)
    assert counts == {"mine": ["/mine"], "theirs": ["/theirs"]}
    assert status == "notfound"


def test_a_namespace_that_asks_too_often_is_told_which_quota(served):
    """Requests of another one are answered; a store's quota is told likewise."""
    table = QuotaTable(named={"mine": Quotas(calls_per_s=2.0), "theirs": Quotas(subscriptions=1)})
    served.store.keep_within(table)
    served.tenants.change(table)

    async def talk():
        mine = served.connect(address="namespaces/mine/subscriptions")
        words = [(await mine.ask("Query")).status for _ in range(3)]
        theirs = served.connect(address="namespaces/theirs/subscriptions")
        made = [await theirs.ask("Update", GOOD, id=name) for name in ("a", "b")]
        return words, made

    words, made = served.run(talk)
    assert words == ["nocontent", "nocontent", "quota-exceeded"]
    assert [answer.status for answer in made] == ["ok", "quota-exceeded"]
    assert (made[1].code, made[1].properties["retryafter"]) == (429, 1)
