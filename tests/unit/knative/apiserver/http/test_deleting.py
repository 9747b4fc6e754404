"""Deleting one object, or many."""

import pytest

from distributary.core.errors import StoreError
from distributary.knative.apiserver.machinery import Key, StatusError
from kit.asgi_client import AsgiClient

TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"
MERGE = "application/merge-patch+json"


def test_a_delete_is_answered_with_a_status_once_its_route_is_gone(cluster):
    """``Success`` with the uid; the route's end is awaited, for a bounded time."""
    made = cluster.trigger("a")
    answer = cluster.ask("DELETE", f"{TRIGGERS}/a")
    assert (answer.status, answer.json()) == (
        200,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {
                "name": "a",
                "group": "eventing.knative.dev",
                "kind": "triggers",
                "uid": made["metadata"]["uid"],
            },
        },
    )
    ((key, wait_s),) = cluster.settled
    assert key == Key("triggers.eventing.knative.dev", "default", "a")
    assert 0 < wait_s <= 30
    cluster.get(f"{TRIGGERS}/a", 404)


@pytest.mark.parametrize(
    ("query", "body", "left"),
    [
        ("", None, False),
        ("", {"propagationPolicy": "Background"}, False),
        ("?propagationPolicy=Foreground", None, False),
        ("", {"propagationPolicy": "Orphan"}, True),
        ("?propagationPolicy=Orphan", None, True),
        ("", {"orphanDependents": True}, True),
    ],
)
def test_dependents_end_with_their_owner_or_are_left(cluster, query, body, left):
    """As ``kubectl delete --cascade`` asks."""
    config_maps = "/api/v1/namespaces/default/configmaps"
    owner = cluster.ask("POST", config_maps, {"metadata": {"name": "owner"}}).json()
    named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    references = [named | {"uid": owner["metadata"]["uid"]}]
    metadata = {"name": "child", "ownerReferences": references}
    assert cluster.ask("POST", config_maps, {"metadata": metadata}).status == 201
    assert cluster.ask("DELETE", f"{config_maps}/owner{query}", body).status == 200
    assert cluster.ask("GET", f"{config_maps}/child").status == (200 if left else 404)


def test_what_is_not_there_cannot_be_deleted(cluster):
    """404."""
    assert cluster.ask("DELETE", f"{TRIGGERS}/a").status == 404


@pytest.mark.parametrize("as_query", [True, False])
def test_a_dry_run_deletes_nothing(cluster, as_query):
    """In the query or in the body."""
    cluster.trigger("a")
    query, body = ("?dryRun=All", None) if as_query else ("", {"dryRun": ["All"]})
    assert cluster.ask("DELETE", f"{TRIGGERS}/a{query}", body).status == 200
    assert cluster.settled == []
    cluster.get(f"{TRIGGERS}/a")


@pytest.mark.parametrize(
    "preconditions",
    [{"uid": "other"}, {"resourceVersion": "1"}, {"resourceVersion": "x"}],
)
def test_preconditions_are_kept(cluster, preconditions):
    """409 where another incarnation or version stands."""
    cluster.trigger("a")
    answer = cluster.ask("DELETE", f"{TRIGGERS}/a", {"preconditions": preconditions})
    assert (answer.status, answer.json()["reason"]) == (409, "Conflict")
    cluster.get(f"{TRIGGERS}/a")


def test_preconditions_that_hold_let_the_delete_pass(cluster):
    """Uid and version of what stands."""
    metadata = cluster.trigger("a")["metadata"]
    conditions = {name: metadata[name] for name in ("uid", "resourceVersion")}
    body = {"kind": "DeleteOptions", "preconditions": conditions, "gracePeriodSeconds": 0}
    assert cluster.ask("DELETE", f"{TRIGGERS}/a", body).status == 200


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("", {"propagationPolicy": "Foreground"}, 200),
        ("?propagationPolicy=Background", None, 200),
        ("", {"propagationPolicy": "Sideways"}, 422),
        ("", {"dryRun": ["Some"]}, 422),
        ("", {"dryRun": "All"}, 422),
        ("", {"kind": "Trigger"}, 400),
        ("", {"preconditions": []}, 200),
        ("", {"preconditions": [1]}, 400),
        ("", {"preconditions": {"uid": 1}}, 400),
        ("", b"{", 400),
    ],
)
def test_options_of_a_delete(cluster, query, body, status):
    """What means nothing here is taken; what nobody knows is refused, and nothing is deleted."""
    cluster.trigger("a")
    assert cluster.ask("DELETE", f"{TRIGGERS}/a{query}", body).status == status
    cluster.get(f"{TRIGGERS}/a", 404 if status == 200 else 200)


def test_finalizers_keep_an_object(cluster):
    """It is answered as it waits; when the last one goes, so does the object."""
    cluster.trigger("a", finalizers=["example.com/x"])
    answer = cluster.ask("DELETE", f"{TRIGGERS}/a")
    assert answer.json()["metadata"]["deletionTimestamp"]
    assert cluster.settled == []
    patch = {"metadata": {"finalizers": None}}
    assert cluster.ask("PATCH", f"{TRIGGERS}/a", patch, MERGE).status == 200
    cluster.get(f"{TRIGGERS}/a", 404)


def test_a_collection_is_deleted_by_selector(cluster):
    """What was deleted is the answer; the others stay."""
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"x": "1"})):
        cluster.trigger(name, labels=labels)
    answer = cluster.ask("DELETE", f"{TRIGGERS}?labelSelector=x%3D1")
    assert answer.json()["kind"] == "TriggerList"
    assert [item["metadata"]["name"] for item in answer.json()["items"]] == ["a", "c"]
    left = cluster.get(TRIGGERS)["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]
    assert len(cluster.settled) == 2


@pytest.mark.parametrize("dry", [True, False])
def test_a_dry_run_is_noted_in_the_state_of_its_request(cluster, dry):
    """The audit log says so; of a write by its query, of a delete by its body too."""
    noted = []

    async def application(scope, receive, send):
        state = scope.setdefault("state", {})
        await cluster.api(scope, receive, send)
        noted.append(state["dry_run"])

    cluster.trigger("a")
    client = AsgiClient(application, cluster.runner)
    query = "?dryRun=All" if dry else ""
    options = b'{"dryRun": ["All"]}' if dry else b"{}"
    merge = [("content-type", "application/merge-patch+json")]
    patch = b'{"metadata": {"labels": {"x": "1"}}}'
    assert client.request("PATCH", f"{TRIGGERS}/a{query}", patch, merge).status == 200
    json = [("content-type", "application/json")]
    assert client.request("DELETE", TRIGGERS, options, json).status == 200
    assert noted == [dry, dry]


def test_a_collection_of_which_a_part_is_gone_is_noted_in_the_state_of_its_request(
    cluster, monkeypatch
):
    """The audit log has to say that something was changed, though the answer is a refusal."""
    noted = []

    async def application(scope, receive, send):
        state = scope.setdefault("state", {})
        await cluster.api(scope, receive, send)
        noted.append(state["partly"])

    for name in ("a", "b", "c"):
        cluster.trigger(name)
    delete = cluster.objects.delete

    async def refusing(key, write):
        if key.name == "b":
            raise StatusError("TooManyRequests", "too many wait")
        return await delete(key, write)

    monkeypatch.setattr(cluster.objects, "delete", refusing)
    client = AsgiClient(application, cluster.runner)
    json = [("content-type", "application/json")]
    assert client.request("DELETE", f"{TRIGGERS}?dryRun=All", b"{}", json).status == 429
    assert client.request("DELETE", TRIGGERS, b"{}", json).status == 429
    assert noted == [False, True]
    assert [item["metadata"]["name"] for item in cluster.get(TRIGGERS)["items"]] == ["b"]


def test_a_dry_run_of_a_collection_deletes_nothing(cluster):
    """It says what would go."""
    cluster.trigger("a")
    assert len(cluster.ask("DELETE", f"{TRIGGERS}?dryRun=All").json()["items"]) == 1
    cluster.get(f"{TRIGGERS}/a")


def test_a_store_that_fails_is_503(cluster, monkeypatch):
    """With a time to come again; nothing is said to be deleted."""
    cluster.trigger("a")

    async def fail(*_):
        raise StoreError("the disk is full")

    monkeypatch.setattr(cluster.objects, "delete", fail)
    answer = cluster.ask("DELETE", f"{TRIGGERS}/a")
    assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable")
    assert answer.headers["retry-after"] == "1"
    assert "disk" not in answer.json()["message"]  # such a text may name hosts and folders
    assert cluster.ask("DELETE", TRIGGERS).status == 503
