"""The history of a running server: rows while it runs, after a kill, and after a stop."""

from functools import partial
from pathlib import Path

import msgspec
import pytest

from distributary.cli._behaviour import Behaviour, StatusChance
from distributary.core.event import Event
from kit.history_rows import history_rows
from kit.running_server import RunningServer, wait_until
from kit.traffic import Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S = 60.0
EVENTS = 8
POLICY = {"retry": 1, "backoffDelay": "PT0.1S"}


def _event(number: int) -> Event:
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": str(number),
        "source": "/history",
        "type": "t",
    }
    return Event(attributes, b"")


def _outcomes(data: Path, subscription: str) -> dict[str, str]:
    """Outcome of each event for a subscription, by the event's id."""
    return {
        row["event_id"]: row["outcome"]
        for row in history_rows(data)
        if row["subscription"] == subscription and row["outcome"]
    }


def test_every_match_has_its_row_while_the_server_runs_and_after_a_kill(tmp_path: Path) -> None:
    """One row for what is delivered at once, one for each attempt of what fails."""
    data = tmp_path / "data"
    behaviours = {"good": Behaviour(), "bad": Behaviour(statuses=(StatusChance(503),))}
    with Traffic(tmp_path, behaviours) as traffic, RunningServer(data) as server:
        good = server.subscribe(traffic.sinks["good"].url)
        bad = server.subscribe(traffic.sinks["bad"].url, protocolsettings={"delivery": POLICY})
        traffic.publish_now(server.url, _event, EVENTS)
        ids = {str(number) for number in range(EVENTS)}
        wait_until(lambda: set(_outcomes(data, bad)) == ids, WAIT_S, "the history tells of all")
        assert set(_outcomes(data, bad).values()) == {"dead-lettered"}
        assert set(_outcomes(data, good).values()) == {"delivered"}
        rows = [row for row in history_rows(data) if row["subscription"] == bad]
        assert len(rows) == 2 * EVENTS
        assert {(row["attempt"], row["status"], row["decision"]) for row in rows} == {
            (1, 503, "retry"),
            (2, 503, "dead-letter"),
        }
        assert {row["namespace"] for row in rows} == {"default"}

        traffic.publish_now(server.url, _event, EVENTS)
        arrived = traffic.sinks["good"].taken
        wait_until(lambda: len(arrived) == 2 * EVENTS, WAIT_S, "all events arrive")
        server.kill_all()
        server.start()
        ids = {str(number) for number in range(2 * EVENTS)}
        wait_until(lambda: set(_outcomes(data, good)) == ids, WAIT_S, "nothing is missing")

        traffic.publish_now(server.url, _event, EVENTS)
        wait_until(lambda: len(arrived) == 3 * EVENTS, WAIT_S, "all events arrive")
        assert server.stop() == 0
        assert len(_outcomes(data, good)) == 3 * EVENTS


def _counted(server: RunningServer, name: str) -> int:
    """Sum of what Spark has counted in the epochs that are over."""
    lines = map(msgspec.json.decode, server.log.read_bytes().splitlines())
    return sum((line.get("spark") or {}).get(name) or 0 for line in lines)


def _waits_for(server: RunningServer, subscription: str) -> bool:
    """Whether the way of the newest event says that it waits for this one alone."""
    newest = server.request("GET", "/events?limit=1").json()[0]
    matches = server.request("GET", f"/events/{newest['position']}").json()["matches"]
    waiting = {each["subscription"]: each["waiting"] for each in matches}
    return len(waiting) == 2 and [id_ for id_, waits in waiting.items() if waits] == [subscription]


def test_without_a_history_no_file_is_written_and_spark_counts(tmp_path: Path) -> None:
    """Deliveries go on as ever, and each is in the sums of one epoch."""
    data = tmp_path / "data"
    with (
        Traffic(tmp_path, {"sink": Behaviour()}) as traffic,
        RunningServer(data, flags=("--history", "off", "--epoch-s", "2")) as server,
    ):
        server.subscribe(traffic.sinks["sink"].url)
        traffic.publish_now(server.url, _event, EVENTS)
        arrived = traffic.sinks["sink"].taken
        wait_until(lambda: len(arrived) == EVENTS, WAIT_S, "all events arrive")
        down = server.subscribe("http://127.0.0.1:9/")
        traffic.publish_now(server.url, lambda _number: _event(EVENTS), 1)
        wait_until(lambda: len(arrived) == EVENTS + 1, WAIT_S, "the last one arrives")
        wait_until(partial(_waits_for, server, down), WAIT_S, "the way tells who waits")
        for name in ("attempts", "outcomes"):
            wait_until(partial(lambda n: _counted(server, n) > EVENTS, name), WAIT_S, name)
        assert server.stop() == 0
    assert not (data / "history").exists()
    assert not (data / "outbox").exists()
