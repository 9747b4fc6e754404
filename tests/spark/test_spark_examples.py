"""The tutorial of Spark and the programs of examples/spark run, each to its end."""

import json
import re
import runpy
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kit.answering_sinks import AnsweringSinks
from kit.running_server import RunningServer, wait_until

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "spark"
WAIT_S_MAX = 90.0
"""Longest wait for deliveries: the pipeline starts meanwhile."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that takes an event once, as the tutorial starts it."""
    folder = tmp_path_factory.mktemp("examples")
    with RunningServer(folder / "data", flags=["--once-window-s", "1h"]) as running:
        yield running


@pytest.fixture(scope="module")
def sinks() -> Iterator[AnsweringSinks]:
    """Takes what is delivered."""
    with AnsweringSinks() as made:
        yield made


@pytest.fixture
def run_example(spark: SparkSession, server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a program of examples/spark as a user does, in the session of these tests."""
    assert spark is not None  # a program takes the session that is open
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def run(name: str, *words: str) -> None:
        common = ["--data-dir", str(server.data_dir), "--url", server.url]
        monkeypatch.setattr("sys.argv", [name, *common, *words])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    return run


def _send(server: RunningServer, kind: str, name: str, data: dict[str, Any], **more: str) -> None:
    fields = {"ce-specversion": "1.0", "ce-id": name, "ce-source": "/given", "ce-type": kind}
    fields |= {"content-type": "application/json"} | {f"ce-{key}": more[key] for key in more}
    assert server.request("POST", "/events", json.dumps(data).encode(), fields).status == 202


def _published(spark: SparkSession, server: RunningServer, kind: str) -> DataFrame:
    log = spark.read.format("distributary").load(str(server.data_dir))
    return log.where(log.type == kind)


def test_the_tutorial_runs(
    spark: SparkSession, server: RunningServer, sinks: AnsweringSinks, tmp_path: Path
) -> None:
    """Readings in, one alert back, which the subscriber gets once although a block runs twice."""
    page = (ROOT / "docs/tutorial/events-and-spark.md").read_text("utf-8")
    blocks = re.findall(r"^```python run-spark\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 8
    place = 'url, data_dir, checkpoint = "http://127.0.0.1:8080", "distributary-data", mkdtemp()'
    blocks[0] = blocks[0].replace(place, "")
    sink = sinks.sink("/alerts")
    server.subscribe(sink.url, filters=[{"exact": {"type": "com.example.alert"}}])
    names: dict[str, Any] = {
        "url": server.url,
        "data_dir": str(server.data_dir),
        "checkpoint": str(tmp_path),
    }
    run = [compile(block, f"block {at}", "exec") for at, block in enumerate(blocks)]
    for number in (0, 1, 2, 2, 3, 4, 5, 5, 6):  # events in, and the alert back, twice
        exec(run[number], names)
    assert _published(spark, server, "com.example.reading").count() == 1000
    alerts = [row.id for row in _published(spark, server, "com.example.alert").collect()]
    hot = sorted(f"hot r-{number}" for number in range(1000) if number % 30 == 27)
    assert sorted(alerts) == [*hot, "warm sensor-7"]
    sink.wait(len(alerts))

    def shown() -> bool:
        exec(run[7], names)
        return [(row.subject, row.alerts) for row in names["delivered"].collect()] == [
            ("sensor-7", len(alerts))
        ]

    wait_until(shown, WAIT_S_MAX, "the history has the deliveries")
    assert sorted(sink.ids) == sorted(alerts)


def test_orders_are_enriched(
    spark: SparkSession, server: RunningServer, run_example: Any, tmp_path: Path
) -> None:
    """Each order once, also when the job is run from its beginning again; unknown ones too."""
    for number, customer in (("o-1", "c-1"), ("o-2", "c-9")):
        data = {"number": number, "customer": customer, "total": 2.5}
        _send(server, "com.example.order", number, data)
    for turn in ("first", "first", "again"):
        words = ["--checkpoint", str(tmp_path / turn), "--once"]
        run_example("enrich.py", *words, "--customers", str(EXAMPLES / "customers.csv"))
    rows = _published(spark, server, "com.example.order.enriched").orderBy("id").collect()
    assert [(row.id, row.subject) for row in rows] == [("/given o-1", "o-1"), ("/given o-2", "o-2")]
    first, second = (json.loads(row.data) for row in rows)
    expected = {"number": "o-1", "total": 2.5, "customer": "c-1", "name": "Ada", "tier": "gold"}
    assert first == expected
    assert (second["customer"], second["name"]) == ("c-9", None)


def test_a_card_in_three_countries_is_an_alert(
    spark: SparkSession, server: RunningServer, run_example: Any, tmp_path: Path
) -> None:
    """The state outlives the job: the third country comes in its second run."""
    begun = datetime(2026, 1, 5, 9, tzinfo=UTC)

    def pay(name: str, card: str, country: str, minutes: float) -> None:
        data = {"card": card, "amount": 20, "country": country}
        time = (begun + timedelta(minutes=minutes)).isoformat()
        _send(server, "com.example.payment", name, data, time=time)

    words = ("--checkpoint", str(tmp_path / "fraud"), "--once")
    pay("a1", "card-a", "NL", 0)
    pay("a2", "card-a", "BR", 1)
    pay("b1", "card-b", "NL", 0)
    pay("b2", "card-b", "BR", 1)
    run_example("fraud.py", *words)
    alerts = _published(spark, server, "com.example.alert").where("source = '/fraud'")
    assert alerts.count() == 0
    pay("a3", "card-a", "NL", 2)
    pay("a4", "card-a", "JP", 3)
    pay("b3", "card-b", "JP", 20)  # too late
    run_example("fraud.py", *words)
    (alert,) = alerts.collect()
    assert (alert.id, alert.subject) == ("card-a a4", "card-a")
    told = {"card": "card-a", "countries": ["BR", "JP", "NL"], "payment": "a4"}
    assert json.loads(alert.data) == told


def test_an_hour_is_reported_once(
    spark: SparkSession, server: RunningServer, sinks: AnsweringSinks, run_example: Any
) -> None:
    """The report counts events and outcomes of its hour, and is one event however often it runs."""
    sink = sinks.sink("/counted")
    server.subscribe(sink.url, filters=[{"exact": {"type": "com.example.counted"}}])
    for number in range(5):
        _send(server, "com.example.counted", str(number), {})
    log = _published(spark, server, "com.example.counted")
    sink.wait(5)
    (first,) = log.selectExpr("date_trunc('hour', min(logged_at)) AS hour").collect()
    hour = first.hour.replace(tzinfo=UTC)
    wait_until(lambda: _delivered(spark, server) >= 5, WAIT_S_MAX, "the history has them")
    for _ in range(2):
        run_example("hourly_report.py", "--hour", hour.isoformat())
    (event,) = _published(spark, server, "com.example.report").collect()
    assert event.id == hour.isoformat()
    (line,) = (
        line for line in json.loads(event.data)["types"] if line["type"] == "com.example.counted"
    )
    counted = log.where(log.logged_at < first.hour + timedelta(hours=1)).count()
    assert (line["events"], line["delivered"]) == (counted, counted)


def _delivered(spark: SparkSession, server: RunningServer) -> int:
    outcomes = (
        spark.read.format("distributary").option("table", "outcomes").load(str(server.data_dir))
    )
    return outcomes.where("event_type = 'com.example.counted'").count()
