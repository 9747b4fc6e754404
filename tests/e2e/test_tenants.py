"""Two tenants on every surface of a running server: nothing of the other is seen, changed, counted.

Each shows an API key that may do everything in its own namespace. Both have everything under the
same names: ids, Brokers, Triggers, runs. What one of them does is looked for at the other.
"""

import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from distributary.access import Grant, KeyRecord, Verb, make_key
from distributary.access.tables import key_table
from distributary.cli._behaviour import Behaviour, StatusChance
from distributary.knative import kinds
from kit import proton_client
from kit.history_rows import history_rows
from kit.ports import free_port
from kit.running_server import (
    Answer,
    RunningServer,
    clean_environ,
    once_still,
    samples,
    wait_until,
)
from kit.traffic import Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S = 60.0
TENANTS = ("shop", "till")
EVERYTHING = "*"
"""Name of the key of who runs the server."""
JSON = {"content-type": "application/json"}
URI = "http://127.0.0.1:9/"
EVENT = {"content-type": "application/cloudevents+json"}

QUOTAS = """
[[namespaces]]
name = "limited"
subscriptions = 1
events_per_s = 5
"""


class Tenants:
    """A server, and a sink for each tenant under one name."""

    def __init__(
        self,
        server: RunningServer,
        traffic: Traffic,
        amqp_port: int | None,
        keys: Mapping[str, str],
    ) -> None:
        self.server = server
        self.sinks = traffic.sinks
        self.amqp_port = amqp_port
        self.keys = keys

    def call(
        self,
        method: str,
        path: str,
        by: str,
        value: object = None,
        fields: Mapping[str, str] = JSON,
    ) -> Answer:
        """Ask for *path* with the key of *by*."""
        body = None if value is None else json.dumps(value).encode()
        shown = {**fields, "authorization": f"Bearer {self.keys[by]}"}
        return self.server.request(method, path, body, shown)

    def ask(
        self, method: str, tenant: str, rest: str = "", value: object = None, by: str = ""
    ) -> Answer:
        """Ask for the subscriptions of *tenant*, with its key or that of *by*."""
        return self.call(method, f"/namespaces/{tenant}/subscriptions{rest}", by or tenant, value)

    def publish(
        self, tenant: str, id_: str, path: str = "/namespaces/{}/events", by: str = ""
    ) -> int:
        """Publish one event; returns the status."""
        event = {"specversion": "1.0", "id": id_, "source": f"/{tenant}", "type": "t"}
        return self.call("POST", path.format(tenant), by or tenant, event, EVENT).status

    def arrived(self, sink: str) -> list[str]:
        """Ids of the events that the sink got."""
        return sorted(
            dict(request.headers)[b"ce-id"].decode() for request in tuple(self.sinks[sink].requests)
        )

    def wait_for(self, sink: str, *ids: str) -> None:
        """Wait until these arrived; fails if others did."""
        wait_until(lambda: len(self.arrived(sink)) >= len(ids), WAIT_S, f"{ids} at {sink}")
        assert self.arrived(sink) == sorted(ids)

    def objects(
        self, method: str, tenant: str, rest: str, value: object = None, by: str = ""
    ) -> Answer:
        """Ask the Kubernetes API."""
        path = f"/apis/eventing.knative.dev/v1/namespaces/{tenant}/{rest}"
        return self.call(method, path, by or tenant, value)

    def run(self, by: str, *words: str) -> list[dict[str, Any]]:
        """Run a command with the key of *by*; returns its JSON lines."""
        done = subprocess.run(
            [sys.executable, "-m", "distributary.cli", *words],
            env=clean_environ()
            | {"DISTRIBUTARY_URL": self.server.url, "DISTRIBUTARY_TOKEN": self.keys[by]},
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def proposal(url: str, **members: Any) -> dict[str, Any]:
    """A subscription that sends to *url*, without retries."""
    settings = {"delivery": {"retry": 0}}
    return {"sink": url, "protocol": "HTTP", "protocolsettings": settings, **members}


def _keys() -> tuple[dict[str, str], str]:
    """A key for everything in each namespace, and one for everything; and their tables."""
    keys, tables = {}, []
    for name in (*TENANTS, "limited", "*"):
        made = make_key(secrets.token_bytes)
        grant = Grant(may=(Verb.ADMIN,), namespaces=(name,))
        record = KeyRecord(
            id=made.id, name=name.replace("*", "operator"), sha256=made.sha256, grants=(grant,)
        )
        keys[name] = made.text
        tables.append(key_table(record))
    return keys, "\n".join(tables)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    """Both tenants with a subscription ``s`` to a sink, and one ``bad`` whose sink refuses all."""
    folder = tmp_path_factory.mktemp("tenants")
    keys, tables = _keys()
    (folder / "server.toml").write_text(tables + QUOTAS)
    port = free_port() if proton_client.installed() else None
    flags = ["--auth", "required", "--config", str(folder / "server.toml"), "--receivers", "2"]
    flags += ["--private-sinks", "allow"]
    flags += ["--amqp-port", str(port)] if port else []
    behaviours = {name: Behaviour() for name in (*TENANTS, "trigger-shop", "trigger-till")}
    behaviours["bad"] = Behaviour(statuses=(StatusChance(400),))
    with (
        Traffic(folder, behaviours, keep_requests=True) as traffic,
        RunningServer(folder / "data", flags=flags) as server,
    ):
        made = Tenants(server, traffic, port, keys)
        for tenant in TENANTS:
            good, bad = proposal(made.sinks[tenant].url), proposal(made.sinks["bad"].url)
            assert made.ask("PUT", tenant, "/s", good).status == 201
            assert made.ask("PUT", tenant, "/bad", bad | {"source": f"/{tenant}"}).status == 201
        yield made


def test_each_tenant_gets_its_own_events(tenants: Tenants) -> None:
    """Published at the path that its first subscription made, at both receivers."""
    for number in range(6):
        for tenant in TENANTS:
            assert tenants.publish(tenant, f"{tenant}{number}") == 202
    for tenant in TENANTS:
        tenants.wait_for(tenant, *(f"{tenant}{number}" for number in range(6)))
    assert tenants.publish("nobody", "lost", by=EVERYTHING) == 404
    assert tenants.publish("default", "aside", "/events", by=EVERYTHING) == 202


def test_events_and_their_ways_are_of_one_tenant(tenants: Tenants) -> None:
    """Found by id, told with who published them and what became of them; others' are not there."""
    found = {}
    for tenant in TENANTS:
        (found[tenant],) = tenants.run(
            tenant, "events", "find", "--id", f"{tenant}3", "-n", tenant, "--json"
        )
        assert found[tenant]["address"] == f"/namespaces/{tenant}/events"
    other = {"shop": "till", "till": "shop"}
    for tenant in TENANTS:
        path = f"/namespaces/{tenant}/events"
        position = found[tenant]["position"]
        assert tenants.call("GET", f"{path}?id={other[tenant]}3", tenant).json() == []
        assert (
            tenants.call("GET", f"{path}/{found[other[tenant]]['position']}", tenant).status == 404
        )
        assert tenants.call("GET", f"{path}/{position}", other[tenant]).status == 403
        listed = tenants.call("GET", f"{path}?limit=1000", tenant).json()
        assert {each["event"]["source"] for each in listed} == {f"/{tenant}"}

        def told(tenant: str = tenant, position: str = position) -> dict[str, Any]:
            (way,) = tenants.run(tenant, "events", "show", position, "-n", tenant, "--json")
            return way

        def ended(told: Any = told) -> bool:
            matches = told()["matches"]
            return len(matches) == 2 and all(match["outcome"] for match in matches)

        wait_until(ended, WAIT_S, "the outcomes of an event")
        way = told()
        assert way["by"] == f"key:{tenant}"
        matches = {match["subscription"]: match for match in way["matches"]}
        assert {id_: match["outcome"] for id_, match in matches.items()} == {
            "s": "delivered",
            "bad": "dead-lettered",
        }
        (attempt,) = matches["bad"]["attempts"]
        assert (attempt["status"], attempt["attempt"]) == (400, 1)
        assert "answer" not in attempt  # the sink has a private address


def test_ids_of_another_tenant_are_none(tenants: Tenants) -> None:
    """And what is done to one of the same id changes nothing of the other."""
    till = tenants.ask("GET", "till", "/s")
    assert [found["id"] for found in tenants.ask("GET", "shop").json()] == ["bad", "s"]
    assert tenants.ask("PUT", "shop", "/only", proposal("http://127.0.0.1:9/")).status == 201
    for method, rest in (("GET", ""), ("DELETE", ""), ("GET", "/status"), ("POST", "/resume")):
        assert tenants.ask(method, "till", f"/only{rest}").status == 404
    assert tenants.ask("DELETE", "shop", "/only").status == 200
    assert _steady(tenants.ask("GET", "till", "/s").json()) == _steady(till.json())
    assert tenants.call("GET", "/subscriptions", EVERYTHING).json() == []


def test_dead_letters_are_of_one_tenant(tenants: Tenants) -> None:
    """Listed, sent again and deleted."""

    def kept(tenant: str) -> list[dict[str, Any]]:
        path = f"/namespaces/{tenant}/dead-letters?limit=1000"
        found: list[dict[str, Any]] = tenants.call("GET", path, tenant).json()
        return found

    for tenant in TENANTS:
        wait_until(lambda tenant=tenant: len(kept(tenant)) == 6, WAIT_S, "all are kept")
        assert {letter["event"]["source"] for letter in kept(tenant)} == {f"/{tenant}"}
    assert tenants.call("GET", "/dead-letters", EVERYTHING).json() == []
    purge = "/namespaces/shop/dead-letters/purge"
    assert tenants.call("POST", purge, "shop", {"all": True, "run": "r"}).status == 202
    wait_until(lambda: kept("shop") == [], WAIT_S, "those of shop are deleted")
    assert len(kept("till")) == 6
    run = "/namespaces/{}/dead-letters/runs/r"
    found = [tenants.call("GET", run.format(tenant), tenant).status for tenant in TENANTS]
    assert found == [200, 404]


def test_a_broker_and_its_triggers_are_of_one_tenant(tenants: Tenants) -> None:
    """The Broker ``default`` of a namespace is where its subscriptions listen as well."""
    for tenant in TENANTS:
        broker = {"metadata": {"name": "default"}, "spec": {}}
        assert tenants.objects("POST", tenant, "brokers", broker).status == 201
        uri = tenants.sinks[f"trigger-{tenant}"].url
        trigger = {
            "metadata": {"name": "t"},
            "spec": {"broker": "default", "subscriber": {"uri": uri}},
        }
        assert tenants.objects("POST", tenant, "triggers", trigger).status == 201

    def ready(tenant: str) -> bool:
        status = tenants.objects("GET", tenant, "triggers/t").json().get("status", {})
        conditions = status.get("conditions", ())
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    for tenant in TENANTS:
        wait_until(lambda tenant=tenant: ready(tenant), WAIT_S, "the Trigger is ready")
        assert tenants.publish(tenant, f"{tenant}-b", "/brokers/{}/default") == 202
        assert tenants.publish(tenant, f"{tenant}-n") == 202
    for tenant in TENANTS:
        tenants.wait_for(f"trigger-{tenant}", f"{tenant}-b", f"{tenant}-n")
        seen = [*(f"{tenant}{number}" for number in range(6)), f"{tenant}-b", f"{tenant}-n"]
        tenants.wait_for(tenant, *seen)
        listed = tenants.objects("GET", tenant, "triggers").json()["items"]
        assert [one["metadata"]["namespace"] for one in listed] == [tenant]
    assert tenants.objects("DELETE", "shop", "triggers/t").status == 200
    assert tenants.objects("GET", "till", "triggers/t").status == 200


def test_history_and_metrics_tell_whose_it_was(tenants: Tenants) -> None:
    """No row has another namespace than its event; the command shows one of them."""
    data = Path(tenants.server.data_dir)

    def sources() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for row in history_rows(data):
            if row["subscription"] == "s":
                found.setdefault(row["namespace"], set()).add(row["event_source"])
        return found

    wanted = {tenant: {f"/{tenant}"} for tenant in TENANTS}
    wait_until(lambda: sources() == wanted, WAIT_S, "the history tells of both")
    words = ("history", "--data-dir", str(data), "--namespace", "shop", "--subscription", "s")
    assert {row["namespace"] for row in tenants.run(EVERYTHING, *words)} == {"shop"}

    def counted(tenant: str) -> float:
        text = tenants.call("GET", "/metrics", tenant).body.decode()
        metrics = dict(samples(text))
        assert all(f'namespace="{tenant}"' in name for name in metrics)
        return metrics.get(f'namespace_events_total{{namespace="{tenant}"}}', 0)

    for tenant in TENANTS:
        wait_until(lambda tenant=tenant: counted(tenant) == 8, WAIT_S, "all are counted")
    whole = tenants.call("GET", "/metrics", EVERYTHING).body.decode()
    assert {f'namespace_events_total{{namespace="{one}"}}' for one in TENANTS} < dict(
        samples(whole)
    ).keys()


def test_the_commands_mean_one_tenant(tenants: Tenants) -> None:
    """Those that list, and those that change."""
    of_till = ("list", "--json", "--namespace", "till")
    assert [row["id"] for row in tenants.run("till", "subscriptions", *of_till)] == ["bad", "s"]
    assert tenants.run(EVERYTHING, "subscriptions", "list", "--json") == []
    letters = tenants.run("till", "dead-letters", *of_till)
    assert {letter["namespace"] for letter in letters} == {"till"}
    assert tenants.run(EVERYTHING, "dead-letters", "list", "--json", "--namespace", "default") == []


@pytest.mark.skipif(not proton_client.installed(), reason="NOT RUN: Qpid Proton is not installed")
def test_amqp_means_the_tenant_of_its_address(tenants: Tenants) -> None:
    """The same id is another subscription."""
    assert tenants.amqp_port is not None
    for tenant in TENANTS:
        answers = {}
        for by in TENANTS:
            client = proton_client.ProtonClient(
                tenants.amqp_port, tenants.keys[by], address=f"namespaces/{tenant}/subscriptions"
            )
            answer = client.ask("Retrieve", id="bad")  # its body lives as long as it does
            answers[by] = json.loads(bytes(answer.body))
            client.close()
        assert answers.pop(tenant)["source"] == f"/{tenant}"
        (refused,) = answers.values()
        assert refused["code"] == "forbidden"


def test_a_quota_of_one_tenant_is_not_felt_by_the_others(tenants: Tenants) -> None:
    """429 with the quota and its value; a change of the file holds after SIGHUP."""
    good = proposal(tenants.sinks["shop"].url, source="/nothing")
    assert tenants.ask("PUT", "limited", "/a", good).status == 201
    refused = tenants.ask("PUT", "limited", "/b", good)
    assert (refused.status, refused.json()["code"]) == (429, "quota-exceeded")
    assert "subscriptions = 1" in refused.json()["detail"]
    trigger = {"metadata": {"name": "t"}, "spec": {"broker": "default", "subscriber": {"uri": URI}}}
    refused = tenants.objects("POST", "limited", "triggers", trigger)
    assert (refused.status, refused.json()["reason"]) == (403, "Forbidden")
    assert "limited: subscriptions=1" in refused.json()["message"]
    assert tenants.ask("PUT", "shop", "/b", good).status == 201
    statuses = [tenants.publish("limited", f"l{number}") for number in range(40)]
    assert {202, 429} == set(statuses)
    assert tenants.publish("shop", "after") == 202
    config = Path(tenants.server.data_dir).parent / "server.toml"
    config.write_text(config.read_text().replace("subscriptions = 1", "subscriptions = 2"))
    os.kill(tenants.server.pid, signal.SIGHUP)
    wait_until(
        lambda: tenants.ask("PUT", "limited", "/b", good).status == 201, WAIT_S, "the new quota"
    )


STEERING = ("pause", "resume", "disable", "enable", "retry", "replay", "signature/rotate")


def _views(tenant: str) -> list[str]:
    """Paths of everything that *tenant* may read."""
    own = f"/namespaces/{tenant}"
    rests = ("subscriptions", "dead-letters?limit=1000", "runs", "events?limit=1000")
    paths = [f"{own}/{rest}" for rest in rests]
    paths += [
        f"{own}/subscriptions/{id_}{rest}" for id_ in ("s", "bad") for rest in ("", "/status")
    ]
    paths += ["/", "/keys", "/whoami", f"/api/v1{own}"]
    for kind in kinds.KINDS:
        if kind.namespaced:
            paths.append(f"{_root(kind)}{own}/{kind.plural}")
    return paths


def _root(kind: Any) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _steady(value: Any) -> Any:
    """*value* without rates and the minutes in which keys were used last."""
    if isinstance(value, dict):
        left = value.keys() - {"rate", "rates", "lastused"}
        return {name: _steady(each) for name, each in value.items() if name in left}
    return [_steady(each) for each in value] if isinstance(value, list) else value


def _seen(tenants: Tenants, tenant: str) -> dict[str, Any]:
    """What a tenant sees; without numbers that change by themselves."""
    found = {}
    for path in _views(tenant):
        answer = tenants.call("GET", path, tenant)
        assert answer.status == 200, path
        found[path] = _steady(answer.json())
        if isinstance(found[path], dict):
            found[path].pop("metadata", None)  # the server's own resourceVersion
    return found


def test_no_answer_to_one_tenant_names_the_other(tenants: Tenants) -> None:
    """Its name is in every event, sink, key and object of its; lists over all are refused."""
    for tenant in TENANTS:
        made = tenants.call(
            "POST",
            "/keys",
            tenant,
            {"name": f"{tenant}-reader", "may": ["read"], "namespaces": [tenant]},
        )
        assert made.status == 201
    for tenant, other in (TENANTS, TENANTS[::-1]):
        for path, value in _seen(tenants, tenant).items():
            text = json.dumps(value)
            assert other not in text, path
        for kind in kinds.KINDS:
            path = f"{_root(kind)}/{kind.plural}"
            assert tenants.call("GET", path, tenant).status == 403, path
        metrics = tenants.call("GET", "/metrics", tenant)
        assert (metrics.status, other.encode() in metrics.body) == (200, False)
        for path in ("/cluster", "/subscriptions", "/dead-letters", f"/api/v1/namespaces/{other}"):
            assert tenants.call("GET", path, tenant).status == 403, path


def test_nothing_of_another_tenant_is_changed(tenants: Tenants) -> None:
    """Whatever is asked with the other's key is refused, and leaves everything as it was."""
    before = once_still(lambda: _seen(tenants, "till"), WAIT_S, "nothing changes by itself")
    ids = [key["id"] for key in tenants.call("GET", "/keys", "till").json()]
    own = "/namespaces/till"
    asked = [
        ("PUT", f"{own}/subscriptions/s", proposal("http://127.0.0.1:9/"), 403),
        ("DELETE", f"{own}/subscriptions/s", None, 403),
        *(("POST", f"{own}/subscriptions/s/{verb}", {}, 403) for verb in STEERING),
        ("POST", f"{own}/runs/r/cancel", None, 403),
        ("POST", f"{own}/filters/try", {"recent": 1}, 403),
        ("POST", f"{own}/dead-letters/purge", {"all": True}, 403),
        ("POST", f"{own}/dead-letters/redrive", {"all": True}, 403),
        ("POST", "/keys", {"name": "n", "may": ["read"], "namespaces": ["till"]}, 403),
        *(("DELETE", f"/keys/{id_}", None, 404) for id_ in ids),
        *(("GET", f"/keys/{id_}", None, 404) for id_ in ids),
    ]
    for kind in kinds.KINDS:
        if kind.namespaced:
            folder = f"{_root(kind)}{own}/{kind.plural}"
            asked += [("DELETE", folder, None, 403), ("POST", folder, {}, 403)]
            asked += [(method, f"{folder}/t", {}, 403) for method in ("PUT", "DELETE")]
    for method, path, value, status in asked:
        assert tenants.call(method, path, "shop", value).status == status, (method, path)
    for path in ("/namespaces/{}/events", "/brokers/{}/default", "/channels/{}/none"):
        assert tenants.publish("till", "alien", path, by="shop") == 403
    assert "alien" not in tenants.arrived("till")
    assert _seen(tenants, "till") == before


def test_a_watch_tells_of_its_own_namespace(tenants: Tenants) -> None:
    """The other's change comes first, and is not among what the watch tells."""
    connection = http.client.HTTPConnection("127.0.0.1", tenants.server.port, timeout=WAIT_S)
    path = "/apis/eventing.knative.dev/v1/namespaces/{}/brokers?watch=1"
    fields = {"authorization": f"Bearer {tenants.keys['shop']}"}
    connection.request("GET", path.format("till"), headers=fields)
    refused = connection.getresponse()
    refused.read()
    assert refused.status == 403
    version = tenants.objects("GET", "shop", "brokers").json()["metadata"]["resourceVersion"]
    url = f"{path.format('shop')}&resourceVersion={version}"
    connection.request("GET", url, headers=fields)
    watch = connection.getresponse()
    for tenant in TENANTS[::-1]:
        broker = {"metadata": {"name": "watched"}, "spec": {}}
        assert tenants.objects("POST", tenant, "brokers", broker).status == 201
    told = json.loads(watch.readline())
    assert (told["type"], told["object"]["metadata"]["namespace"]) == ("ADDED", "shop")
    connection.close()


def test_tenants_are_told_what_they_may_do(tenants: Tenants) -> None:
    """By ``/whoami``, ``/can`` and the reviews of Kubernetes."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for tenant in TENANTS:
        who = tenants.call("GET", "/whoami", tenant).json()
        assert (who["name"], who["namespaces"]) == (f"key:{tenant}", [tenant])
        for other in (*TENANTS, "default", "*"):
            allowed = other == tenant
            asked = f"/can?verb=write&resource=subscriptions&namespace={other}"
            assert tenants.call("GET", asked, tenant).json()["allowed"] is allowed
            wanted = {"verb": "list", "resource": "triggers", "namespace": other.replace("*", "")}
            spec = {"spec": {"resourceAttributes": wanted}}
            answer = tenants.call("POST", reviews, tenant, {**review, **spec})
            assert answer.json()["status"]["allowed"] is allowed
