"""Lists that clients read slowly keep a bounded part of what has changed since."""

import asyncio
import json

import msgspec
import pytest

from distributary.access import Grant, Identity, IdentityKind, Verb
from distributary.knative.apiserver.http import _open_lists, _view
from distributary.knative.apiserver.http._negotiation import Form
from distributary.knative.apiserver.http._open_lists import OpenLists
from distributary.knative.apiserver.http._view import ListView
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.kinds import CONFIG_MAP

PATH = "/api/v1/namespaces/{}/configmaps"
SIZE = 1_000


@pytest.fixture
def lists(cluster, monkeypatch):
    """Room for the replaced states of some twelve objects, of which each is a run."""
    monkeypatch.setattr(_open_lists, "OPEN_REPLACED_BYTES_MAX", 12 * 1.5 * SIZE)
    monkeypatch.setattr(_view, "PIECE_BYTES", 1)
    found = OpenLists()
    cluster.objects.on_change(found.note)
    return found


def fill(cluster, namespace, text, method="PUT"):
    """Write four objects of a namespace."""
    for number in range(4):
        body = {"metadata": {"name": f"c{number}"}, "data": {"a": text * SIZE}}
        path = PATH.format(namespace)
        target = path if method == "POST" else f"{path}/c{number}"
        assert cluster.ask(method, target, body).status in {200, 201}


def read(cluster, lists, namespace):
    """Begin to read the list of a namespace, as who may act there alone."""
    grant = Grant(may=(Verb.READ,), namespaces=(namespace,))
    reader = Identity(name=f"key:{namespace}", how=IdentityKind.KEY, grants=(grant,))
    view = ListView(CONFIG_MAP, namespace, form=Form())
    items, version = cluster.objects.list(CONFIG_MAP, namespace)
    return lists.read(view, version, items, reader)


def outcome(runs):
    """What is left to be read; or why it is not."""
    try:
        return "".join(one.content["data"]["a"][0] for run in runs for one in run)
    except StatusError as error:
        return error.reason


def test_who_holds_most_of_what_was_replaced_loses_a_list(cluster, lists):
    """The others are read as they were."""
    fill(cluster, "till", "a", "POST")
    other = read(cluster, lists, "till")
    fill(cluster, "till", "b")
    fill(cluster, "shop", "a", "POST")
    mine = []
    for text in "bcd":
        mine.append(read(cluster, lists, "shop"))
        next(mine[-1])
        fill(cluster, "shop", text)
    found = [outcome(each) for each in mine]
    assert found.count("Expired") == 1
    assert set(found) - {"Expired"} < {"aaa", "bbb", "ccc"}
    assert outcome(other) == "aaaa"


def test_what_a_client_left_counts_no_more(cluster, lists):
    """Whether it has begun to read or not."""
    fill(cluster, "shop", "a", "POST")
    kept = read(cluster, lists, "shop")
    for text in "bcdefgh":
        left = read(cluster, lists, "shop"), read(cluster, lists, "shop")
        next(left[0])
        del left
        fill(cluster, "shop", text)
    assert outcome(kept) == "aaaa"


def test_a_list_that_is_lost_is_cut_off_and_a_watch_begins_anew(cluster, monkeypatch):
    """Neither is taken for the whole."""

    def lost(_lists, _view, _version, items, _reader):
        yield items[:1]
        raise StatusError("Expired", "it is lost")

    fill(cluster, "shop", "a" * 100, "POST")
    monkeypatch.setattr(OpenLists, "read", lost)
    answer = cluster.ask("GET", PATH.format("shop"))
    assert answer.body.startswith(b'{"kind":"ConfigMapList"')
    with pytest.raises(msgspec.DecodeError):
        answer.json()
    stream = cluster.watch(f"{PATH.format('shop')}?watch=true")

    async def lines():
        found = b""
        while b"ERROR" not in found:
            found += (await asyncio.wait_for(stream.pieces.get(), 10)).get("body", b"")
        return [json.loads(line) for line in found.splitlines()]

    added, error = cluster.run(lines())
    assert (added["type"], error["type"], error["object"]["code"]) == ("ADDED", "ERROR", 410)
