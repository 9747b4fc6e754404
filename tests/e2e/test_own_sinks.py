"""Subscriptions that feed this server's own ``/events``: refused, or ended by the count."""

from pathlib import Path

import msgspec
import pytest

from kit.running_server import RunningServer, total, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OWN = "http://events.example"
SETTLE_S_MAX = 60.0
STEADFAST = {"delivery": {"retry": 0}}
BODY = {"sink": f"{OWN}/events", "protocol": "HTTP", "protocolsettings": STEADFAST}


def publish(server: RunningServer) -> None:
    """One event."""
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
    assert server.request("POST", "/events", b"", headers).status == 202


def test_two_subscriptions_that_feed_each_other_end_by_the_count(tmp_path: Path) -> None:
    """With ``own_sinks`` 3 an event comes back thrice: 2 + 4 + 8. Without it the sinks wait."""
    public = ("--public-url", OWN)
    with RunningServer(tmp_path / "data", flags=[*public, "--own-sinks", "3"]) as server:
        for _ in range(2):
            server.subscribe(BODY["sink"], protocolsettings=STEADFAST)
        publish(server)
        wait_until(
            lambda: server.metrics().get('dropped_total{reason="hop-limit"}', 0) >= 16,
            SETTLE_S_MAX,
            "the last echoes end",
        )
        wait_until(server.settled, SETTLE_S_MAX, "everything settles")
        metrics = server.metrics()
        assert total(metrics, "delivered_total") == 2 + 4 + 8
        assert total(metrics, "dropped_total") == 16
        assert total(metrics, "dead_lettered_total") == 0
        assert server.stop() == 0

    with RunningServer(tmp_path / "data", flags=public) as server:
        body, json = msgspec.json.encode(BODY), {"content-type": "application/json"}
        refused = server.request("POST", "/subscriptions", body, json)
        assert (refused.status, b"own_sinks" in refused.body) == (400, True)
        before = server.metrics()
        publish(server)
        wait_until(lambda: "sink-refused" in server.log_tail(), SETTLE_S_MAX, "a warning")
        after = server.metrics()
        for name in ("delivered_total", "dropped_total", "dead_lettered_total"):
            assert total(after, name) == total(before, name), name
