"""Odd and hostile requests: each is refused or answered as the API server would, at little cost."""

import asyncio
import gc
import json
import threading

import pytest
from starlette.requests import ClientDisconnect

from distributary.access import (
    IDENTITY_FIELD,
    Grant,
    Identity,
    IdentityKind,
    Verb,
    encode_identity,
)
from distributary.knative.apiserver.http import _requests
from distributary.knative.apiserver.machinery.limits import VALUES_MAX

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CHANNELS = "/apis/messaging.knative.dev/v1/namespaces/default/channels"
TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"


@pytest.mark.parametrize("host", [None, b"", b"[::1", b"a/b"])
def test_the_path_does_not_depend_on_the_host(cluster, host):
    """HTTP/1.0 has none; one that makes no sense must not move the path."""
    fields = [] if host is None else [(b"host", host)]
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"{TRIGGERS}",
        "query_string": b"",
        "headers": fields,
        "server": ("/run/control.sock", None),
    }
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    cluster.run(cluster.api(scope, receive, send))
    assert sent[0]["status"] == 200


def test_namespaces_are_not_deleted_all_at_once(cluster):
    """As in the API server; nothing is deleted half way."""
    cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
    answer = cluster.ask("DELETE", "/api/v1/namespaces")
    assert answer.status == 405
    assert "phase" in cluster.get("/api/v1/namespaces/a")["status"]


@pytest.mark.parametrize("told", [{"resourceVersion": "1"}, {"uid": "u"}])
def test_what_is_applied_to_a_version_that_is_gone_is_not_made_anew(cluster, told):
    """A client that names an incarnation means that one."""
    body = {"metadata": {"name": "c", **told}, "data": {"a": "1"}}
    answer = cluster.ask("PATCH", f"{CONFIG_MAPS}/c?fieldManager=m", body, APPLY)
    assert (answer.status, answer.json()["reason"]) == (409, "Conflict")
    cluster.get(f"{CONFIG_MAPS}/c", 404)


def test_an_object_without_a_name_replaces_nothing(cluster):
    """Whoever sends that means something else; it would take all data away."""
    cluster.ask("POST", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    no_metadata = [{"op": "remove", "path": "/metadata"}]
    for method, body, content_type in (
        ("PUT", {}, "application/json"),
        ("PUT", {"metadata": {}}, "application/json"),
        ("PATCH", no_metadata, JSON_PATCH),
        ("PATCH", {"metadata": None}, MERGE_PATCH),
    ):
        answer = cluster.ask(method, f"{CONFIG_MAPS}/c", body, content_type)
        assert answer.status == 400
        assert "name must be provided" in answer.json()["message"]
    assert cluster.get(f"{CONFIG_MAPS}/c")["data"] == {"a": "1"}


def test_version_zero_means_any(cluster):
    """As in the API server."""
    cluster.ask("POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
    body = {"metadata": {"name": "c", "resourceVersion": "0"}, "data": {"a": "1"}}
    assert cluster.ask("PUT", f"{CONFIG_MAPS}/c", body).status == 200


def test_a_template_cannot_be_changed_by_what_python_holds_for_equal(cluster):
    """1, 1.0 and true are three values."""
    spec = {"channelTemplate": {"a": 1}}
    cluster.ask("POST", CHANNELS, {"metadata": {"name": "c"}, "spec": spec})
    patch = {"spec": {"channelTemplate": {"a": True}}}
    answer = cluster.ask("PATCH", f"{CHANNELS}/c", patch, MERGE_PATCH)
    assert answer.status == 422
    assert answer.json()["details"]["causes"][0]["field"] == "spec.channelTemplate"


@pytest.mark.parametrize(
    ("method", "kind"),
    [("POST", "CreateOptions"), ("PUT", "UpdateOptions"), ("PATCH", "PatchOptions")],
)
def test_bad_options_are_called_by_their_name(cluster, method, kind):
    """Of the verb that they belong to."""
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/c"
    answer = cluster.ask(method, f"{path}?dryRun=maybe", {}, MERGE_PATCH)
    assert answer.status == 422
    assert answer.json()["message"].startswith(f"{kind}.meta.k8s.io")


def test_a_body_of_too_many_values_is_too_large(cluster):
    """Before it costs a second of everybody's time."""
    items = ",".join(["[]"] * (VALUES_MAX + 1))
    body = f'{{"metadata":{{"name":"c"}},"spec":{{"channelTemplate":{{"a":[{items}]}}}}}}'
    for content_type in ("application/json", "application/yaml"):
        answer = cluster.ask("POST", CHANNELS, body.encode(), content_type)
        assert (answer.status, answer.json()["reason"]) == (413, "RequestEntityTooLarge")


def test_protobuf_of_too_many_values_is_too_large(cluster):
    """As in JSON; and it is not the loop that reads it."""
    kind = b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap"
    entry = b"\x12\x05\x0a\x03%03x"  # data: a key alone, one of 4,096
    raw = b"".join(entry % (number % 4096) for number in range(20_000))
    raw += b"".join(b"\x12\x07\x0a\x05%05x" % number for number in range(VALUES_MAX + 1))
    length = bytes([len(raw) & 127 | 128, len(raw) >> 7 & 127 | 128, len(raw) >> 14])
    body = b"k8s\x00" + kind + b"\x12" + length + raw
    answer = cluster.ask("POST", CONFIG_MAPS, body, "application/vnd.kubernetes.protobuf")
    assert (answer.status, answer.json()["reason"]) == (413, "RequestEntityTooLarge")


def test_punctuation_in_a_text_is_no_value(cluster):
    """A megabyte of JSON in a ConfigMap is one value."""
    text = '{"a": [1, "\\" , ["], ' * 30_000
    body = {"metadata": {"name": "c"}, "data": {"a": text}}
    assert cluster.ask("POST", CONFIG_MAPS, body).status == 201


LARGE = json.dumps({"metadata": {"name": "c"}, "data": {"a": "x" * 100_000}}).encode()


class Caller:
    """A request with a large body; its client stays until it leaves."""

    def __init__(self, *namespaces: str) -> None:
        self.headers = {"content-type": "application/json", "content-length": str(len(LARGE))}
        grant = Grant(may=(Verb.WRITE,), namespaces=namespaces or ("*",))
        sender = Identity(name="key:k", how=IdentityKind.KEY, grants=(grant,))
        self.scope = {"headers": [(IDENTITY_FIELD, encode_identity(sender))]}
        self.gone = asyncio.Event()
        self.pieces = 0

    async def stream(self):
        for start in range(0, len(LARGE), 10_000):
            self.pieces += 1
            yield LARGE[start : start + 10_000]

    async def receive(self) -> dict[str, str]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def parse(self) -> object:
        return await _requests.parse_object(self, await _requests.read_body(self))


@pytest.fixture
def blocked():
    """Nothing large is parsed before this is set."""
    free = threading.Event()
    running = _requests._ASIDE.submit(free.wait)
    yield free
    free.set()
    running.result()


def test_large_bodies_do_not_take_the_threads_of_the_store(cluster, blocked):
    """However many are being read, others get to the store."""

    async def ask_many():
        waiting = [asyncio.ensure_future(Caller().parse()) for _ in range(10)]
        await asyncio.sleep(0)
        assert await asyncio.to_thread(lambda: "store") == "store"
        assert not any(one.done() for one in waiting)
        blocked.set()
        await asyncio.gather(*waiting)

    cluster.run(ask_many())


def test_one_large_body_too_many_is_told_to_come_again(cluster, blocked):
    """429, and its bytes are read but not kept; the others are parsed when it is their turn."""

    async def ask_many():
        callers = [Caller() for _ in range(30)]
        waiting = [asyncio.ensure_future(one.parse()) for one in callers]
        _, refused = await asyncio.wait(waiting, timeout=0.05)
        told = [one.exception() for one in waiting if one.done()]
        blocked.set()
        await asyncio.wait(waiting)
        return callers, told, len(refused)

    callers, told, kept = cluster.run(ask_many())
    assert (len(told), kept) == (13, 17)  # one would be parsed now, sixteen wait
    assert {(error.status, error.retry_after_s) for error in told} == {(429, 1)}
    assert all(one.pieces for one in callers)


@pytest.mark.parametrize("tenant", [("shop",), ("farm", "shop")], ids=["one", "two"])
def test_large_bodies_of_a_tenant_leave_room_and_turns_to_others(cluster, blocked, tenant):
    """Half of the places while nobody else asks, and then every other turn.

    So do those of a key for two namespaces.
    """
    done = []

    async def ask_many():
        def ask(count, *namespaces):
            callers = [asyncio.ensure_future(Caller(*namespaces).parse()) for _ in range(count)]
            for each in callers:
                each.add_done_callback(lambda one: one.exception() or done.append(namespaces[-1]))
            return callers

        shop, till = ask(12, *tenant), ask(3, "till")
        await asyncio.wait((*shop, *till), timeout=0.05)
        told = [one.exception() for one in (*shop, *till) if one.done()]
        blocked.set()
        await asyncio.wait((*shop, *till))
        return told

    told = cluster.run(ask_many())
    assert [error.status for error in told] == [429] * 4
    assert done == ["shop"] + ["shop", "till"] * 3 + ["shop"] * 4


def test_yaml_of_some_kilobytes_is_read_beside_the_loop_too(cluster, blocked):
    """It takes fifty times as long as JSON, which most of what is sent as YAML is."""

    def parse(body):
        caller = Caller()
        caller.headers["content-type"] = "application/apply-patch+yaml"
        return asyncio.ensure_future(_requests.parse_object(caller, body))

    async def ask():
        words, text = b"b," * 5_000, b"x" * 10_000
        slow, quick = parse(b"a: [%sb]" % words), parse(b'{"a": "%s"}' % text)
        assert await quick == ({"a": text.decode()}, [])
        assert not slow.done()
        blocked.set()
        assert await slow == ({"a": ["b"] * 5_001}, [])

    cluster.run(ask())


def test_what_waits_for_a_client_that_left_is_dropped(cluster, blocked):
    """At once: its place is another's, and its bytes are nobody's."""

    async def leave():
        callers = [Caller() for _ in range(17)]
        waiting = [asyncio.ensure_future(one.parse()) for one in callers]
        await asyncio.wait(waiting, timeout=0.05)
        for caller in callers[:10]:
            caller.gone.set()
        await asyncio.wait(waiting[:10], timeout=5)
        after = [asyncio.ensure_future(Caller().parse()) for _ in range(10)]
        await asyncio.wait(after, timeout=0.05)
        early = any(one.done() for one in (*waiting[10:], *after))
        blocked.set()
        parsed = await asyncio.gather(*waiting[10:], *after)
        return [type(one.exception()) for one in waiting[:10]], early, parsed

    left, early, parsed = cluster.run(leave())
    assert left == [ClientDisconnect] * 10
    assert not early
    assert [value["metadata"]["name"] for value, _ in parsed] == ["c"] * 17


@pytest.mark.parametrize("form", ["", "Table", "PartialObjectMetadataList"])
def test_a_large_list_is_made_while_it_is_sent(cluster, form):
    """It says the same as a small one."""
    for number in range(8):
        body = {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 100_000}}
        assert cluster.ask("POST", CONFIG_MAPS, body).status == 201
    accept = f"application/json;as={form};v=v1;g=meta.k8s.io" if form else "application/json"
    answer = cluster.ask("GET", CONFIG_MAPS, accept=accept)
    listed = answer.json()
    assert answer.chunks > 3
    assert listed["metadata"]["resourceVersion"] == str(cluster.objects.version)
    if form == "Table":
        names = [row["cells"][0] for row in listed["rows"]]
        assert [column["name"] for column in listed["columnDefinitions"]] == ["Name", "Age"]
    else:
        names = [item["metadata"]["name"] for item in listed["items"]]
    assert names == [f"c{number}" for number in range(8)]


def test_a_watch_sends_large_objects_one_after_the_other(cluster):
    """What stands may be more than a connection should hold at a time."""
    for number in range(6):
        body = {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 300_000}}
        assert cluster.ask("POST", CONFIG_MAPS, body).status == 201
    stream = cluster.watch(f"{CONFIG_MAPS}?watch=true")

    async def sizes():
        found = []
        while len(found) < 6:
            message = await asyncio.wait_for(stream.pieces.get(), 10)
            found += [len(message["body"])] if message.get("body") else []
        return found

    assert max(cluster.run(sizes())) < 400_000
    stream.left.set()


def test_an_empty_set_of_values_is_no_selector(cluster):
    """As in the API server; a set of an empty text is one."""
    assert cluster.ask("GET", f"{CONFIG_MAPS}?labelSelector=a%20in%20()").status == 400
    assert cluster.ask("GET", f"{CONFIG_MAPS}?labelSelector=a%20in%20(,)").status == 200


@pytest.mark.parametrize("spec", [{"misspelt": 1}, {"delivery": None}, {}])
def test_what_is_dropped_is_no_new_generation(cluster, spec):
    """Fields that nobody knows, and nulls, change nothing: the object stays as it is."""
    made = cluster.trigger("t")
    patch = [{"op": "add", "path": f"/spec/{name}", "value": spec[name]} for name in spec]
    for body, content_type in ((patch, JSON_PATCH), ({"spec": spec}, MERGE_PATCH)):
        answer = cluster.ask("PATCH", f"{TRIGGERS}/t", body, content_type)
        assert answer.status == 200
        assert answer.json()["metadata"] == made["metadata"]
    body = {**made, "spec": {**made["spec"], "delivery": {"retry": 1}}}
    answer = cluster.ask("PUT", f"{TRIGGERS}/t", body)
    assert answer.json()["metadata"]["generation"] == 2


def test_a_refused_create_names_its_object(cluster):
    """The path does not; kubectl shows the name of the details."""
    cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a", "finalizers": ["a/b"]}})
    cluster.ask("DELETE", "/api/v1/namespaces/a")
    body = {"metadata": {"name": "c"}}
    answer = cluster.ask("POST", "/api/v1/namespaces/a/configmaps", body)
    assert answer.status == 403
    assert answer.json()["details"]["name"] == "c"


def test_a_refused_object_is_not_kept(cluster):
    """Not until the next one comes, nor until somebody looks for circles."""
    mark = "mark-of-one-large-object"
    body = {"metadata": {"name": "c"}, "spec": {"x": [{mark: ""} for _ in range(20_000)]}}
    gc.collect()
    gc.disable()
    try:
        assert cluster.ask("POST", TRIGGERS, body).status == 422
        kept = [one for one in gc.get_objects() if isinstance(one, dict) and mark in one]
    finally:
        gc.enable()
    mine = {id(one) for one in body["spec"]["x"]}
    assert [one for one in kept if id(one) not in mine] == []
