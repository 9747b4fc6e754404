"""Creating, replacing and patching over HTTP."""

import base64
import json

import msgspec
import pytest
import structlog

from distributary.core.errors import StoreError
from distributary.resource import KeptSecret

TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"
SERVICES = "/api/v1/namespaces/default/services"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def managers(obj):
    """Who owns fields, and how."""
    return [(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"]]


def test_a_create_is_201_and_names_its_manager(cluster, good):
    """The manager is the client's program unless it says another name."""
    answer = cluster.ask("POST", TRIGGERS, good("a"), user_agent="kubectl/v1.32 (linux)")
    assert answer.status == 201
    assert managers(answer.json()) == [("kubectl", "Update")]
    named = cluster.ask("POST", f"{TRIGGERS}?fieldManager=me", good("b"), user_agent="x/1")
    assert managers(named.json()) == [("me", "Update")]


def test_a_name_is_generated(cluster, good):
    """``generateName`` and five characters."""
    body = good("")
    body["metadata"] = {"generateName": "t-"}
    made = cluster.ask("POST", TRIGGERS, body).json()
    assert made["metadata"]["name"].startswith("t-")
    assert len(made["metadata"]["name"]) == 7


def test_a_client_need_not_say_that_its_body_is_json(cluster, good):
    """As Kubernetes has it: its Python client says nothing for any create."""
    for name, content_type in (("a", ""), ("b", "; charset=utf-8")):
        answer = cluster.ask("POST", TRIGGERS, good(name), content_type)
        assert answer.status == 201, answer.body


@pytest.mark.parametrize(
    "field",
    [
        {"origin": "http://127.0.0.1:8080"},
        {"referer": "http://127.0.0.1:8080/docs"},
        {"sec_fetch_site": "same-origin"},
        {"user_agent": "Mozilla/5.0 (X11; Linux x86_64)"},
    ],
    ids=str,
)
def test_a_browser_must_say_it(cluster, good, field):
    """Any page can have it send such a body, without asking the server first."""
    assert cluster.ask("POST", TRIGGERS, good("a"), "", **field).status == 415
    assert cluster.ask("POST", TRIGGERS, good("a"), "text/plain").status == 415


def test_yaml_is_taken(cluster):
    """As kubectl's users write it."""
    body = b"""
metadata: {name: a}
spec:
  broker: default
  subscriber: {uri: "http://a.example/"}
"""
    answer = cluster.ask("POST", TRIGGERS, body, "application/yaml")
    assert (answer.status, answer.json()["kind"]) == (201, "Trigger")


def test_a_dry_run_stores_nothing(cluster, good):
    """The answer is what would stand."""
    answer = cluster.ask("POST", f"{TRIGGERS}?dryRun=All", good("a"))
    assert answer.status == 201
    assert answer.json()["spec"]["broker"] == "default"
    cluster.get(f"{TRIGGERS}/a", 404)


def test_every_fault_is_a_cause(cluster, good):
    """422 with the path of each, and the name of the object, which the path does not have."""
    body = good("A_b", {"broker": "", "subscriber": {}})
    answer = cluster.ask("POST", TRIGGERS, body)
    assert (answer.status, answer.json()["reason"]) == (422, "Invalid")
    details = answer.json()["details"]
    assert (details["name"], details["kind"]) == ("A_b", "Trigger")
    assert {"metadata.name", "spec.broker"} <= {cause["field"] for cause in details["causes"]}


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{", 400),
        ("application/json", b"[]", 400),
        ("application/json", b"", 400),
        ("application/yaml", b"a: [", 400),
        ("application/vnd.example", b"{}", 415),
        ("application/x-www-form-urlencoded", b"{}", 415),
        ("application/json", b'{"kind":"Broker"}', 400),
        ("application/json", b'{"apiVersion":"eventing.knative.dev/v2"}', 400),
        ("application/json", b'{"metadata":{"name":"a","namespace":"other"}}', 400),
        ("application/json", b'{"a":"%s"}' % (b"x" * 2 * 1024 * 1024), 413),
    ],
    ids=range(10),
)
def test_a_body_that_is_no_object_is_refused(cluster, content_type, body, status):
    """With a status that says why; nothing is made."""
    fields = [("content-type", content_type)]
    answer = cluster.client.request("POST", TRIGGERS, body, fields)
    assert (answer.status, answer.json()["code"]) == (status, status)
    assert cluster.get(TRIGGERS)["items"] == []


def test_a_compressed_body_is_415(cluster, good):
    """Nobody reads it."""
    answer = cluster.ask("POST", TRIGGERS, good("a"), content_encoding="gzip")
    assert answer.status == 415


def test_an_object_above_its_limit_is_413(cluster, good):
    """The body may be larger than the object."""
    body = good("a")
    body["spec"]["subscriber"]["uri"] += "x" * 1024 * 1024
    assert cluster.ask("POST", TRIGGERS, body).status in (413, 422)
    config = {"metadata": {"name": "a"}, "data": {"a": "x" * 1024 * 1024}}
    answer = cluster.ask("POST", "/api/v1/namespaces/default/configmaps", config)
    assert (answer.status, answer.json()["reason"]) == (413, "RequestEntityTooLarge")


def test_unknown_and_repeated_fields_are_warned_of(cluster, good):
    """In ``Warning`` fields, as the API server does; the object is made."""
    text = json.dumps(good("a", {"filtr": {}})).replace('"broker"', '"broker": "x", "broker"')
    answer = cluster.ask("POST", TRIGGERS, text.encode())
    assert answer.status == 201
    warning = answer.headers["warning"]
    assert '299 - "unknown field \\"spec.filtr\\""' in warning
    assert '299 - "duplicate field \\"spec.broker\\""' in warning


def test_the_number_of_warnings_is_bounded(cluster, good):
    """The last one says how many were left out."""
    spec = {f"x{number}": 1 for number in range(60)}
    answer = cluster.ask("POST", TRIGGERS, good("a", spec))
    assert answer.headers["warning"].count("299 - ") == 21
    assert "40 more warnings are left out" in answer.headers["warning"]


def test_a_strict_client_gets_all_unknown_fields_as_an_error(cluster, good):
    """400, and nothing is made."""
    text = json.dumps(good("a", {"filtr": {}})).replace('"broker"', '"broker": "x", "broker"')
    answer = cluster.ask("POST", f"{TRIGGERS}?fieldValidation=Strict", text.encode())
    assert answer.status == 400
    assert answer.json()["message"] == (
        'Trigger in version "v1" cannot be handled as a Trigger: strict decoding error: '
        'unknown field "spec.filtr", duplicate field "spec.broker"'
    )
    cluster.get(f"{TRIGGERS}/a", 404)


def test_who_wants_no_validation_gets_no_warning(cluster, good):
    """``Ignore``."""
    answer = cluster.ask("POST", f"{TRIGGERS}?fieldValidation=Ignore", good("a", {"x": 1}))
    assert answer.status == 201
    assert "warning" not in answer.headers


@pytest.mark.parametrize(
    "query", ["fieldValidation=Loose", "dryRun=some", "fieldManager=" + "x" * 129]
)
def test_options_that_nobody_knows_are_422(cluster, good, query):
    """They must not look as if they had been followed."""
    answer = cluster.ask("POST", f"{TRIGGERS}?{query}", good("a"))
    assert (answer.status, answer.json()["reason"]) == (422, "Invalid")
    assert cluster.get(TRIGGERS)["items"] == []


def test_a_replace_needs_an_object(cluster, good):
    """It creates none."""
    answer = cluster.ask("PUT", f"{TRIGGERS}/a", good("a"))
    assert (answer.status, answer.json()["reason"]) == (404, "NotFound")


def test_a_replace_in_an_old_version_is_409(cluster):
    """In Kubernetes' words; without a version it replaces whatever stands."""
    first = cluster.trigger("a")
    first["metadata"]["labels"] = {"x": "1"}
    second = cluster.ask("PUT", f"{TRIGGERS}/a", first)
    assert (second.status, second.json()["metadata"]["labels"]["x"]) == (200, "1")
    answer = cluster.ask("PUT", f"{TRIGGERS}/a", first)
    assert (answer.status, answer.json()["reason"]) == (409, "Conflict")
    assert "the object has been modified" in answer.json()["message"]
    del first["metadata"]["resourceVersion"]
    assert cluster.ask("PUT", f"{TRIGGERS}/a", first).status == 200


def test_a_replace_keeps_to_the_name_in_its_path(cluster, good):
    """400."""
    cluster.trigger("a")
    assert cluster.ask("PUT", f"{TRIGGERS}/a", good("b")).status == 400


def test_an_immutable_field_is_422_with_its_path(cluster):
    """The Broker of a Trigger."""
    cluster.trigger("a")
    answer = cluster.ask("PATCH", f"{TRIGGERS}/a", {"spec": {"broker": "b"}}, MERGE)
    assert answer.status == 422
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == ["spec.broker"]


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (MERGE, {"metadata": {"labels": {"x": "1", "gone": None}}}),
        (JSON_PATCH, [{"op": "replace", "path": "/metadata/labels/gone", "value": "no"}]),
        (f"{MERGE}; charset=utf-8", {"metadata": {"labels": {"x": "1"}}}),
    ],
)
def test_patches_change_the_newest_object(cluster, content_type, patch):
    """JSON patch and merge patch."""
    cluster.trigger("a", labels={"gone": "yes"})
    answer = cluster.ask("PATCH", f"{TRIGGERS}/a", patch, content_type)
    assert answer.status == 200
    labels = cluster.get(f"{TRIGGERS}/a")["metadata"]["labels"]
    assert labels == answer.json()["metadata"]["labels"]
    assert labels.get("gone") != "yes" or labels["x"] == "1"


def test_a_patch_that_changes_nothing_keeps_the_version(cluster):
    """And is 200."""
    made = cluster.trigger("a")
    answer = cluster.ask("PATCH", f"{TRIGGERS}/a", {"spec": {"broker": "default"}}, MERGE)
    assert answer.json()["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("content_type", "patch", "status"),
    [
        (JSON_PATCH, [{"op": "test", "path": "/spec/broker", "value": "x"}], 422),
        (JSON_PATCH, [{"op": "remove", "path": "/spec/nothing"}], 422),
        (JSON_PATCH, {"op": "remove"}, 400),
        (JSON_PATCH, [{"op": "explode", "path": "/spec"}], 400),
        (MERGE, [], 400),
        (MERGE, {"spec": 1}, 422),
        (MERGE, {"metadata": {"resourceVersion": "1"}}, 409),
        (MERGE, {"metadata": {"name": "b"}}, 400),
        (STRATEGIC, {}, 415),
        ("application/json", {}, 415),
        ("text/plain", {}, 415),
    ],
)
def test_a_patch_that_does_not_apply_is_refused(cluster, content_type, patch, status):
    """With a status; the object stays as it was."""
    made = cluster.trigger("a")
    answer = cluster.ask("PATCH", f"{TRIGGERS}/a", patch, content_type)
    assert (answer.status, answer.json()["code"]) == (status, status)
    assert cluster.get(f"{TRIGGERS}/a") == made


def test_unknown_fields_that_a_patch_brings_are_warned_of(cluster):
    """What the patch leads to is looked at, not the patch alone."""
    cluster.trigger("a")
    answer = cluster.ask("PATCH", f"{TRIGGERS}/a", {"spec": {"filtr": 1}}, MERGE)
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.filtr\\""'
    strict = f"{TRIGGERS}/a?fieldValidation=Strict"
    assert cluster.ask("PATCH", strict, {"spec": {"filtr": 2}}, MERGE).status == 400


def test_services_merge_their_ports_by_number(cluster):
    """A strategic merge patch, which kubectl sends for the kinds of the core group."""
    ports = [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]
    body = {"metadata": {"name": "a"}, "spec": {"ports": ports}}
    assert cluster.ask("POST", SERVICES, body).status == 201
    patch = {"spec": {"ports": [{"port": 80, "name": "web"}]}}
    answer = cluster.ask("PATCH", f"{SERVICES}/a", patch, STRATEGIC)
    assert [port["name"] for port in answer.json()["spec"]["ports"]] == ["web", "https"]


def test_apply_makes_and_changes(cluster, good):
    """201, then 200; what is not applied any more goes."""
    target = f"{TRIGGERS}/a?fieldManager=me"
    body = good("a", labels={"x": "1"})
    assert cluster.ask("PATCH", target, body, APPLY).status == 201
    del body["metadata"]["labels"]
    answer = cluster.ask("PATCH", target, body, APPLY)
    assert answer.status == 200
    assert "x" not in answer.json()["metadata"]["labels"]
    assert managers(answer.json()) == [("me", "Apply")]


def test_an_applied_reference_may_become_a_uri(cluster, good):
    """The namespace that was filled in is nobody's; it goes with the reference."""
    target = f"{TRIGGERS}/a?fieldManager=me"
    ref = {"apiVersion": "v1", "kind": "Service", "name": "s"}
    made = cluster.ask("PATCH", target, good("a", {"subscriber": {"ref": ref}}), APPLY).json()
    placed = {"ref": ref | {"namespace": "default"}}
    assert made["spec"]["subscriber"] == placed
    uri = {"uri": "http://one.example/"}
    answer = cluster.ask("PATCH", target, good("a", {"subscriber": uri}), APPLY)
    assert answer.status == 200, answer.body
    assert answer.json()["spec"]["subscriber"] == uri


def test_apply_takes_nothing_from_others_unless_forced(cluster, good):
    """409 names the field; ``force`` takes it."""
    first = good("a", {"subscriber": {"uri": "http://one.example/"}})
    cluster.ask("PATCH", f"{TRIGGERS}/a?fieldManager=one", first, APPLY)
    second = good("a", {"subscriber": {"uri": "http://two.example/"}})
    target = f"{TRIGGERS}/a?fieldManager=two"
    answer = cluster.ask("PATCH", target, second, APPLY)
    assert answer.status == 409
    (cause,) = answer.json()["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".spec.subscriber.uri")
    assert cluster.ask("PATCH", f"{target}&force=true", second, APPLY).status == 200


@pytest.mark.parametrize(
    ("query", "content_type", "field"),
    [("", APPLY, "fieldManager"), ("?force=true", MERGE, "force")],
)
def test_apply_needs_a_manager_and_others_take_no_force(cluster, query, content_type, field):
    """422 with the parameter."""
    cluster.trigger("a")
    answer = cluster.ask("PATCH", f"{TRIGGERS}/a{query}", {"spec": {}}, content_type)
    assert answer.status == 422
    assert answer.json()["details"]["causes"][0]["field"] == field


def test_status_is_written_apart(cluster):
    """``/status`` changes nothing else, and nothing else changes the status."""
    made = cluster.trigger("a")
    patch = {"status": {"observedGeneration": 1}, "metadata": {"labels": {"x": "1"}}}
    answer = cluster.ask("PATCH", f"{TRIGGERS}/a/status", patch, MERGE)
    assert answer.status == 200
    assert answer.json()["status"] == {"observedGeneration": 1}
    assert answer.json()["metadata"]["labels"] == made["metadata"]["labels"]
    again = cluster.ask("PATCH", f"{TRIGGERS}/a", {"status": {"observedGeneration": 9}}, MERGE)
    assert again.json()["status"] == {"observedGeneration": 1}
    assert cluster.get(f"{TRIGGERS}/a/status")["status"] == {"observedGeneration": 1}


def test_applying_a_status_makes_no_object(cluster, good):
    """There is nothing whose status it could be."""
    target = f"{TRIGGERS}/a/status?fieldManager=me"
    assert cluster.ask("PATCH", target, {**good("a"), "status": {}}, APPLY).status == 404


def test_large_bodies_are_read_beside_the_loop(cluster):
    """With the same result."""
    config = {"metadata": {"name": "a"}, "data": {"a": "x" * 100_000}}
    target = "/api/v1/namespaces/default/configmaps"
    assert cluster.ask("POST", target, config).status == 201
    patch = [{"op": "add", "path": "/data/b", "value": "y" * 100_000}]
    answer = cluster.ask("PATCH", f"{target}/a", patch, JSON_PATCH)
    assert sorted(answer.json()["data"]) == ["a", "b"]


def test_large_bodies_count_for_more_where_writes_wait(cluster, monkeypatch):
    """However they come."""
    monkeypatch.setattr("distributary.knative.apiserver.objects._writer.WAITING_MAX", 64)
    target, large = "/api/v1/namespaces/default/configmaps", "x" * 300_000
    small = {"metadata": {"name": "a"}, "data": {"a": "x"}}
    assert cluster.ask("POST", target, small).status == 201
    for method, name, body, kind in (
        ("POST", "", {"metadata": {"name": "b"}, "data": {"a": large}}, "application/json"),
        ("PATCH", "/a", [{"op": "add", "path": "/data/b", "value": large}], JSON_PATCH),
        ("PUT", "/a", {**small, "data": {"a": large}}, "application/json"),
    ):
        answer = cluster.ask(method, target + name, body, kind)
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")


SECRETS = "/api/v1/namespaces/default/secrets"


class Vault:
    """Seals secrets until its key is away."""

    away = False

    def seal_kept(self, _uid, secret) -> bytes:
        self._look()
        return msgspec.msgpack.encode(secret)

    def open_kept(self, _uid, sealed) -> KeptSecret:
        self._look()
        return msgspec.msgpack.decode(sealed, type=KeptSecret)

    def _look(self) -> None:
        if self.away:
            raise StoreError("sealed by another key than /srv/data/credentials.key holds")


def test_secrets_that_cannot_be_opened_are_503_and_tell_no_tenant_where_keys_are(make_cluster):
    """The log does, in one line; what else is written at that moment is stored."""
    vault = Vault()
    cluster = make_cluster(vault=vault)
    value = base64.b64encode(b"canary").decode()
    made = cluster.ask("POST", SECRETS, {"metadata": {"name": "a"}, "data": {"x": value}})
    assert made.status == 201
    vault.away = True
    more = {"metadata": {"name": "b"}, "data": {"x": value}}
    labels = {"metadata": {"labels": {"a": "b"}}}
    for method, target, body, kind in (
        ("PATCH", f"{SECRETS}/a", labels, MERGE),
        ("POST", SECRETS, more, "application/json"),
    ):
        with structlog.testing.capture_logs() as log:
            answer = cluster.ask(method, target, body, kind)
        assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable")
        assert answer.headers["retry-after"] == "1"
        assert b"/srv" not in answer.body
        (line,) = log
        assert (line["event"], line["code"]) == ("request-failed", "store-failed")
        assert "/srv/data/credentials.key" in line["reason"]
    cluster.trigger("a")
    vault.away = False
    assert cluster.ask("PATCH", f"{SECRETS}/a", labels, MERGE).status == 200
