"""Lists that clients read slowly keep a bounded part of what has changed since."""

import asyncio
import gc
import json
from types import AsyncGeneratorType, CoroutineType

import msgspec
import pytest

from distributary.access import Grant, Identity, IdentityKind, Verb
from distributary.knative.apiserver.http import _api, _open_lists, _view
from distributary.knative.apiserver.http._negotiation import Form
from distributary.knative.apiserver.http._open_lists import OpenLists
from distributary.knative.apiserver.http._view import ListView
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.objects import Stored
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


def kept_states(name):
    """What every state of a ConfigMap says that is in memory."""
    gc.collect()
    found = [each for each in gc.get_objects() if isinstance(each, Stored)]
    return {each.content["data"]["a"][0] for each in found if each.key.name == name}


def pass_by(cluster):
    """Change another kind, so that the window holds nothing else."""
    for number in range(2):
        cluster.trigger(f"t{number}")


def test_a_client_that_reads_no_further_keeps_no_object_of_a_list_that_is_dropped(
    make_cluster, monkeypatch
):
    """The run that waits for it is in memory as JSON alone."""
    cluster = make_cluster(changes_kept_max=1)
    monkeypatch.setattr(_open_lists, "OPEN_REPLACED_BYTES_MAX", 0)
    monkeypatch.setattr(_view, "PIECE_BYTES", 1)
    monkeypatch.setattr(_api, "PIECE_BYTES", 1)
    fill(cluster, "shop", "a", "POST")
    stream = cluster.watch(PATH.format("shop"))

    async def stall():
        # The start, the head, and the first object.
        while stream.pieces.qsize() < 3:  # noqa: ASYNC110 - it looks at what a task does
            await asyncio.sleep(0)
        stream.held.clear()

    cluster.run(asyncio.wait_for(stall(), 10))
    fill(cluster, "shop", "b")
    pass_by(cluster)
    assert [kept_states(f"c{number}") for number in range(4)] == [{"b"}] * 4
    stream.held.set()
    cluster.run(asyncio.wait_for(stream.task, 10))


def test_a_watch_that_is_open_keeps_no_older_state(make_cluster):
    """Neither of those that it began with, nor of the last changes; nor what it has sent."""
    cluster = make_cluster(changes_kept_max=1)
    fill(cluster, "shop", "a", "POST")
    stream = cluster.watch(f"{PATH.format('shop')}?watch=true")
    pieces = []

    async def read():
        while not pieces:
            body = (await asyncio.wait_for(stream.pieces.get(), 10)).get("body", b"")
            pieces.extend([body] if body else [])
        await asyncio.sleep(0)

    cluster.run(read())
    holders = gc.get_referrers(pieces[0])
    assert not [each for each in holders if isinstance(each, AsyncGeneratorType | CoroutineType)]
    fill(cluster, "shop", "b")
    assert kept_states("c0") == {"b"}
    fill(cluster, "shop", "c")
    cluster.run(asyncio.sleep(0.1))
    pass_by(cluster)
    assert [kept_states(f"c{number}") for number in range(4)] == [{"c"}] * 4
    assert not stream.task.done()
