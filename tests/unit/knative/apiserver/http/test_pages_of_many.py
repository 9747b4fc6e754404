"""Pages of lists that several read: nobody loses a snapshot to others, or reads theirs."""

import pytest

from distributary.access import Grant, Identity, IdentityKind, Verb, encode_identity

MOMENTS = "distributary.knative.apiserver.http._moments"


def holder(name: str, *namespaces: str) -> Identity:
    """Who may read *namespaces*."""
    grant = Grant(may=(Verb.READ,), namespaces=namespaces)
    return Identity(name=name, how=IdentityKind.KEY, grants=(grant,), subject=name)


SHOP, BANK = holder("key:shop", "shop"), holder("key:bank", "bank")
OPERATOR = holder("key:operator", "*")


def path_in(namespace: str) -> str:
    """Where the ConfigMaps of *namespace* are."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


class Shared:
    """A server with some objects in each of two namespaces."""

    def __init__(self, cluster) -> None:
        self.cluster = cluster
        self.changes = 0
        for namespace in ("shop", "bank"):
            for name in "abc":
                body = {"metadata": {"name": name}, "data": {"k": "v" * 1000}}
                assert cluster.ask("POST", path_in(namespace), body).status == 201

    def change(self, namespace: str, name: str = "a") -> None:
        """Change an object: a list that begins now is of another moment."""
        self.changes += 1
        body = {"data": {"n": str(self.changes)}}
        kind = "application/merge-patch+json"
        answer = self.cluster.ask("PATCH", f"{path_in(namespace)}/{name}", body, kind)
        assert answer.status == 200, answer.body

    def get(self, namespace: str, query: str, sender: Identity, status: int = 200):
        """A list, as *sender* gets it."""
        told = encode_identity(sender).decode()
        target = f"{path_in(namespace)}?{query}"
        return self.cluster.get(target, status, x_distributary_identity=told)

    def begin(self, namespace: str, sender: Identity) -> str:
        """Begin a list in pages, and change something of it; returns its token."""
        token = self.get(namespace, "limit=1", sender)["metadata"]["continue"]
        self.change(namespace)
        return token

    def goes_on(self, namespace: str, token: str, sender: Identity) -> bool:
        """Whether the list of *token* goes on."""
        told = encode_identity(sender).decode()
        target = f"{path_in(namespace)}?limit=1&continue={token}"
        answer = self.cluster.ask("GET", target, x_distributary_identity=told)
        assert answer.status in (200, 410), answer.body
        return answer.status == 200


@pytest.fixture
def shared(cluster) -> Shared:
    """A server that two namespaces share."""
    return Shared(cluster)


def test_who_begins_many_lists_loses_their_own(shared):
    """The oldest of a namespace's seventeen; however many they are, another's goes on."""
    of_bank = shared.begin("bank", BANK)
    of_shop = [shared.begin("shop", SHOP) for _ in range(16)]
    assert all(shared.goes_on("shop", token, SHOP) for token in of_shop)
    of_shop.append(shared.begin("shop", SHOP))
    assert [shared.goes_on("shop", token, SHOP) for token in of_shop] == [False] + [True] * 16
    for _ in range(80):
        shared.begin("shop", SHOP)
    assert shared.goes_on("bank", of_bank, BANK)


def test_keys_of_one_namespace_share_their_part(shared):
    """Further keys bring no more snapshots."""
    of_bank = shared.begin("bank", BANK)
    keys = [holder(f"key:shop-{number}", "shop") for number in range(17)]
    tokens = [shared.begin("shop", key) for key in keys]
    gone_on = [shared.goes_on("shop", token, key) for token, key in zip(tokens, keys, strict=True)]
    assert gone_on == [False] + [True] * 16
    assert shared.goes_on("bank", of_bank, BANK)


def test_where_all_are_too_many_those_who_have_most_lose_one(shared, monkeypatch):
    """The one of somebody who has no other stays, though it is older."""
    monkeypatch.setattr(f"{MOMENTS}.MOMENTS_MAX", 3)
    of_bank = shared.begin("bank", BANK)
    of_shop = [shared.begin("shop", SHOP), shared.begin("shop", SHOP)]
    of_operator = shared.begin("shop", OPERATOR)
    assert shared.goes_on("bank", of_bank, BANK)
    assert [shared.goes_on("shop", token, SHOP) for token in of_shop] == [False, True]
    assert shared.goes_on("shop", of_operator, OPERATOR)


def test_a_snapshot_is_found_by_its_reader_alone(shared):
    """Not by another identity, of the same namespace or of all; nor in another namespace."""
    token = shared.begin("shop", SHOP)
    assert shared.goes_on("shop", token, SHOP)
    for other in (holder("key:other", "shop"), OPERATOR):
        assert not shared.goes_on("shop", token, other)
        version = shared.get("shop", f"limit=1&continue={token}", SHOP)["metadata"]
        exact = f"limit=1&resourceVersion={version['resourceVersion']}"
        shared.get("shop", exact, other, 410)
    both = holder("key:both", "shop", "bank")
    assert not shared.goes_on("bank", shared.begin("shop", both), both)


def test_what_snapshots_alone_hold_is_bounded(shared, monkeypatch):
    """Objects that have changed since: whose snapshots hold most of them loses the oldest."""
    monkeypatch.setattr(f"{MOMENTS}.REPLACED_BYTES_MAX", 6_000)
    of_bank = shared.begin("bank", BANK)
    of_shop = shared.begin("shop", SHOP)
    for _ in range(5):  # the later states are in no snapshot
        shared.change("shop", "b")
    assert shared.goes_on("shop", of_shop, SHOP)
    later = shared.begin("shop", SHOP)
    shared.change("shop", "c")
    assert not shared.goes_on("shop", of_shop, SHOP)
    assert shared.goes_on("shop", later, SHOP)
    assert shared.goes_on("bank", of_bank, BANK)


def test_what_a_dropped_snapshot_held_counts_no_more(shared, monkeypatch):
    """Else each later one would be dropped at once."""
    monkeypatch.setattr(f"{MOMENTS}.REPLACED_BYTES_MAX", 3_500)
    for _ in range(5):
        token = shared.begin("shop", SHOP)
        shared.change("shop", "b")
        assert shared.goes_on("shop", token, SHOP)
