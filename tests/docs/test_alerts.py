"""Alert rules and dashboard name metrics that there are; each alert has its row in the guide."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from distributary.server.processes.supervision.metrics import METRICS
from kit.promql import BOARD, RULES, Query, program, queries, rules

ROOT = Path(__file__).parents[2]

SERIES = [
    pytest.param(("DistributaryNotReady", "distributary_ready", "0x30", "10m"), id="state"),
    pytest.param(
        (
            "DistributaryMatchesGivenUp",
            'distributary_given_up_total{reason="bytes"}',
            "_x20 1x20",
            "22m",
        ),
        id="the first one of a counter",
    ),
    pytest.param(
        (
            "DistributaryMatchesGivenUp",
            'distributary_given_up_total{reason="bytes"}',
            "4x20 5x20",
            "22m",
        ),
        id="one more",
    ),
    pytest.param(
        (
            "DistributarySubscriptionFailing",
            'distributary_subscription_failing{namespace="a",subscription="b"}',
            "1x30",
            "20m",
        ),
        id="for long",
    ),
    pytest.param(
        (
            "DistributaryBacklogGrows",
            'distributary_lag_records{partition="0"}',
            "20000+1000x60",
            "40m",
        ),
        id="it grows",
    ),
]


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.place)
def test_every_query_names_metrics_that_there_are(query: Query) -> None:
    """By name and label."""
    selected = query.selected()
    assert selected, "a query selects a metric"
    assert set(selected) <= set(METRICS)
    known: set[str] = set()
    for name, matched in selected.items():
        labels = set(METRICS[name].labels)
        known |= labels
        assert matched <= labels, f"{name} has no such label"
    assert query.grouped() <= known, f"of {sorted(selected)}"


def test_every_alert_has_its_row_in_the_guide() -> None:
    """And no row is about an alert that there is none of."""
    guide = (ROOT / "docs" / "how-to" / "alerts.md").read_text()
    rows = re.findall(r"^\| `(Distributary\w+)`", guide, re.MULTILINE)
    assert rows == [rule["alert"] for rule in rules()]


def test_every_alert_says_how_urgent_it_is() -> None:
    """With a summary for people."""
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]


def test_the_board_can_be_imported() -> None:
    """Panels have ids of their own, do not overlap, and ask the data source that one chooses."""
    board = json.loads(BOARD.read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"


@pytest.fixture
def promtool() -> str:
    """Prometheus' own checker."""
    found = program("promtool")
    if found is None:
        pytest.skip("NOT RUN: there is no promtool")
    return found


@pytest.mark.slow
def test_prometheus_accepts_the_rules(promtool: str) -> None:
    """Its checker finds no fault."""
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, check=False)
    assert done.returncode == 0, done


@pytest.mark.slow
def test_prometheus_accepts_the_example(promtool: str, tmp_path: Path) -> None:
    """The configuration that the guide shows, beside the rules."""
    guide = (ROOT / "docs" / "how-to" / "alerts.md").read_text()
    (example,) = re.findall(r"^```yaml prometheus\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "rules.yml").write_text(RULES.read_text())
    (tmp_path / "prometheus.yml").write_text(example.replace("/etc/prometheus", str(tmp_path)))
    (tmp_path / "distributary.key").write_text("dk_x")
    command = [promtool, "check", "config", tmp_path / "prometheus.yml"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done


@pytest.mark.slow
@pytest.mark.parametrize("case", SERIES)
def test_alerts_fire(promtool: str, tmp_path: Path, case: tuple[str, str, str, str]) -> None:
    """By Prometheus' own evaluation of made-up series; the same series at rest fire nothing."""
    alert, series, values, at = case
    still = re.sub(r"^_x20 1x20$|^4x20 5x20$", "4x40", values)
    still = "0x60" if still == values else still
    still = "1x60" if alert == "DistributaryNotReady" else still
    for given, count in ((values, 1), (still, 0)):
        written = {
            "rule_files": [str(RULES)],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [{"series": series, "values": given}],
                    "promql_expr_test": [
                        {
                            "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                            "eval_time": at,
                            "exp_samples": [{"labels": "{}", "value": 1}] * count,
                        }
                    ],
                }
            ],
        }
        path = tmp_path / "case.yml"
        path.write_text(yaml.safe_dump(written))
        done = subprocess.run(
            [promtool, "test", "rules", path], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
