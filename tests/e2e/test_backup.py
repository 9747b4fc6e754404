"""A backup under load: what was acknowledged before it began is in it, wherever it is restored.

Sinks that refuse everything keep the first server from delivering, so what they get in the end
comes from the copy alone.
"""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from distributary.cli._behaviour import Behaviour, StatusChance
from distributary.core.event import Event
from kit.running_server import RunningServer, clean_environ, wait_until
from kit.traffic import Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RATE_PER_S = 500.0
SEEN_S_MAX = 180.0
"""Patience with what takes seconds on a quiet machine."""

RETRIES = {"retry": 1000, "backoffDelay": "PT0.2S", "backoffMax": "PT1S"}


def _event(number: int) -> Event:
    attributes = {"specversion": "1.0", "id": f"{number}", "source": "/load", "type": "load"}
    return Event(attributes, b"x" * 1000)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "distributary.cli", *words]


def _run(*words: str) -> str:
    done = subprocess.run(
        _command(*words), check=False, env=clean_environ(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class _Changes(threading.Thread):
    """Makes and deletes subscriptions to ``changed`` until it is told to stop."""

    def __init__(self, server: RunningServer, sink: str) -> None:
        super().__init__()
        self._server, self._sink = server, sink
        self.over = threading.Event()
        self.made = 0

    def run(self) -> None:
        while not self.over.wait(0.01):
            name = self._server.subscribe(f"{self._sink}/{self.made}")
            if self.made % 3 == 0:
                self._server.request("DELETE", f"/subscriptions/{name}")
            self.made += 1


def _dead_letters(server: RunningServer) -> list[str]:
    """Ids of the events of all dead letters that *server* keeps."""
    found: list[str] = []
    path = "/dead-letters?limit=1000"
    while path:
        answer = server.request("GET", path)
        found += [letter["event"]["id"] for letter in answer.json()]
        link = answer.headers.get("link", "")
        path = link.partition("<")[2].partition(">")[0] if 'rel="next"' in link else ""
    return found


def test_what_was_acknowledged_before_a_backup_is_delivered_by_its_copy(tmp_path: Path) -> None:
    """500 events/s, subscriptions that come and go, a backup that is killed, and another one.

    A sink that takes everything, one that is down until the copy runs, and one that refuses for
    good: the copy delivers or keeps whatever was acknowledged before the backup began.
    """
    down = Behaviour(statuses=(StatusChance(503),))
    refusing = Behaviour(statuses=(StatusChance(400),))
    sinks = {"good": Behaviour(), "down": down, "refusing": refusing, "changed": Behaviour()}
    copy = tmp_path / "elsewhere" / "data"
    with Traffic(tmp_path, sinks, keep_requests=True) as traffic:
        urls = {name: sink.url for name, sink in traffic.sinks.items()}
        with RunningServer(tmp_path / "data") as first:
            for name in ("good", "down", "refusing"):
                first.subscribe(urls[name], protocolsettings={"delivery": RETRIES})
            traffic.publish(first.url, _event, RATE_PER_S)
            changes = _Changes(first, urls["changed"])
            changes.start()
            wait_until(lambda: len(traffic.acked) > 2 * RATE_PER_S, SEEN_S_MAX, "some are taken")

            data = ("--data-dir", str(first.data_dir))
            killed = tmp_path / "killed"
            slow = subprocess.Popen(
                _command("backup", str(killed), *data, "--rate", "0.05"), env=clean_environ()
            )
            wait_until(lambda: any(killed.rglob("*")), SEEN_S_MAX, "it copies")
            slow.send_signal(signal.SIGKILL)
            assert slow.wait() == -signal.SIGKILL

            before = {f"{number}" for number in tuple(traffic.acked)}
            said = _run("backup", str(tmp_path / "whole"), *data)
            assert "; checked" in said
            ended = len(traffic.acked)
            # Publishing went on while it copied, and does after it.
            wait_until(lambda: len(traffic.acked) > ended + 100, SEEN_S_MAX, "more are taken")
            wait_until(lambda: changes.made > 20, SEEN_S_MAX, "subscriptions have come and gone")
            changes.over.set()
            changes.join()
            traffic.finish()
        assert not before & traffic.sinks["down"].taken.keys()
        refused = subprocess.run(
            _command("restore", str(killed), "--data-dir", str(tmp_path / "no")),
            check=False,
            env=clean_environ(),
            capture_output=True,
            text=True,
        )
        assert refused.returncode == 2
        assert "no complete backup" in refused.stderr
        assert "as written" in _run("restore", str(tmp_path / "whole"), "--check")
        _run("restore", str(tmp_path / "whole"), "--data-dir", str(copy))

        good_before = set(traffic.sinks["good"].taken)
        traffic.behave("down", Behaviour())
        with RunningServer(copy) as second:
            _expect(second, traffic, before, good_before)


def _expect(
    second: RunningServer, traffic: Traffic, before: set[str], good_before: set[str]
) -> None:
    """The restored server owes *before* to each sink; so far ``good`` has had *good_before*."""
    sinks = traffic.sinks
    wait_until(lambda: before <= sinks["down"].taken.keys(), SEEN_S_MAX, "all are delivered")
    wait_until(second.settled, SEEN_S_MAX, "all has come to its end")
    assert before <= good_before | sinks["good"].taken.keys()
    letters = _dead_letters(second)
    assert before <= set(letters), "refused for good, each is a dead letter"
    assert len(letters) == len(set(letters))

    # Every subscription that it has is in force, those of the moment of the backup too.
    listed: list[dict[str, Any]] = second.request("GET", "/subscriptions").json()
    paths = {one["sink"].rpartition("/changed/")[2] for one in listed} - {""}
    paths = {path for path in paths if path.isdecimal()}
    assert paths
    seen = len(sinks["changed"].requests)
    headers = {"ce-specversion": "1.0", "ce-id": "last", "ce-source": "/load", "ce-type": "last"}
    assert second.request("POST", "/events", b"", headers).status == 202

    def reached() -> set[str]:
        arrived = sinks["changed"].requests[seen:]
        return {
            request.path.rpartition("/")[2]
            for request in arrived
            if (b"ce-id", b"last") in request.headers
        }

    wait_until(lambda: paths <= reached(), SEEN_S_MAX, "each subscription gets the last event")
    wait_until(second.settled, SEEN_S_MAX, "all has come to its end")
    assert reached() == paths, "and nothing that was deleted does"
    assert second.stop() == 0
