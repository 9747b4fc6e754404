"""One object and lists: pages, selectors, versions, forms."""

import pytest
from structlog.testing import capture_logs

TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"
EVERYWHERE = "/apis/eventing.knative.dev/v1/triggers"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def names(listed):
    """Names in a list."""
    return [item["metadata"]["name"] for item in listed["items"]]


def test_an_object_is_read_as_it_was_made(cluster):
    """What the create answered is what a get shows."""
    made = cluster.trigger("a")
    assert cluster.get(f"{TRIGGERS}/a") == made
    assert made["apiVersion"] == "eventing.knative.dev/v1"
    assert made["metadata"]["uid"]


def test_an_object_that_is_not_there_is_a_status(cluster):
    """404 in Kubernetes' words, with what it was about."""
    assert cluster.get(f"{TRIGGERS}/a", 404) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'triggers.eventing.knative.dev "a" not found',
        "reason": "NotFound",
        "details": {"name": "a", "group": "eventing.knative.dev", "kind": "triggers"},
        "code": 404,
    }


def test_a_list_has_a_kind_and_a_version(cluster):
    """The version is the store's, so that a watch can begin there."""
    cluster.trigger("b")
    made = cluster.trigger("a")
    listed = cluster.get(TRIGGERS)
    assert (listed["kind"], listed["apiVersion"]) == ("TriggerList", "eventing.knative.dev/v1")
    assert listed["metadata"] == {"resourceVersion": made["metadata"]["resourceVersion"]}
    assert names(listed) == ["a", "b"]


def test_a_list_of_everything_spans_namespaces(cluster, good):
    """Without a namespace in the path; ordered by namespace, then name."""
    cluster.trigger("z")
    other = TRIGGERS.replace("default", "aaa")
    assert cluster.ask("POST", other, good("y")).status == 201
    assert names(cluster.get(EVERYWHERE)) == ["y", "z"]
    assert names(cluster.get(TRIGGERS)) == ["z"]
    assert names(cluster.get("/api/v1/namespaces")) == ["aaa", "default"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("labelSelector=a%3D1", ["x"]),
        ("labelSelector=a%20in%20(1,2)", ["x", "y"]),
        ("labelSelector=!a", ["z"]),
        ("fieldSelector=metadata.name%3Dy", ["y"]),
        ("fieldSelector=metadata.name!%3Dy&labelSelector=a", ["x"]),
    ],
)
def test_selectors_choose(cluster, query, expected):
    """By labels, by fields, by both."""
    for name, labels in (("x", {"a": "1"}), ("y", {"a": "2"}), ("z", {})):
        cluster.trigger(name, labels=labels)
    assert names(cluster.get(f"{TRIGGERS}?{query}")) == expected


def test_pages_show_one_moment(cluster):
    """What is made, changed or deleted between two pages is not in the second one."""
    for name in "abcde":
        cluster.trigger(name)
    first = cluster.get(f"{TRIGGERS}?limit=2")
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    cluster.ask("DELETE", f"{TRIGGERS}/c")
    cluster.trigger("cc")
    token = first["metadata"]["continue"]
    second = cluster.get(f"{TRIGGERS}?limit=2&continue={token}")
    assert names(second) == ["c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = cluster.get(f"{TRIGGERS}?limit=2&continue={second['metadata']['continue']}")
    assert names(third) == ["e"]
    assert set(third["metadata"]) == {"resourceVersion"}


def test_pages_are_as_full_with_a_selector(cluster):
    """A page holds as many as are chosen; how many remain is not said."""
    for number in range(6):
        cluster.trigger(f"t{number}", labels={"even": str(number % 2 == 0).lower()})
    first = cluster.get(f"{TRIGGERS}?limit=2&labelSelector=even%3Dtrue")
    assert names(first) == ["t0", "t2"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    rest = cluster.get(f"{TRIGGERS}?limit=2&labelSelector=even%3Dtrue&continue={token}")
    assert names(rest) == ["t4"]
    assert "continue" not in rest["metadata"]


def test_a_page_of_a_forgotten_moment_is_410(cluster):
    """Too many other lists were begun, and the objects are others now."""
    for name in "abc":
        cluster.trigger(name)
    token = cluster.get(f"{TRIGGERS}?limit=1")["metadata"]["continue"]
    for number in range(16):
        cluster.trigger(f"x{number}")
        cluster.get(f"{TRIGGERS}?limit=1")
    assert cluster.get(f"{TRIGGERS}?continue={token}", 410)["reason"] == "Expired"


@pytest.mark.parametrize("token", ["x", "e30", "%00", "eyJ2ZXJzaW9uIjoxfQ", "é"])
def test_a_token_that_is_none_is_400(cluster, token):
    """Any text gives a status."""
    assert cluster.get(f"{TRIGGERS}?continue={token}", 400)["reason"] == "BadRequest"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("resourceVersion=0", 200),
        ("resourceVersion={now}", 200),
        ("resourceVersion={old}", 200),
        ("resourceVersion={next}", 504),
        ("resourceVersion={old}&resourceVersionMatch=NotOlderThan", 200),
        ("resourceVersion={now}&resourceVersionMatch=Exact", 200),
        ("resourceVersion={old}&resourceVersionMatch=Exact", 410),
        ("resourceVersion={old}&limit=1", 410),
        ("resourceVersion=0&limit=1", 200),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Newest", 422),
        ("resourceVersionMatch=Exact", 422),
        ("sendInitialEvents=true", 422),
        ("resourceVersion=x", 400),
        ("resourceVersion=-1", 400),
        ("limit=x", 400),
        ("limit=-1", 200),
        ("labelSelector=a%3D%3D%3Db", 400),
        ("fieldSelector=spec.broker%3Da", 400),
        ("includeObject=All", 400),
        ("unknown=1", 200),
    ],
)
def test_versions_and_parameters_of_a_list(cluster, query, status):
    """Exact or not older than; what cannot be is refused with a status."""
    cluster.trigger("a")
    now = int(cluster.trigger("b")["metadata"]["resourceVersion"])
    target = query.format(now=now, old=now - 1, next=now + 1)
    answer = cluster.ask("GET", f"{TRIGGERS}?{target}")
    assert answer.status == status
    assert answer.json()["kind"] == ("TriggerList" if status == 200 else "Status")


def test_a_table_has_the_columns_that_people_know(cluster):
    """What kubectl prints as it stands."""
    cluster.trigger("a")
    table = cluster.get(TRIGGERS, accept=TABLE)
    assert table["kind"] == "Table"
    headings = [column["name"] for column in table["columnDefinitions"]]
    assert headings[:3] == ["Name", "Broker", "Subscriber_URI"]
    (row,) = table["rows"]
    assert row["cells"][:2] == ["a", "default"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    one = cluster.get(f"{TRIGGERS}/a?includeObject=Object", accept=TABLE)
    assert one["rows"][0]["object"]["kind"] == "Trigger"


def test_metadata_alone_is_shown_where_it_is_asked_for(cluster):
    """One object, and a list."""
    made = cluster.trigger("a")
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    shown = cluster.get(f"{TRIGGERS}/a", accept=accept)
    assert shown["kind"] == "PartialObjectMetadata"
    assert shown["metadata"] == made["metadata"]
    assert "spec" not in shown
    listed = cluster.get(TRIGGERS, accept=accept.replace("Metadata;", "MetadataList;"))
    assert (listed["kind"], listed["apiVersion"]) == (
        "PartialObjectMetadataList",
        "meta.k8s.io/v1",
    )
    assert listed["items"] == [shown]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("*/*", "TriggerList"),
        ("application/*", "TriggerList"),
        ("application/vnd.kubernetes.protobuf,application/json", "TriggerList"),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "TriggerList"),
        ("application/json;q=0.1,application/json;as=Table;v=v1beta1;g=meta.k8s.io", "Table"),
        ("application/json;q=0,*/*;q=x", "TriggerList"),
        ("application/vnd.kubernetes.protobuf", "Status"),
        ("application/xml", "Status"),
        ("application/json;as=Table;v=v9;g=meta.k8s.io", "Status"),
    ],
)
def test_the_form_follows_accept(cluster, accept, expected):
    """The first form that is there; none of them: 406."""
    answer = cluster.ask("GET", TRIGGERS, accept=accept)
    assert answer.json()["kind"] == expected
    assert answer.status == (406 if expected == "Status" else 200)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{TRIGGERS}/", 404),
        (f"{TRIGGERS}/a/", 404),
        (f"{TRIGGERS}/a/scale", 404),
        (f"{TRIGGERS}/a/status/x", 404),
        (f"{EVERYWHERE}/a", 404),
        ("/apis/eventing.knative.dev/v2/triggers", 404),
        ("/apis/eventing.knative.dev/v1/nothing", 404),
        ("/apis//v1/triggers", 404),
        ("/apis/apps/v1", 404),
        ("/api/v1/triggers", 404),
        ("/api/v1/namespaces/default/namespaces", 404),
        ("/api/v1/namespaces//services", 404),
        ("/api/v1/namespaces/default/configmaps/a/status", 404),
        ("/openapi/v3/apis/apps/v1", 404),
        ("/api/v1/namespaces/default", 200),
        ("/api/v1/namespaces/default/status", 200),
        ("/api/v1/namespaces/default/services", 200),
        ("/api/v1/services", 200),
        ("/api/v1/watch/services?timeoutSeconds=1&resourceVersion=9999", 200),
    ],
)
def test_paths_name_what_is_there(cluster, path, status):
    """Everything else is a 404 with a status."""
    answer = cluster.ask("GET", path)
    assert answer.status == status
    if status == 404:
        assert answer.json()["reason"] == "NotFound"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", TRIGGERS, "GET, POST, DELETE, HEAD, OPTIONS"),
        ("POST", f"{TRIGGERS}/a", "GET, PUT, PATCH, DELETE, HEAD, OPTIONS"),
        ("DELETE", f"{TRIGGERS}/a/status", "GET, PUT, PATCH, HEAD, OPTIONS"),
        ("POST", EVERYWHERE, "GET, HEAD, OPTIONS"),
        ("DELETE", EVERYWHERE, "GET, HEAD, OPTIONS"),
        ("POST", "/version", "GET, HEAD, OPTIONS"),
        ("BREW", "/api/v1", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_method_that_a_path_does_not_know_is_405(cluster, method, path, allow):
    """With those that it knows; OPTIONS says the same."""
    answer = cluster.ask(method, path)
    assert answer.status == 405
    assert answer.json()["reason"] == "MethodNotAllowed"
    assert answer.headers["allow"] == allow
    asked = cluster.ask("OPTIONS", path)
    assert (asked.status, asked.headers["allow"]) == (200, allow)


def test_head_is_get_without_a_body(cluster):
    """The same header fields, and nothing after them; a watch is not even begun."""
    shown = cluster.ask("GET", TRIGGERS)
    head = cluster.ask("HEAD", TRIGGERS)
    assert (head.status, head.headers, head.body) == (200, shown.headers, b"")
    assert cluster.ask("HEAD", f"{TRIGGERS}?watch=1").status == 200


def test_a_bug_is_a_status(cluster, monkeypatch):
    """500 without a word of what went wrong inside; clients of this API read nothing else."""

    def fail(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(cluster.objects, "list", fail)
    with capture_logs() as logs:
        answer = cluster.ask("GET", TRIGGERS)
    assert (answer.status, answer.json()["reason"]) == (500, "InternalError")
    assert [entry["event"] for entry in logs] == ["request-crashed"]
    assert b"secret" not in answer.body
