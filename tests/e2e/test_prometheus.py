"""The queries of the alert rules and of the board, against the numbers of a server that runs."""

import contextlib
import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.ports import free_port
from kit.promql import RULES, program, queries
from kit.running_server import RunningServer, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ARRIVE_S_MAX = 60.0


@pytest.fixture(scope="module")
def busy_server(plain_server: RunningServer) -> RunningServer:
    """A server that has received, delivered and failed."""
    name = plain_server.subscribe(
        "http://127.0.0.1:1/nobody",
        types=["t.prometheus"],
        protocolsettings={"delivery": {"retry": 0}},
    )
    fields = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/e2e", "ce-type": "t.prometheus"}
    assert plain_server.request("POST", "/events", b"x", fields).status == 202
    wait_until(
        lambda: plain_server.metric("dead_lettered_total") > 0, ARRIVE_S_MAX, "a dead letter"
    )
    wait_until(
        lambda: any(name in key for key in plain_server.metrics()),
        ARRIVE_S_MAX,
        "metrics of the subscription",
    )
    return plain_server


def test_metrics_of_a_run_have_the_labels_that_queries_name(busy_server: RunningServer) -> None:
    """Most of the metrics are there after a few events; those have what is matched and grouped."""
    labels: dict[str, set[str]] = {}
    for sample in busy_server.metrics():
        name, _, rest = sample.partition("{")
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        labels.setdefault(base, set()).update(re.findall(r"(\w+)=\"", rest))
    seen = set()
    for query in queries():
        selected = query.selected()
        for name, matched in selected.items():
            if name in labels:
                seen.add(name)
                assert matched <= labels[name], query
        if set(selected) <= set(labels):
            assert query.grouped() <= set().union(*(labels[name] for name in selected)), query
    assert len(seen) >= 20, sorted(seen)


class Prometheus:
    """A Prometheus that scrapes one server."""

    def __init__(self, path: str, folder: Path, server: RunningServer) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        job = {
            "job_name": "distributary",
            "static_configs": [{"targets": [server.url.removeprefix("http://")]}],
        }
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [job],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        with (folder / "log").open("wb") as output:
            self.process = subprocess.Popen(
                [
                    path,
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def knows(self) -> bool:
        """Whether it has scraped the server."""
        with contextlib.suppress(OSError):
            return bool(self.ask("query", query="distributary_ready")["result"])
        return False


@pytest.fixture
def prometheus(busy_server: RunningServer, tmp_path: Path) -> Iterator[Prometheus]:
    """One that has scraped the server."""
    path = program("prometheus")
    if path is None:
        pytest.skip("NOT RUN: there is no prometheus")
    running = Prometheus(path, tmp_path, busy_server)
    try:
        wait_until(running.knows, ARRIVE_S_MAX, "it has scraped the server")
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def test_prometheus_answers_every_query(prometheus: Prometheus) -> None:
    """Each is accepted, and each panel of what is there always has a number."""
    empty = []
    for query in queries():
        result = prometheus.ask("query", query=query.text)["result"]
        if not result:
            empty.append(query.place)
    assert {"Ready", "Log takes events", "Backlog", "Backlog, records"}.isdisjoint(empty), empty


def test_prometheus_evaluates_every_rule(prometheus: Prometheus) -> None:
    """None fails, and of a server that is well no critical one fires."""

    def evaluated() -> bool:
        groups = prometheus.ask("rules")["groups"]
        return all(rule["health"] != "unknown" for group in groups for rule in group["rules"])

    wait_until(evaluated, ARRIVE_S_MAX, "every rule is evaluated")
    (group,) = prometheus.ask("rules")["groups"]
    assert {rule["health"] for rule in group["rules"]} == {"ok"}
    assert len(group["rules"]) >= 20
    firing = [one for one in prometheus.ask("alerts")["alerts"] if one["state"] == "firing"]
    assert all(one["labels"]["severity"] != "critical" for one in firing), firing
