"""Lifecycle events on a whole server: what becomes of subscriptions comes to who asked for it."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from distributary.cli._behaviour import Behaviour, StatusChance
from distributary.subscriptions.lifecycle import DATA_SCHEMA
from kit.running_server import RunningServer, wait_until
from kit.traffic import Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COME_S_MAX = 60.0
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "subscribe-to-lifecycle-events.md"
JSON = {"content-type": "application/json"}
MINE, THEIRS = "life-mine", "life-theirs"
LISTEN = {"broker": "lifecycle"}


class World:
    """A server, sinks, and what they got."""

    def __init__(self, server: RunningServer, traffic: Traffic) -> None:
        self.server = server
        self.traffic = traffic

    def put(self, id_: str, sink: str, namespace: str = MINE, **members: Any) -> dict[str, Any]:
        """Create or replace a subscription whose sink is called *sink*."""
        body = {"sink": self.traffic.sinks[sink].url, "protocol": "HTTP", **members}
        path = f"/namespaces/{namespace}/subscriptions/{urllib.parse.quote(id_)}"
        answer = self.server.request("PUT", path, json.dumps(body).encode(), JSON)
        assert answer.status in {200, 201}, answer.body
        made: dict[str, Any] = answer.json()
        return made

    def delete(self, id_: str, namespace: str = MINE) -> None:
        """Delete a subscription."""
        path = f"/namespaces/{namespace}/subscriptions/{urllib.parse.quote(id_)}"
        assert self.server.request("DELETE", path).status == 200

    def events(self, sink: str) -> list[dict[str, str]]:
        """Attributes of the events that the sink got, each with its data."""
        found = []
        for request in list(self.traffic.sinks[sink].requests):
            fields = {name.decode(): value.decode() for name, value in request.headers}
            event = {name[3:]: fields[name] for name in fields if name.startswith("ce-")}
            found.append(event | {"data": request.body.decode()})
        return found

    def told(self, sink: str) -> list[tuple[str, str]]:
        """Which transitions of which subscriptions the sink was told of, once for each id."""
        found = {event["id"]: event for event in self.events(sink)}
        return [
            (event["type"].split(".")[-2], urllib.parse.unquote(event["subject"]))
            for event in found.values()
        ]

    def wait_told(self, sink: str, *expected: tuple[str, str]) -> None:
        """Wait until the sink was told of exactly what is expected, in any order."""
        wait_until(
            lambda: set(expected) <= set(self.told(sink)),
            COME_S_MAX,
            f"{expected} at {sink}",
        )
        assert sorted(self.told(sink)) == sorted(expected)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, plain_server: RunningServer) -> Iterator[World]:
    """The server with the sinks of this module."""
    names = ("guide", "down", "deaf", "ear-of-failing", "steer-ear", "steered")
    names += ("ear", "other-ear", "theirs", "plain", "own", "trigger", "broker", "late")
    with Traffic(
        tmp_path_factory.mktemp("lifecycle"), dict.fromkeys(names, Behaviour()), keep_requests=True
    ) as traffic:
        yield World(plain_server, traffic)


def test_what_becomes_of_subscriptions_comes_to_those_who_listen(world: World) -> None:
    """Of their namespace alone, and to nobody unasked; with data that fits the schema."""
    world.put("everything", "plain")
    world.put("theirs", "theirs", THEIRS, config=LISTEN)
    world.put("ear", "ear", config=LISTEN)
    world.put("other-ear", "other-ear", config=LISTEN, filters=[{"exact": {"subject": "b"}}])
    world.put("a", "own", types=["none"], config={"lifecycle": True})
    soon = datetime.now(UTC) + timedelta(seconds=5)
    world.put("b", "own", types=["none"], config={"expires": soon.isoformat()})
    world.put("c", "own", THEIRS)
    world.put("d", "own", types=["none"])
    world.put("d", "own", types=["others"])
    world.delete("d")
    of_b = [("started", "b"), ("ended", "b")]
    of_d = [("started", "d"), ("updated", "d"), ("ended", "d")]
    world.wait_told("ear", ("started", "a"), *of_b, *of_d)
    world.wait_told("other-ear", *of_b)
    world.wait_told("theirs", ("started", "c"))
    world.wait_told("own", ("started", "a"))
    assert world.told("plain") == []
    for event in world.events("ear"):
        jsonschema.validate(json.loads(event["data"]), DATA_SCHEMA)
        assert event["source"].endswith(f":{world.server.port}/namespaces/{MINE}")
    ended = [each for each in world.events("ear") if each["type"].endswith("ended.v1")]
    reasons = {each["subject"]: json.loads(each["data"])["reason"] for each in ended}
    assert reasons == {"b": "expired", "d": "deleted"}


def test_a_trigger_listens_and_is_told_of(world: World) -> None:
    """It names the Broker, which has no object; who listens there is told of by nobody."""
    kinds = f"/apis/eventing.knative.dev/v1/namespaces/{MINE}/triggers"

    def trigger(name: str, broker: str) -> None:
        body = {
            "apiVersion": "eventing.knative.dev/v1",
            "kind": "Trigger",
            "metadata": {"name": name, "namespace": MINE},
            "spec": {
                "broker": broker,
                "subscriber": {"uri": world.traffic.sinks["trigger"].url},
            },
        }
        answer = world.server.request("POST", kinds, json.dumps(body).encode(), JSON)
        assert answer.status == 201, answer.body

    def ready() -> bool:
        answer = world.server.request("GET", f"{kinds}/listens").json()
        found = answer.get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in found)

    trigger("listens", "lifecycle")
    wait_until(ready, COME_S_MAX, "the Trigger is ready")
    world.put("e", "own")
    world.wait_told("trigger", ("started", "e"))
    assert world.server.request("DELETE", f"{kinds}/listens").status == 200
    # What comes next is told after whatever was to be told of the Trigger.
    world.put("after", "own")
    wait_until(lambda: ("started", "after") in world.told("ear"), COME_S_MAX, "the next one")
    assert {name for _, name in world.told("ear") if "listens" in name} == set()


def test_nobody_else_publishes_there(world: World) -> None:
    """Neither an event nor a Broker of that name."""
    event = {"ce-id": "1", "ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}
    path = f"/brokers/{MINE}/lifecycle"
    assert world.server.request("POST", path, b"", event).status == 403
    body = {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Broker",
        "metadata": {"name": "lifecycle", "namespace": MINE},
    }
    kinds = f"/apis/eventing.knative.dev/v1/namespaces/{MINE}/brokers"
    assert world.server.request("POST", kinds, json.dumps(body).encode(), JSON).status == 422


def test_a_subscription_attaches_to_a_broker_of_its_namespace(world: World) -> None:
    """And gets its events, and no others."""
    body = {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Broker",
        "metadata": {"name": "orders", "namespace": MINE},
    }
    kinds = f"/apis/eventing.knative.dev/v1/namespaces/{MINE}/brokers"
    assert world.server.request("POST", kinds, json.dumps(body).encode(), JSON).status == 201
    path = f"/namespaces/{MINE}/subscriptions/nowhere"
    wrong = {"sink": world.traffic.sinks["broker"].url, "protocol": "HTTP"}
    wrong["config"] = {"broker": "elsewhere"}
    refused = world.server.request("PUT", path, json.dumps(wrong).encode(), JSON)
    assert refused.status == 400, refused.body
    assert b"$.config.broker" in refused.body
    world.put("attached", "broker", config={"broker": "orders"})
    event = {"ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}

    def taken() -> bool:
        where = f"/brokers/{MINE}/orders"
        return world.server.request("POST", where, b"", event | {"ce-id": "at"}).status == 202

    wait_until(taken, COME_S_MAX, "the Broker takes events")
    elsewhere = f"/namespaces/{MINE}/events"
    assert world.server.request("POST", elsewhere, b"", event | {"ce-id": "off"}).status == 202
    wait_until(lambda: world.events("broker") != [], COME_S_MAX, "the event of the Broker")
    wait_until(world.server.settled, COME_S_MAX, "all events have come")
    assert {each["id"] for each in world.events("broker")} == {"at"}
    world.put("late", "late", config={"broker": "orders", "start": "earliest"})
    wait_until(lambda: world.events("late") != [], COME_S_MAX, "the past of the Broker")
    wait_until(world.server.settled, COME_S_MAX, "all of the past has come")
    assert {each["id"] for each in world.events("late")} == {"at"}


def test_failing_and_recovered_are_told_but_not_of_who_listens(world: World) -> None:
    """A listener that fails itself makes no event: there is no end to such events otherwise."""
    quickly = {"delivery": {"retry": 100, "backoffDelay": "PT0.1S", "backoffMax": "PT0.2S"}}
    own, down = "life-failing", Behaviour(statuses=(StatusChance(503, 1.0),))
    world.traffic.behave("down", down)
    world.traffic.behave("deaf", down)
    world.put("ear", "ear-of-failing", own, config=LISTEN)
    world.put("deaf", "deaf", own, config=LISTEN, protocolsettings=quickly)
    world.put("f", "down", own, types=["f"], protocolsettings=quickly)
    event = {"ce-id": "1", "ce-source": "/s", "ce-type": "f", "ce-specversion": "1.0"}
    path = f"/namespaces/{own}/events"
    assert world.server.request("POST", path, b"", event).status == 202
    started, failing = ("started", "f"), ("failing", "f")
    world.wait_told("ear-of-failing", started, failing)
    where = f"/namespaces/{own}/subscriptions/deaf/status"
    wait_until(
        lambda: world.server.request("GET", where).json()["state"] == "failing",
        COME_S_MAX,
        "the listener fails",
    )
    world.traffic.behave("down", Behaviour())
    world.wait_told("ear-of-failing", started, failing, ("recovered", "f"))
    world.traffic.behave("deaf", Behaviour())
    expected = {started, failing, ("recovered", "f")}
    wait_until(lambda: expected <= set(world.told("deaf")), COME_S_MAX, "the listener recovers")
    wait_until(
        lambda: world.server.request("GET", where).json()["state"] == "ready",
        COME_S_MAX,
        "the listener is seen to have recovered",
    )
    # What comes next is told after whatever was to be told of the listener.
    world.put("next", "down", own, types=["f"])
    world.wait_told("ear-of-failing", started, failing, ("recovered", "f"), ("started", "next"))
    told = {each["type"]: json.loads(each["data"]) for each in world.events("ear-of-failing")}
    data = told["dev.distributary.subscription.failing.v1"]
    jsonschema.validate(data, DATA_SCHEMA)
    assert data["count"] >= 3
    assert data["sink"] == world.traffic.sinks["down"].url


def test_who_steers_is_told_of(world: World) -> None:
    """Each change once, with who asked; also at the sink that is steered, once it goes on."""
    own = "life-steered"
    world.put("ear", "steer-ear", own, config=LISTEN)
    world.put("s", "steered", own, config={"lifecycle": True})
    path = f"/namespaces/{own}/subscriptions/s"
    for verb in ("pause", "pause", "resume", "disable", "enable"):
        body = b'{"reason": "too slow"}' if verb == "disable" else None
        fields = JSON if body else None
        assert world.server.request("POST", f"{path}/{verb}", body, fields).status < 300
    words = ("started", "paused", "resumed", "disabled", "enabled")
    world.wait_told("steer-ear", *((word, "s") for word in words))
    world.wait_told("steered", *((word, "s") for word in words))
    told = {each["type"]: json.loads(each["data"]) for each in world.events("steer-ear")}
    for data in told.values():
        jsonschema.validate(data, DATA_SCHEMA)
    assert told["dev.distributary.subscription.disabled.v1"]["reason"] == "too slow"
    assert "by" in told["dev.distributary.subscription.paused.v1"]


def test_the_guide_does_what_it_says(world: World) -> None:
    """Its commands run as they stand, in a namespace of their own, with one sink for all."""
    sink = world.traffic.sinks["guide"].url
    environ = os.environ | {
        "DISTRIBUTARY_URL": f"http://127.0.0.1:{world.server.port}",
        "DISTRIBUTARY_NAMESPACE": "life-guide",
    }
    blocks = re.findall(r"^```console\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", "").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if " listen " not in line]
    for words in commands:
        to = [re.sub(r"http://127\.0\.0\.1:9000/\w+", sink, word) for word in words]
        program = [sys.executable, "-m", "distributary.cli", *to]
        done = subprocess.run(
            program, env=environ, capture_output=True, text=True, timeout=COME_S_MAX, check=False
        )
        assert done.returncode == 0, (words, done.stderr)
    assert len(commands) == 5
    # Made, deleted, and made again, with its own sink as a third listener.
    wait_until(
        lambda: (
            world.told("guide").count(("started", "orders")) == 2
            and ("ended", "orders") in world.told("guide")
        ),
        COME_S_MAX,
        "what the guide makes is told",
    )
    assert {subject for _, subject in world.told("guide")} == {"orders"}
