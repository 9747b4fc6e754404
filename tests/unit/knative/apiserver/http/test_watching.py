"""Watches: every change once and in order, bookmarks, selectors, ends."""

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from distributary.knative.apiserver.http import _view, _watches

TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"
EVERYWHERE = "/apis/eventing.knative.dev/v1/triggers"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def shown(lines):
    """Type and name of each line."""
    return [(line["type"], line["object"]["metadata"].get("name")) for line in lines]


def label(cluster, name, **labels):
    """Change labels."""
    target = f"{TRIGGERS}/{name}"
    assert cluster.ask("PATCH", target, {"metadata": {"labels": labels}}, MERGE).status == 200


def version(cluster):
    """The newest version."""
    return cluster.get(TRIGGERS)["metadata"]["resourceVersion"]


def test_changes_come_in_order_after_a_version(cluster):
    """What happened since then first, then what happens."""
    cluster.trigger("before")
    since = version(cluster)
    cluster.trigger("a")
    stream = cluster.watch(f"{TRIGGERS}?watch=true&resourceVersion={since}")
    assert shown(cluster.lines(stream, 1)) == [("ADDED", "a")]
    label(cluster, "a", x="1")
    cluster.ask("DELETE", f"{TRIGGERS}/a")
    lines = cluster.lines(stream, 2)
    assert shown(lines) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert lines[0]["object"]["metadata"]["labels"]["x"] == "1"
    versions = [int(line["object"]["metadata"]["resourceVersion"]) for line in lines]
    assert versions[0] < versions[1]


@pytest.mark.parametrize("query", ["watch=1", "watch=true&resourceVersion=0"])
def test_without_a_version_all_that_stands_comes_first(cluster, query):
    """As additions; then the changes."""
    cluster.trigger("a")
    cluster.trigger("b")
    stream = cluster.watch(f"{TRIGGERS}?{query}")
    assert shown(cluster.lines(stream, 2)) == [("ADDED", "a"), ("ADDED", "b")]
    cluster.trigger("c")
    assert shown(cluster.lines(stream, 1)) == [("ADDED", "c")]


def test_a_streamed_list_ends_with_an_annotated_bookmark(cluster):
    """``sendInitialEvents``: clients know when they have seen everything."""
    cluster.trigger("a")
    newest = version(cluster)
    stream = cluster.watch(
        f"{TRIGGERS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        "&allowWatchBookmarks=true"
    )
    added, bookmark = cluster.lines(stream, 2)
    assert added["type"] == "ADDED"
    assert bookmark == {
        "type": "BOOKMARK",
        "object": {
            "kind": "Trigger",
            "apiVersion": "eventing.knative.dev/v1",
            "metadata": {
                "resourceVersion": newest,
                "creationTimestamp": None,
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        },
    }


def test_initial_events_may_be_declined(cluster):
    """Then only changes come."""
    cluster.trigger("a")
    stream = cluster.watch(
        f"{TRIGGERS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    )
    cluster.run(asyncio.sleep(0))
    cluster.trigger("b")
    assert shown(cluster.lines(stream, 1)) == [("ADDED", "b")]


@pytest.mark.parametrize(
    "query",
    [
        "watch=1&sendInitialEvents=true",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
        "watch=1&resourceVersionMatch=NotOlderThan",
    ],
)
def test_parameters_that_do_not_go_together_are_422(cluster, query):
    """Before anything is streamed."""
    assert cluster.get(f"{TRIGGERS}?{query}", 422)["reason"] == "Invalid"


def test_a_selector_turns_changes_into_additions_and_deletions(cluster):
    """Who begins to be chosen is added; who no longer is, is deleted as it last stood."""
    cluster.trigger("a")
    stream = cluster.watch(f"{TRIGGERS}?watch=1&labelSelector=x%3D1&resourceVersion=1")
    label(cluster, "a", y="1")
    label(cluster, "a", x="1")
    label(cluster, "a", y="2")
    label(cluster, "a", x="2")
    label(cluster, "a", y="3")
    label(cluster, "a", x="1")
    cluster.ask("DELETE", f"{TRIGGERS}/a")
    lines = cluster.lines(stream, 5)
    assert [line["type"] for line in lines] == [
        "ADDED",
        "MODIFIED",
        "DELETED",
        "ADDED",
        "DELETED",
    ]
    assert lines[2]["object"]["metadata"]["labels"]["x"] == "1"
    versions = [int(line["object"]["metadata"]["resourceVersion"]) for line in lines]
    assert versions == sorted(set(versions))


def test_one_object_is_watched_by_its_name(cluster):
    """By field selector, by its own path, by the deprecated path."""
    cluster.trigger("a")
    cluster.trigger("b")
    old = TRIGGERS.replace("/v1/", "/v1/watch/")
    targets = (
        f"{TRIGGERS}?watch=1&fieldSelector=metadata.name%3Db",
        f"{TRIGGERS}/b?watch=1",
        f"{old}/b",
    )
    for target in targets:
        assert shown(cluster.lines(cluster.watch(target), 1)) == [("ADDED", "b")]


def test_a_namespace_is_watched_alone(cluster, good):
    """Changes of others are not told; who watches all namespaces hears of both."""
    here, everywhere = (
        cluster.watch(f"{path}?watch=1&resourceVersion=1") for path in (TRIGGERS, EVERYWHERE)
    )
    cluster.ask("POST", TRIGGERS.replace("default", "other"), good("x"))
    cluster.trigger("a")
    assert shown(cluster.lines(here, 1)) == [("ADDED", "a")]
    assert shown(cluster.lines(everywhere, 2)) == [("ADDED", "x"), ("ADDED", "a")]


def test_tables_are_watched_row_by_row(cluster):
    """As ``kubectl get -w`` prints them; metadata alone works too."""
    cluster.trigger("a")
    (line,) = cluster.lines(cluster.watch(f"{TRIGGERS}?watch=1", TABLE), 1)
    assert line["object"]["kind"] == "Table"
    assert line["object"]["rows"][0]["cells"][0] == "a"
    accept = TABLE.replace("Table", "PartialObjectMetadata")
    (line,) = cluster.lines(cluster.watch(f"{TRIGGERS}?watch=1", accept), 1)
    assert line["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "Trigger"),
        (TABLE, "Table"),
        (TABLE.replace("Table", "PartialObjectMetadata"), "PartialObjectMetadata"),
    ],
)
def test_a_client_that_takes_bookmarks_gets_them(cluster, accept, kind):
    """About every minute, and at the end; they say the version in which all was told."""
    query = "watch=1&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=100"
    stream = cluster.watch(f"{TRIGGERS}?{query}", accept)
    cluster.run(asyncio.sleep(0))
    cluster.clock.move_to(61)
    cluster.trigger("a")
    added, bookmark = cluster.lines(stream, 2)
    assert (added["type"], bookmark["type"]) == ("ADDED", "BOOKMARK")
    assert bookmark["object"]["kind"] == kind
    assert bookmark["object"]["metadata"]["resourceVersion"] == version(cluster)
    cluster.clock.move_to(101)
    cluster.trigger("b")
    added, bookmark, end = cluster.lines(stream, 3)
    assert bookmark["type"] == "BOOKMARK"
    assert end is None


def test_a_client_that_takes_none_gets_no_bookmark(cluster):
    """Nothing but changes."""
    stream = cluster.watch(f"{TRIGGERS}?watch=1&resourceVersion=1&timeoutSeconds=100")
    cluster.run(asyncio.sleep(0))
    cluster.clock.move_to(101)
    cluster.trigger("a")
    added, end = cluster.lines(stream, 2)
    assert added["type"] == "ADDED"
    assert end is None


def test_a_watch_without_an_end_ends_all_the_same(cluster):
    """After half an hour at least and an hour at most."""
    stream = cluster.watch(f"{TRIGGERS}?watch=1&resourceVersion=1")
    cluster.run(asyncio.sleep(0))
    cluster.clock.move_to(1.5 * 1800 - 1)
    cluster.trigger("a")
    assert shown(cluster.lines(stream, 1)) == [("ADDED", "a")]
    cluster.clock.move_to(1.5 * 1800)
    cluster.trigger("b")
    assert cluster.lines(stream, 2)[1] is None


def test_a_version_that_is_too_old_is_said_in_the_stream(make_cluster):
    """410 as an event, as the API server does; a client lists anew."""
    small = make_cluster(changes_kept_max=2)
    for name in "abcd":
        small.trigger(name)
    for target, status in ((1, 410), (99, 504)):
        stream = small.watch(f"{TRIGGERS}?watch=1&resourceVersion={target}")
        error, end = small.lines(stream, 2)
        assert (error["type"], error["object"]["code"]) == ("ERROR", status)
        assert end is None


def test_a_watcher_that_reads_too_slowly_gets_410(make_cluster):
    """What it was told before is whole and in order; then it is told to begin anew."""
    small = make_cluster(changes_kept_max=3)
    stream = small.watch(f"{TRIGGERS}?watch=1&resourceVersion={version(small)}")
    small.trigger("a")
    assert shown(small.lines(stream, 1)) == [("ADDED", "a")]
    stream.held.clear()
    for number in range(6):
        small.trigger(f"t{number}")
    stream.held.set()
    lines = []
    while not lines or lines[-1] is not None:
        lines += small.lines(stream, 1)
    *told, error, _ = lines
    assert shown(told) == [("ADDED", f"t{number}") for number in range(len(told))]
    assert len(told) < 6
    assert (error["type"], error["object"]["reason"]) == ("ERROR", "Expired")


def test_a_client_that_leaves_costs_nothing_more(cluster):
    """Its cursor is given back at once, though nothing changes."""
    stream = cluster.watch(f"{TRIGGERS}?watch=1&resourceVersion=1")
    cluster.run(asyncio.sleep(0))
    stream.left.set()
    cluster.run(asyncio.wait_for(stream.task, 10))
    assert cluster.api._watches._open == set()


def test_closing_ends_every_watch_in_good_order(cluster):
    """The answers are whole, so that the server can stop."""
    streams = [cluster.watch(f"{TRIGGERS}?watch=1&resourceVersion=1") for _ in range(3)]
    cluster.run(asyncio.sleep(0))
    cluster.run(cluster.api.close())
    for stream in streams:
        assert cluster.lines(stream, 1) == [None]
        cluster.run(asyncio.wait_for(stream.task, 10))


def test_a_bug_ends_a_watch_with_a_status(cluster, monkeypatch):
    """The client learns that it must begin anew, and no more."""
    stream = cluster.watch(f"{TRIGGERS}?watch=1&resourceVersion=1")
    cluster.run(asyncio.sleep(0))

    def fail(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(cluster.api._watches._shared, "of", fail)
    with capture_logs() as logs:
        cluster.trigger("a")
        error, end = cluster.lines(stream, 2)
    assert (error["type"], error["object"]["code"], end) == ("ERROR", 500, None)
    assert [entry["event"] for entry in logs] == ["watch-crashed"]
    assert "secret" not in str(error)


def test_changes_are_encoded_once_for_all_who_watch_the_same(cluster, monkeypatch):
    """A thousand watchers cost a thousand writes, not a thousand encodings."""
    encoded = []
    real = _view.ListView.lines
    monkeypatch.setattr(_view.ListView, "lines", lambda *given: encoded.append(1) or real(*given))
    streams = [cluster.watch(f"{TRIGGERS}?watch=1&resourceVersion=1") for _ in range(10)]
    cluster.run(asyncio.sleep(0))
    cluster.trigger("a")
    for stream in streams:
        assert shown(cluster.lines(stream, 1)) == [("ADDED", "a")]
    assert len(encoded) == 1


def test_what_is_kept_for_other_watchers_is_bounded(cluster, monkeypatch):
    """By number and by size; the oldest goes first."""
    monkeypatch.setattr(_watches, "SHARED_MAX", 2)
    stream = cluster.watch(f"{TRIGGERS}?watch=1&resourceVersion=1")
    for number in range(3):
        cluster.trigger(f"t{number}")
        cluster.lines(stream, 1)
    shared = cluster.api._watches._shared
    kept = [json.loads(lines)["object"]["metadata"]["name"] for lines in shared._runs.values()]
    assert kept == ["t1", "t2"]
    assert shared._size_bytes == sum(map(len, shared._runs.values()))
    monkeypatch.setattr(_watches, "SHARED_BYTES_MAX", 1)
    cluster.trigger("t3")
    cluster.lines(stream, 1)
    assert (len(shared._runs), shared._size_bytes) == (0, 0)
