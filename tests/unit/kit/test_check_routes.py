"""The program around the checker of the routes: files in, a verdict and an exit code out."""

import json
from pathlib import Path

import pytest

from distributary.cli.ledger import Arrival, LedgerWriter
from distributary.core.event import Event, record
from distributary.core.flow import RecordKind, RouteRecord, encode_route
from distributary.core.log import Appender, open_folder
from distributary.datadir import DataDir
from kit import check_routes
from kit.route_checker import BackfillDrop, Drop, mark


class Clock:
    """A wall clock that stands."""

    def monotonic_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 1_700_000_000_000


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A folder: a log with a route and two events that match; the sink got the first one."""
    log = DataDir(tmp_path / "data").log
    log.parent.mkdir()
    open_folder(log, 1)
    appender = Appender.open(log, 0, clock=Clock())
    route = RouteRecord(seq=1, op="put", uid="u", revision=1, filters=(mark("/u"),))
    appender.append([(RecordKind.ROUTE, encode_route(route))])
    for id_ in ("1", "2"):
        attributes: dict[str, str | int | bool] = {
            "specversion": "1.0",
            "id": id_,
            "source": "/s",
            "type": "t",
        }
        appender.append([(RecordKind.EVENTS, record.encode([Event(attributes, None)]))])
    gone = RouteRecord(seq=2, op="delete", uid="u", revision=1)
    appender.append([(RecordKind.ROUTE, encode_route(gone))])
    appender.close()
    with LedgerWriter(tmp_path / "sink.jsonl") as ledger:
        ledger.write(Arrival(id="1", source="/s", t=1, status=200, route="/u"))
    (tmp_path / "data.log").write_text("not json\n")
    return tmp_path


def _run(folder: Path, *more: str) -> int:
    words = ["--data-dir", folder / "data", "--arrivals", folder / "sink.jsonl"]
    return check_routes.main([*map(str, words), "--server-log", str(folder / "data.log"), *more])


def test_what_is_missing_ends_with_one(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second event reached nobody: its position and route are named."""
    assert _run(stopped) == 1
    shown = capsys.readouterr().out
    assert "2 events, 2 changes, 2 verdicts, 2 matches, 1 delivered" in shown
    assert "missing: /u Position(partition=0, offset=2, index=0)" in shown


def test_a_drop_in_the_log_of_the_server_accounts_for_it(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines of other programs and other events are passed over."""
    fields = {"partition": 0, "route": "u", "offset": 2, "index": 0, "reason": "route-deleted"}
    with (stopped / "data.log").open("a") as log:
        log.write('WARN "dropped" by another program\n')
        log.write(json.dumps({"event": "route-lags", "partition": 0, "about": "dropped"}) + "\n")
        log.write(json.dumps({"event": "dropped", **fields}) + "\n")
    assert _run(stopped) == 0
    assert "each event met the routes before it" in capsys.readouterr().out


def test_the_json_report_is_for_programs(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same counts and findings."""
    assert _run(stopped, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] is False
    assert report["counts"] == {"missing": 1}
    assert report["examples"][0][0] == "missing"


def test_dropped_backfills_are_read_with_their_range(stopped: Path) -> None:
    """A line with ``from`` and ``to`` is about a backfill."""
    with (stopped / "data.log").open("w") as log:
        for fields in (
            {"route": "u", "from": 3, "to": 9},
            {"route": "u", "offset": 1, "index": 0},
        ):
            log.write(json.dumps({"event": "dropped", "partition": 1, **fields}) + "\n")
    found = list(check_routes.read_drops(stopped / "data.log"))
    assert found == [BackfillDrop(1, "u", 3, 9), Drop(1, 1, 0, "u")]


@pytest.mark.parametrize("damage", ["ledger", "log", "folder"])
def test_evidence_that_cannot_be_read_ends_with_two(
    stopped: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It proves nothing: neither good nor bad."""
    if damage == "ledger":
        (stopped / "sink.jsonl").write_text("{}\n")
    elif damage == "log":
        segment = next((stopped / "data" / "log").glob("p*/*.log"), None)
        segment = segment or max((stopped / "data" / "log").glob("p*/*"), key=_size)
        content = bytearray(segment.read_bytes())
        content[content.index(b"specversion" if b"specversion" in content else b'"u"')] ^= 0xFF
        segment.write_bytes(content)
    else:
        (stopped / "data").rename(stopped / "elsewhere")
    assert _run(stopped) == 2
    assert "cannot be read" in capsys.readouterr().err


def _size(path: Path) -> int:
    return path.stat().st_size
