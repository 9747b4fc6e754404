"""The console of a running server: each question of an operator, in at most three steps.

With ``DISTRIBUTARY_PICTURES`` in the environment the pictures of the documentation are made again.
"""

import json
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distributary.cli._behaviour import Behaviour, StatusChance
from kit.browser import Browser
from kit.running_server import RunningServer, wait_until
from kit.traffic import Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "images"
PICTURE_BYTES_MAX = 180_000
PLACES = {"overview": "", "overview-dark": "", "subscription": "subscriptions/orders"}
TRAFFIC_S = 140.0
"""How long events flow before the pictures that are kept: charts are worth a look then."""

WAIT_S = 60.0
NS = "walk"
JSON = {"content-type": "application/json"}
EVENT = {"content-type": "application/cloudevents+json"}
STEPS_MAX = 3
RETRIES = 7

Step = tuple[str, ...]

QUESTIONS: dict[str, tuple[tuple[Step, ...], str]] = {
    "whether all is well": ((), "are kept."),
    "what flows": ((), "Delivered/s"),
    "which subscriptions fail, and why": ((), "status-503"),
    "the last attempts of one event": ((("go", "Events"), ("choose", "order-3")), "Its way"),
    "find an event": ((("go", "Events"), ("search", "id", "order-5")), "order-5"),
    "dead letters": ((("go", "Dead letters"),), "com.example.order"),
    "send dead letters again": (
        (("go", "Dead letters"), ("click", "Redrive…"), ("click", "Redrive")),
        "Passed over",
    ),
    "delete dead letters": (
        (("go", "Dead letters"), ("click", "Purge…"), ("click", "Purge")),
        "Passed over",
    ),
    "pause": ((("go", "Subscriptions"), ("choose", "orders"), ("click", "Pause")), "Paused"),
    "resume": ((("go", "Subscriptions"), ("choose", "orders"), ("click", "Resume")), "resumed"),
    "try again now": ((("go", "Subscriptions"), ("choose", "broken"), ("click", "Retry")), "tried"),
    "replay to a new one": (
        (("go", "Subscriptions"), ("click", "New…"), ("create", "again")),
        "again is created",
    ),
    "replay to an existing one": (
        (("go", "Subscriptions"), ("choose", "orders"), ("replay",)),
        "replay",
    ),
    "change one field, or the secret of a sink": (
        (("go", "Subscriptions"), ("choose", "orders"), ("edit",)),
        "Saved",
    ),
    "try a filter on past events": ((("go", "Try a filter"), ("click", "Try")), "events pass"),
    "Brokers and Triggers": ((("go", "Brokers and Triggers"),), "audit"),
}
"""Question -> the steps in the console, and what then shows."""

Ask = Callable[[str], Any]


def ran(kind: str, least: int) -> Callable[[Ask], bool]:
    """Whether a run of that kind has ended, of so many events at least."""
    return lambda ask: any(
        run["state"] == "done" and run["handled"] >= least for run in ask(f"/runs?kind={kind}")
    )


DONE: dict[str, Callable[[Ask], bool]] = {
    "send dead letters again": ran("redrive", 8),
    "delete dead letters": ran("purge", 1),
    "pause": lambda ask: ask("/subscriptions/orders/status")["state"] == "paused",
    "resume": lambda ask: ask("/subscriptions/orders/status")["state"] == "ready",
    "try again now": ran("retry", 0),
    "replay to a new one": lambda ask: ask("/subscriptions/again/status")["delivered"] >= 8,
    "replay to an existing one": ran("replay", 8),
    "change one field, or the secret of a sink": lambda ask: (
        ask("/subscriptions/orders")["protocolsettings"]["delivery"]["retry"] == RETRIES
    ),
}
"""Question that changes something -> whether the server has done it."""


class World:
    """A namespace with events, a subscription that works, and one whose sink is broken."""

    def __init__(self, server: RunningServer, traffic: Traffic) -> None:
        self.server = server
        self.traffic = traffic

    def ask(self, method: str, path: str, value: object = None) -> Any:
        """The answer of the namespace; must be one of success."""
        body = None if value is None else json.dumps(value).encode()
        kind = EVENT if path == "/events" else JSON
        answer = self.server.request(method, f"/namespaces/{NS}{path}", body, kind)
        assert answer.status < 300, (path, answer.status, answer.body)
        return answer.json() if answer.body else None

    def make(self) -> None:
        """Make it, and wait until what was to happen has happened."""
        once = {"delivery": {"retry": 0}}
        for name, sink, settings in (("orders", "good", {}), ("broken", "bad", once)):
            url = self.traffic.sinks[sink].url
            proposal = {"sink": url, "protocol": "HTTP", "protocolsettings": settings}
            selecting = {"filters": [{"prefix": {"type": "com.example."}}]}
            self.ask("PUT", f"/subscriptions/{name}", proposal | selecting)
        self.object("eventing.knative.dev/v1", "brokers", "Broker", "default", {})
        subscriber = {"subscriber": {"uri": self.traffic.sinks["good"].url}}
        spec = {"broker": "default", **subscriber}
        self.object("eventing.knative.dev/v1", "triggers", "Trigger", "audit", spec)
        wait_until(self.audits, WAIT_S, "the Trigger gets what comes from now on")
        for number in range(8):
            self.publish(f"order-{number}")
        good = self.traffic.sinks["good"].taken
        wait_until(lambda: len(good) >= 8, WAIT_S, "the good sink has all")
        letters = "/dead-letters?limit=1000"
        wait_until(lambda: len(self.ask("GET", letters)) >= 8, WAIT_S, "all are kept")

    def object(self, group: str, plural: str, kind: str, name: str, spec: Any) -> None:
        """Make an object of the Kubernetes API."""
        value = {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec}
        path = f"/apis/{group}/namespaces/{NS}/{plural}"
        answer = self.server.request("POST", path, json.dumps(value).encode(), JSON)
        assert answer.status == 201, answer.body

    def audits(self) -> bool:
        """Whether the Trigger is Ready: before that it may miss an event."""
        path = f"/apis/eventing.knative.dev/v1/namespaces/{NS}/triggers/audit"
        found = self.server.request("GET", path).json().get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in found)

    def publish(self, id_: str) -> None:
        """Publish one event."""
        event = {"specversion": "1.0", "id": id_, "source": "/shop", "type": "com.example.order"}
        more = {"subject": f"order {id_}", "data": {"amount": 7, "currency": "EUR"}}
        self.ask("POST", "/events", event | more)


@pytest.fixture(scope="module")
def world(plain_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The namespace, made once."""
    folder = tmp_path_factory.mktemp("walk")
    behaviours = {"good": Behaviour(), "bad": Behaviour(statuses=(StatusChance(503),))}
    with Traffic(folder, behaviours, keep_requests=True) as traffic:
        plain_server.wait_ready()
        made = World(plain_server, traffic)
        made.make()
        yield made
        for group, plural, name in (
            ("eventing.knative.dev/v1", "triggers", "audit"),
            ("eventing.knative.dev/v1", "brokers", "default"),
        ):
            path = f"/apis/{group}/namespaces/{NS}/{plural}/{name}"
            assert plain_server.request("DELETE", path).status == 200


@pytest.fixture
def page(browser: Browser, world: World) -> Iterator[Browser]:
    """The console of the server, at the namespace; it must leave no error behind."""
    browser.look()
    browser.events.clear()
    browser.open(f"{world.server.url}/console")
    browser.wait("document.querySelector('#namespace option[value=walk]')")
    browser.run(
        "(s => { s.value = 'walk'; s.dispatchEvent(new Event('change')); })"
        "(document.getElementById('namespace'))"
    )
    browser.wait_for("Needs attention")
    yield browser
    assert browser.errors() == []


def change(page: Browser, **members: Any) -> None:
    """Change members of the JSON in the dialog."""
    page.wait("document.querySelector('dialog[open] [name=body]')")
    body = json.loads(page.run("document.querySelector('[name=body]').value"))
    page.fill("body", json.dumps(body | members))


def do(page: Browser, world: World, step: Step) -> None:
    """One step: a click, or a form with its button."""
    kind, *words = step
    if kind in {"go", "click"}:
        page.click(words[0])
    elif kind == "choose":
        page.wait_for(words[0])
        page.click(words[0])
    elif kind == "search":
        page.fill(*words)
        page.click("Search")
    elif kind == "create":
        change(page, sink=world.traffic.sinks["good"].url, config={"start": "earliest"})
        page.fill("id", words[0])
        page.click("Create")
    elif kind == "replay":
        page.click("Replay…")
        page.click("Replay")
    else:
        page.click("Edit…")
        change(page, protocolsettings={"delivery": {"retry": RETRIES}})
        page.click("Save")


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_is_answered_in_three_steps(
    page: Browser, world: World, question: str
) -> None:
    """From the first page, with a real server and real events; what is asked for is done."""
    steps, shown = QUESTIONS[question]
    assert len(steps) <= STEPS_MAX
    for step in steps:
        do(page, world, step)
    page.wait_for(shown)
    if question in DONE:
        done = DONE[question]
        wait_until(lambda: done(lambda path: world.ask("GET", path)), WAIT_S, question)


def test_a_published_event_leads_to_its_way(page: Browser, world: World) -> None:
    """The guard of the receiver lets its requests through, and the sink gets the event."""
    page.click("Publish")
    page.fill("type", "com.example.hello")
    page.fill("id", "from-the-console")
    page.run("document.querySelector('main form').requestSubmit()")
    page.wait_for("It is on disk")
    taken = world.traffic.sinks["good"].taken
    wait_until(lambda: "from-the-console" in taken, WAIT_S, "the event arrives")
    page.click("Find it, and its way")
    page.click("from-the-console")
    page.wait_for("Its way")
    page.wait_for("delivered")


def test_a_subscription_is_deleted_once_its_name_is_typed(page: Browser, world: World) -> None:
    """Not by a single click."""
    world.ask("PUT", "/subscriptions/short", {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"})
    page.click("Subscriptions")
    page.click("short")
    page.click("Delete…")
    page.wait("document.querySelector('dialog[open] button[type=submit]').disabled")
    page.fill("phrase", "short")
    page.click("Delete")
    page.wait_for("short is deleted")
    assert [one["id"] for one in world.ask("GET", "/subscriptions")].count("short") == 0


def test_the_pictures_of_the_documentation_can_be_made(page: Browser, world: World) -> None:
    """Each page in light and in dark; kept only where somebody asks for it."""
    wanted = bool(os.environ.get("DISTRIBUTARY_PICTURES"))
    began_s, number = time.monotonic(), 0
    while number < 12 or (wanted and time.monotonic() - began_s < TRAFFIC_S):
        world.publish(f"more-{number}")
        number += 1
        if wanted:
            time.sleep(0.02 + 0.03 * random.random() ** 2 + 0.02 * math.sin(number / 400) ** 2)
    kept = {}
    for name, shown, dark in (
        ("overview", ".chart", False),
        ("overview-dark", ".chart", True),
        ("subscriptions", ".spark .line", False),
        ("subscription", ".chart", False),
        ("event", ".way", True),
        ("dead-letters", "td", False),
        ("graph", ".graph", True),
    ):
        page.look(dark=dark, width=1200, height=720)
        if name == "event":
            do(page, world, ("go", "Events"))
            page.fill("id", "order-3")
            page.click("Search")
            page.wait("document.querySelectorAll('main tbody tr').length === 1")
            page.click("order-3")
            page.wait_for("Its way")
        else:
            place = PLACES.get(name, name)
            page.run(f"location.hash = '#/{place}'")
        page.wait(f"document.querySelector('main {shown}')")
        page.wait("!document.querySelector('#told p')")
        kept[name] = page.picture()
        assert kept[name].startswith(b"\x89PNG")
        assert len(kept[name]) < PICTURE_BYTES_MAX, name
    if wanted:
        PICTURES.mkdir(exist_ok=True)
        for name, picture in kept.items():
            (PICTURES / f"console-{name}.png").write_bytes(picture)
