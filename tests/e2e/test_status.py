"""How subscriptions stand at a real server: a sink fails, an owner is killed, the sink is back."""

import json
from collections.abc import Iterator

import pytest

from distributary.cli._behaviour import Behaviour, StatusChance
from kit.running_server import Role, RunningServer, wait_until
from kit.traffic import Traffic
from kit.world import World

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEEN_S_MAX = 60.0
"""Patience with what shows within two seconds on a quiet machine."""
COUNT = 20
FAILS = Behaviour(statuses=(StatusChance(503),))
QUICK = {"delivery": {"retry": 1000, "backoffDelay": "PT0.2S", "backoffMax": "PT0.5S"}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One server for the whole module."""
    folder = tmp_path_factory.mktemp("status")
    with (
        Traffic(folder, {"good": Behaviour(), "bad": FAILS}) as traffic,
        RunningServer(folder / "data") as server,
    ):
        yield World(server, traffic)


def status(world: World, id_: str) -> dict:
    """The whole status of a subscription."""
    return world.server.request("GET", f"/subscriptions/{id_}/status").json()


def lines(world: World, event: str, id_: str) -> list[dict]:
    """What the log says of *event* of this subscription."""
    found = [json.loads(line) for line in world.server.log.read_text().splitlines()]
    return [each for each in found if (each["event"], each.get("subscription")) == (event, id_)]


def test_a_failing_sink_is_seen_everywhere_and_so_is_its_recovery(world: World) -> None:
    """In the status, the list, the overview, the metrics and the log; counts outlive a kill."""
    good = world.subscribe("/s", "good")
    bad = world.subscribe("/s", "bad", protocolsettings=QUICK)
    for number in range(COUNT):
        assert world.publish("/s", f"e{number}").status == 202
    wait_until(
        lambda: (
            status(world, bad)["state"] == "failing"
            and status(world, good)["delivered"] == COUNT
            and status(world, good)["waiting"] == 0
        ),
        SEEN_S_MAX,
        "the one fails, and the other has all",
    )
    failing = status(world, bad)
    assert failing["failing"]["reason"] == "status-503"
    assert failing["failing"]["sink"].startswith(world.sink("bad").url.rstrip("/"))
    assert failing["lastAnswer"]["status"] == 503
    assert (failing["delivered"], failing["lastSuccess"]) == (0, None)
    listed = world.server.request("GET", "/subscriptions?state=failing").json()
    assert [each["id"] for each in listed] == [bad]
    wait_until(lambda: lines(world, "deliveries-fail", bad), SEEN_S_MAX, "a line in the log")
    assert lines(world, "deliveries-fail", bad)[0]["level"] == "warning"

    labels = f'{{namespace="default",subscription="{good}"}}'
    name = f"subscription_delivered_total{labels}"
    wait_until(lambda: world.server.metrics().get(name) == COUNT, SEEN_S_MAX, "metrics")
    wait_until(
        lambda: world.server.request("GET", "/status").json()["failing"] == 1,
        SEEN_S_MAX,
        "the overview",
    )

    world.server.kill(Role.WRITER)
    world.server.wait_ready()
    # What was under way at the kill may come again.
    assert status(world, good)["delivered"] >= COUNT

    world.traffic.behave("bad", Behaviour())
    wait_until(
        lambda: status(world, bad)["state"] == "ready" and status(world, bad)["waiting"] == 0,
        SEEN_S_MAX,
        "all are delivered",
    )
    wait_until(lambda: lines(world, "deliveries-recovered", bad), SEEN_S_MAX, "the recovery")
    # A kill may have lost the counts of a second, and repeated what was under way.
    assert status(world, bad)["failing"] is None
    assert status(world, bad)["lastSuccess"] is not None
    wait_until(
        lambda: world.server.request("GET", "/status").json()["seconds"], SEEN_S_MAX, "a past"
    )


def test_a_server_of_one_machine_is_one_node(world: World) -> None:
    """Its locks are leases without an end, and each partition has an owner that has caught up."""

    def report() -> dict:
        return world.server.request("GET", "/cluster").json()

    wait_until(
        lambda: all(each["owner"] and each["lag"] == 0 for each in report()["partitions"]),
        SEEN_S_MAX,
        "each partition is delivered to its end",
    )
    found = report()
    (node,) = found["nodes"]
    assert node["leads"]
    assert node["takesEvents"]
    assert node["address"] == f"127.0.0.1:{world.server.port}"
    names = [lease["name"] for lease in found["leases"]]
    assert names[:2] == ["control", "partition-0000"]
    assert all(lease["held"] and lease["leftSeconds"] is None for lease in found["leases"])
    assert all(each["generation"] > 0 for each in found["partitions"])
    assert sum(each["position"] for each in found["partitions"]) >= COUNT
