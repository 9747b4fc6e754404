"""Subscriptions of the Subscriptions API, read as objects."""

import pytest

from distributary.knative.apiserver.http import ShownSubscription

GROUP = "/apis/subscriptions.distributary.dev/v1"
ALL = f"{GROUP}/apisubscriptions"
HERE = f"{GROUP}/namespaces/default/apisubscriptions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
FAILING = {"state": "failing", "failing": {"reason": "status-500"}, "waiting": 3}
READY = {"state": "ready", "failing": None, "waiting": 0}


class Some:
    """Shows these, in their order."""

    def __init__(self, *shown):
        self.shown = sorted(shown)

    def find(self, namespace, name):
        """By id, else by uid."""
        for one in self.shown:
            if one.namespace == namespace and name in (one.id, one.uid):
                return one
        return None

    def page(self, namespace, after, limit):
        """Those behind *after*."""
        found = [one for one in self.shown if (one.namespace, one.id) > after]
        return [one for one in found if namespace in (None, one.namespace)][:limit]


def _one(id_, namespace="default", status=READY):
    spec = {"id": id_, "sink": "http://sink/"}
    return ShownSubscription(namespace, id_, f"uid-{id_.lower()}", 2, 0, spec, status)


@pytest.fixture
def subscribed(cluster):
    """Three in one namespace, one in another."""
    cluster.api.subscriptions = Some(
        _one("Orders_EU"), _one("a", status=FAILING), _one("b"), _one("c", "other")
    )
    return cluster


def test_one_is_shown_by_its_id(subscribed):
    """As an object, with the subscription as its spec."""
    assert subscribed.get(f"{HERE}/a") == {
        "apiVersion": "subscriptions.distributary.dev/v1",
        "kind": "ApiSubscription",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "uid-a",
            "resourceVersion": "2",
            "generation": 2,
            "creationTimestamp": "1970-01-01T00:00:00Z",
            "annotations": {"subscriptions.distributary.dev/id": "a"},
        },
        "spec": {"id": "a", "sink": "http://sink/"},
        "status": FAILING,
    }
    for path in (f"{HERE}/none", f"{HERE}/c"):
        assert "not found" in subscribed.get(path, 404)["message"]


def test_an_id_that_is_no_name_is_shown_by_its_uid(subscribed):
    """The annotation has the id; there is no object of that name."""
    names = [each["metadata"]["name"] for each in subscribed.get(HERE)["items"]]
    assert names == ["uid-orders_eu", "a", "b"]
    found = subscribed.get(f"{HERE}/uid-orders_eu")
    assert found["metadata"]["annotations"] == {"subscriptions.distributary.dev/id": "Orders_EU"}
    subscribed.get(f"{HERE}/Orders_EU", 404)
    subscribed.get(f"{HERE}/uid-a", 404)


def test_a_list_comes_in_parts_and_is_selected(subscribed):
    """Of one namespace, or of all."""
    seen, token = [], ""
    while True:
        part = subscribed.get(f"{ALL}?limit=1&continue={token}")
        seen += [(one["metadata"]["namespace"], one["spec"]["id"]) for one in part["items"]]
        token = part["metadata"].get("continue", "")
        if not token:
            break
    assert seen == [("default", "Orders_EU"), ("default", "a"), ("default", "b"), ("other", "c")]
    (one,) = subscribed.get(f"{ALL}?fieldSelector=metadata.name%3Dc")["items"]
    assert one["metadata"]["namespace"] == "other"
    assert subscribed.get(f"{HERE}?labelSelector=team%3Dred")["items"] == []
    for token in ("x", "e30="):
        assert "token" in subscribed.get(f"{ALL}?continue={token}", 400)["message"]


def test_the_table_tells_what_fails(subscribed):
    """The reason, beside the state."""
    table = subscribed.get(HERE, accept=TABLE)
    names = [each["name"] for each in table["columnDefinitions"] if not each["priority"]]
    assert names == ["Name", "Sink", "State", "Failing", "Waiting", "Age"]
    assert [row["cells"][:5] for row in table["rows"][1:]] == [
        ["a", "http://sink/", "failing", "status-500", 3],
        ["b", "http://sink/", "ready", "", 0],
    ]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_is_told_where_to_go(subscribed, method):
    """They are only read here, and cannot be watched."""
    for path in (HERE, f"{HERE}/a"):
        answer = subscribed.ask(method, path)
        assert answer.status == 405
        assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
        assert "PUT /subscriptions/{id}" in answer.json()["message"]
    assert "watched" in subscribed.get(f"{HERE}?watch=true", 405)["message"]


def test_clients_learn_that_it_is_only_read(cluster):
    """Verbs, operations, and no subresource; before the start there is none to show."""
    (resource,) = cluster.get(GROUP)["resources"]
    assert (resource["name"], resource["verbs"]) == ("apisubscriptions", ["get", "list"])
    paths = cluster.get(f"/openapi/v3{GROUP}")["paths"]
    assert set(paths) == {
        ALL,
        *(f"{GROUP}/namespaces/{{namespace}}/apisubscriptions{end}" for end in ("", "/{name}")),
    }
    assert {method for path in paths.values() for method in path} == {"get"}
    assert cluster.get(HERE)["items"] == []
    cluster.get(f"{HERE}/a", 404)
    cluster.get(f"{GROUP}/namespaces/default/others", 404)
