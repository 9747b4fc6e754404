"""Subscriptions over HTTP: what is answered, and with which header fields."""

import json

import pytest

from distributary.core.errors import StoreError
from distributary.resource import RESOURCE_BYTES_MAX

JSON = ("content-type", "application/json")


def test_create_answers_201_with_location_and_tag(api, good):
    """The client learns the id, the realized object and its entity tag."""
    answer = api.send("POST", "/subscriptions", good(id="mine"))
    created = answer.json()
    assert answer.status == 201
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["location"] == f"/subscriptions/{created['id']}"
    assert answer.headers["etag"].startswith('"')
    assert created["id"] != "mine"
    assert created["protocolsettings"]["delivery"]["retry"] == 10


def test_a_created_subscription_reads_as_it_was_answered(api, good):
    """What was realized is what is stored; how it stands comes beside it."""
    created = api.send("POST", "/subscriptions", good(types=["a"]))
    read = api.request("GET", created.headers["location"])
    found = read.json()
    assert (found.pop("status")["state"], read.status) == ("ready", 200)
    assert found == created.json()
    assert read.headers["etag"] == created.headers["etag"]


def test_no_cache_keeps_a_subscription(api, good):
    """Headers of a sink may be keys; neither what is read nor what is refused is kept."""
    made = api.send("POST", "/subscriptions", good())
    for method, path in (("GET", "/subscriptions"), ("GET", made.headers["location"])):
        assert api.request(method, path).headers["cache-control"] == "no-store"
    assert made.headers["cache-control"] == "no-store"
    assert api.request("GET", "/subscriptions/no").headers["cache-control"] == "no-store"


def test_put_creates_with_201_and_replaces_with_200(api):
    """Upsert."""
    created, replaced = api.put("mine"), api.put("mine", types=["x"])
    assert (created.status, replaced.status) == (201, 200)
    assert created.headers["location"] == "/subscriptions/mine"
    assert "location" not in replaced.headers
    assert replaced.headers["etag"] != created.headers["etag"]
    assert replaced.json()["types"] == ["x"]


def test_delete_answers_the_object_and_then_it_is_gone(api):
    """Decision 23."""
    created = api.put("mine")
    deleted = api.request("DELETE", "/subscriptions/mine")
    assert (deleted.status, deleted.body) == (200, created.body)
    for method in ("GET", "DELETE"):
        gone = api.request(method, "/subscriptions/mine")
        assert (gone.status, gone.json()["code"]) == (404, "notfound")


def test_faults_are_problem_details_with_every_place(api):
    """RFC 9457, with what is wrong and where."""
    answer = api.send("POST", "/subscriptions", {"filtres": [], "protocol": "HTTP"})
    body = answer.json()
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "code", "detail", "faults"} == set(body)
    assert (body["status"], body["code"]) == (400, "invalid")
    assert {fault["path"] for fault in body["faults"]} == {"$.filtres", "$.sink"}
    assert all(fault["code"] and fault["message"] for fault in body["faults"])


def test_if_match_guards_updates_and_deletes(api):
    """412 with the code conflict when the subscription has changed."""
    first = api.put("mine").headers["etag"]
    assert api.put("mine", ("if-match", first)).status == 200
    for answer in (
        api.put("mine", ("if-match", first)),
        api.put("absent", ("if-match", "*")),
        api.request("DELETE", "/subscriptions/mine", headers=[("if-match", first)]),
    ):
        assert (answer.status, answer.json()["code"]) == (412, "conflict")
    assert api.put("mine", ("if-match", f'"x", {api.put("mine").headers["etag"]}')).status == 200
    assert api.request("DELETE", "/subscriptions/mine", headers=[("if-match", "*")]).status == 200


def test_a_weak_tag_never_matches_an_update(api):
    """RFC 9110, 13.1.1: strong comparison."""
    etag = api.put("mine").headers["etag"]
    assert api.put("mine", ("if-match", f"W/{etag}")).status == 412


def test_if_none_match_star_creates_only(api):
    """Decision 2: an existing id is a conflict."""
    assert api.put("mine", ("if-none-match", "*")).status == 201
    again = api.put("mine", ("if-none-match", "*"))
    assert (again.status, again.json()["code"]) == (412, "conflict")


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
def test_an_unchanged_subscription_is_304(api, form):
    """RFC 9110, 13.1.2: weak comparison, no body."""
    etag = api.put("mine").headers["etag"]
    answer = api.request(
        "GET", "/subscriptions/mine", headers=[("if-none-match", form.format(etag))]
    )
    assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", etag)


def test_a_changed_subscription_is_read(api):
    """The tag of the revision before does not hide the new one."""
    etag = api.put("mine").headers["etag"]
    api.put("mine")
    answer = api.request("GET", "/subscriptions/mine", headers=[("if-none-match", etag)])
    assert answer.status == 200


def test_a_read_of_one_revision_alone_is_refused_for_another(api):
    """RFC 9110, 13.1.1 and 13.2.2: ``If-Match`` counts for a read too, and comes first."""
    etag = api.put("mine").headers["etag"]
    newer = api.put("mine").headers["etag"]

    def status(*headers: tuple[str, str]) -> int:
        return api.request("GET", "/subscriptions/mine", headers=list(headers)).status

    assert status(("if-match", etag)) == 412
    assert status(("if-match", newer)) == status(("if-match", "*")) == 200
    assert status(("if-match", etag), ("if-none-match", newer)) == 412


@pytest.mark.parametrize("value", ["abc", '"a" "b"', "", '"a', "'a'"])
@pytest.mark.parametrize("name", ["if-match", "if-none-match"])
def test_a_condition_that_cannot_be_read_is_not_ignored(api, name, value):
    """A change that was meant to be conditional never becomes unconditional."""
    answer = api.put("mine", (name, value))
    assert (answer.status, answer.json()["code"]) == (400, "bad-request")


def test_an_id_in_the_body_must_be_the_paths(api):
    """Ignored when PUT creates, equal or absent when it updates."""
    assert api.put("mine", id="other").status == 201
    assert api.put("mine", id="mine").status == 200
    refused = api.put("mine", id="other")
    assert refused.status == 400
    assert refused.json()["faults"][0]["path"] == "$.id"


@pytest.mark.parametrize("path", ["..", "a b", "a" * 129, "ü"])
def test_an_id_that_cannot_be_one(api, path):
    """400 on PUT; there is no such thing otherwise."""
    assert api.put(path).status == 400
    assert api.request("GET", f"/subscriptions/{path}").status == 404


def test_query_without_results_is_an_empty_list(api):
    """Decision 3: 200 with []."""
    answer = api.request("GET", "/subscriptions")
    assert (answer.status, answer.json()) == (200, [])
    limited = api.request("GET", "/subscriptions?limit=5")
    assert (limited.status, limited.json()) == (200, [])
    assert "link" not in limited.headers


def test_query_without_limit_streams_everything(api, monkeypatch):
    """However many there are, memory holds one page."""
    monkeypatch.setattr("distributary.subscriptions.http.operations._STREAM_PAGE", 2)
    for n in range(5):
        api.put(f"s{n}")
    answer = api.request("GET", "/subscriptions")
    assert [item["id"] for item in answer.json()] == ["s0", "s1", "s2", "s3", "s4"]
    assert answer.chunks >= 3
    assert "link" not in answer.headers


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_a_stream_is_json_at_every_page_boundary(api, monkeypatch, count):
    """No comma too many or too few."""
    monkeypatch.setattr("distributary.subscriptions.http.operations._STREAM_PAGE", 2)
    for n in range(count):
        api.put(f"s{n}")
    assert len(api.request("GET", "/subscriptions").json()) == count


def test_query_with_limit_links_to_the_next_part(api):
    """Following rel=next visits everything once."""
    for n in range(5):
        api.put(f"s{n}")
    seen, target = [], "/subscriptions?limit=2"
    while target:
        answer = api.request("GET", target)
        seen += [item["id"] for item in answer.json()]
        link = answer.headers.get("link")
        assert link is None or link.endswith('; rel="next"')
        target = link[1 : link.index(">")] if link else None
    assert seen == ["s0", "s1", "s2", "s3", "s4"]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=a",
        "limit=",
        "limt=1",
        "cursor=%21",
        "limit=1&limit=2",
    ],
)
def test_a_parameter_that_cannot_be_followed_is_refused(api, query):
    """A misspelt limit must not answer a hundred thousand subscriptions."""
    answer = api.request("GET", f"/subscriptions?{query}")
    assert (answer.status, answer.json()["code"]) == (400, "invalid")


@pytest.mark.parametrize(
    "value",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", ""],
)
def test_another_content_type_is_415(api, good, value):
    """Nothing is guessed from the bytes."""
    answer = api.request(
        "POST", "/subscriptions", json.dumps(good()).encode(), [("content-type", value)]
    )
    assert (answer.status, answer.json()["code"]) == (415, "unsupported-media-type")


@pytest.mark.parametrize("value", ["application/json", 'Application/JSON; Charset="UTF-8"'])
def test_json_in_utf_8_is_taken(api, good, value):
    """However the client writes it."""
    answer = api.request(
        "POST", "/subscriptions", json.dumps(good()).encode(), [("content-type", value)]
    )
    assert answer.status == 201


def test_a_compressed_body_is_415(api, good):
    """No bombs are unpacked."""
    answer = api.send("POST", "/subscriptions", good(), ("content-encoding", "gzip"))
    assert answer.status == 415


def test_a_body_at_the_limit_is_read_and_one_byte_more_is_413(api):
    """Told by its length before it is read, and while it streams without one."""
    whole = b" " * (RESOURCE_BYTES_MAX - 2) + b"{}"
    assert api.request("POST", "/subscriptions", whole, [JSON]).status == 400
    for body, headers in (
        ([whole, b" "], [JSON]),
        (b"{}", [JSON, ("content-length", str(RESOURCE_BYTES_MAX + 1))]),
        (b"{}", [JSON, ("content-length", "9" * 40)]),
    ):
        answer = api.request("POST", "/subscriptions", body, headers)
        assert (answer.status, answer.json()["code"]) == (413, "content-too-large")


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b'"\\ud800"', b"\xff"])
def test_what_is_no_json_is_400(api, body):
    """Never a 500."""
    answer = api.request("POST", "/subscriptions", body, [JSON])
    assert (answer.status, answer.json()["code"]) == (400, "invalid")


def test_a_log_that_refuses_is_503_and_says_where_the_change_is(api, good):
    """The client reads the subscription instead of sending the change again."""
    api.appender.failing = True
    answer = api.send("POST", "/subscriptions", good())
    assert (answer.status, answer.json()["code"]) == (503, "log-unavailable")
    assert "retry-after" in answer.headers
    assert "do not repeat" in answer.json()["detail"]
    assert api.request("GET", answer.headers["location"]).status == 200
    again = api.send("POST", "/subscriptions", good())
    assert again.status == 503
    assert "location" not in again.headers


def test_a_pending_delete_names_no_place_to_read(api):
    """There is nothing to read there any more."""
    api.put("mine")
    api.appender.failing = True
    answer = api.request("DELETE", "/subscriptions/mine")
    assert (answer.status, answer.json()["code"]) == (503, "log-unavailable")
    assert "location" not in answer.headers


def test_a_store_that_cannot_be_read_is_503(api, monkeypatch):
    """Also for the streamed list: nothing was answered yet."""

    def fail(*_args):
        raise StoreError("disk gone")

    monkeypatch.setattr(api.store, "page", fail)
    answer = api.request("GET", "/subscriptions")
    assert (answer.status, answer.json()["code"]) == (503, "store-failed")
    assert "disk gone" not in answer.body.decode()  # which may name hosts and folders
