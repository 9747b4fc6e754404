"""A pause while events come, a move to another sink, a replay and its end: over a real server."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from distributary.cli._behaviour import Behaviour
from kit.running_server import RunningServer, wait_until
from kit.traffic import Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S_MAX = 60.0
"""Longest wait for what must come, on a busy machine."""
JSON = {"content-type": "application/json"}
SOURCE = "/steered"


class World:
    """A server whose events come all the time, and three sinks."""

    def __init__(self, server: RunningServer, traffic: Traffic) -> None:
        self.server = server
        self.traffic = traffic
        self.url = {name: sink.url for name, sink in traffic.sinks.items()}
        self.published = 0
        self._ends = threading.Event()
        self._publishing = threading.Thread(target=self._publish)

    def begin(self) -> None:
        """Publish some hundred events a second from now on."""
        self._publishing.start()

    def end(self) -> None:
        """Publish no more, if it has begun."""
        self._ends.set()
        if self._publishing.ident is not None:
            self._publishing.join()

    def _publish(self) -> None:
        headers = {"content-type": "application/cloudevents-batch+json"}
        while not self._ends.is_set():
            events = [
                {"specversion": "1.0", "id": str(self.published + n), "source": SOURCE, "type": "t"}
                for n in range(10)
            ]
            body = json.dumps(events).encode()
            assert self.server.request("POST", "/events", body, headers).status == 202
            self.published += 10
            time.sleep(0.02)

    def post(self, path: str, body: Any = None) -> Any:
        """Send a request; its answer."""
        answer = self.server.request("POST", path, json.dumps(body or {}).encode(), JSON)
        assert answer.status in {200, 202}, answer
        return answer.json()

    def got(self, sink: str) -> Counter[int]:
        """Ids of what the sink got, counted."""
        requests = tuple(self.traffic.sinks[sink].requests)
        return Counter(int(dict(request.headers)[b"ce-id"]) for request in requests)

    def passes(self, sink: str) -> bool:
        """Whether it got nothing while the other one got all that was published meanwhile."""
        before, others = sum(self.got(sink).values()), sum(self.got("other").values())
        self.come("other", others + 100)
        wanted = set(range(self.published))
        wait_until(lambda: wanted <= self.got("other").keys(), WAIT_S_MAX, "all at the other")
        return sum(self.got(sink).values()) == before

    def come(self, sink: str, count: int) -> None:
        """Wait until the sink has got so many."""
        wait_until(lambda: sum(self.got(sink).values()) >= count, WAIT_S_MAX, f"{count} at {sink}")


@pytest.fixture
def world(tmp_path, plain_server: RunningServer) -> Iterator[World]:
    """A server without subscriptions to ``SOURCE`` yet."""
    sinks = dict.fromkeys(("steered", "other", "new"), Behaviour())
    with Traffic(tmp_path, sinks, keep_requests=True) as traffic:
        made = World(plain_server, traffic)
        yield made
        made.end()


def test_a_subscription_is_steered_while_events_come(world: World) -> None:
    """Nothing is lost or sent twice by a pause or a move; a replay sends each once more."""
    steered = f"/subscriptions/{world.server.subscribe(world.url['steered'], source=SOURCE)}"
    world.server.subscribe(world.url["other"], source=SOURCE)
    world.begin()
    world.come("steered", 100)
    assert world.post(f"{steered}/pause")["paused"]["by"]
    # Each partition hears of it in its own time; from then on nothing starts.
    wait_until(lambda: world.passes("steered"), WAIT_S_MAX, "the pause holds everywhere")
    before, others = sum(world.got("steered").values()), sum(world.got("other").values())
    world.come("other", others + 300)
    assert sum(world.got("steered").values()) == before
    status = world.server.request("GET", f"{steered}/status").json()
    assert status["state"] == "paused"
    # Moved while it is paused: what waits goes to the new sink.
    config = world.server.request("GET", steered).json()
    changed = {name: config[name] for name in ("protocol", "id", "source")}
    changed["sink"] = world.url["new"]
    answer = world.server.request("PUT", steered, json.dumps(changed).encode(), JSON)
    assert answer.status == 200
    assert world.passes("new"), "a change resumes nothing"
    world.post(f"{steered}/resume")
    world.come("new", 300)
    world.end()
    everything = set(range(world.published))
    wait_until(
        lambda: world.got("steered") + world.got("new") == Counter(everything),
        WAIT_S_MAX,
        "each event once, at the old sink or the new one",
    )
    wait_until(lambda: world.got("other") == Counter(everything), WAIT_S_MAX, "all at the other")
    held = world.got("new")
    asked = {"from": "2020-01-01T00:00:00Z", "run": "all-again"}
    assert world.post(f"{steered}/replay", asked | {"dryRun": True, "run": "dry"})
    assert world.post(f"{steered}/replay", asked) == {"run": "all-again"}
    wait_until(lambda: world.got("new") == held + Counter(everything), WAIT_S_MAX, "each once more")

    def state(run: str) -> Any:
        return world.server.request("GET", f"/runs/{run}").json()

    for run in ("dry", "all-again"):
        wait_until(lambda run=run: state(run)["state"] == "done", WAIT_S_MAX, f"{run} is done")
        assert state(run)["handled"] == world.published
    assert world.got("other") == Counter(everything)
    slow = world.post(f"{steered}/replay", asked | {"run": "slow", "rateLimit": 10})
    wait_until(lambda: state("slow")["handled"] > 0, WAIT_S_MAX, "the slow one begins")
    world.post(f"/runs/{slow['run']}/cancel")
    wait_until(lambda: state("slow")["state"] == "cancelled", WAIT_S_MAX, "it is cancelled")
    assert state("slow")["handled"] < world.published
    names = [run["run"] for run in world.server.request("GET", "/runs?kind=replay").json()]
    assert names[:3] == ["slow", "all-again", "dry"]  # those of other tests are older
