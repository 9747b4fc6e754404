import json
from pathlib import Path
from typing import Any

import pytest

from distributary.cli.ledger import Arrival, LedgerWriter, Sent, attributes_sha256
from distributary.testing import check_ledgers


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    """Three events: two of type a, one of type b; route ``a`` got its two, one after a 503."""
    with LedgerWriter(tmp_path / "sent.jsonl") as file:
        for number, kind in enumerate("aab"):
            attributes = {"id": str(number), "source": "/s", "type": kind}
            file.write(Sent(id=str(number), source="/s", state="acked", t=1, attributes=attributes))
    with LedgerWriter(tmp_path / "a.jsonl") as file:
        for number, status in ((0, 200), (1, 503), (1, 200)):
            file.write(_arrival(number, "a", status=status, route="/a"))
    (tmp_path / "routes.json").write_text(json.dumps({"a": {"types": ["a"]}}))
    return tmp_path


def _arrival(number: int, kind: str, **facts: Any) -> Arrival:
    digest = attributes_sha256({"id": str(number), "source": "/s", "type": kind})
    return Arrival(id=str(number), source="/s", t=2, attributes_sha256=digest, **facts)


def _run(folder: Path, *more: str) -> int:
    words = ["--routes", folder / "routes.json", "--sent", folder / "sent.jsonl"]
    return check_ledgers.main([*map(str, words), *more])


def test_a_good_run_ends_with_zero(ledgers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has the route's counts, and the verdict is said in words."""
    assert _run(ledgers, "--delivered", f"a={ledgers / 'a.jsonl'}") == 0
    shown = capsys.readouterr().out
    assert "3 acked" in shown
    assert "every promise held" in shown


def test_a_broken_promise_ends_with_one(ledgers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the sink's ledger both events are lost, and each is named."""
    assert _run(ledgers) == 1
    shown = capsys.readouterr().out
    assert "lost: a: '/s' '0'" in shown
    assert "broken promises: 2 lost" in shown


def test_the_json_report_holds_findings_and_counts(
    ledgers: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Programs read the same report."""
    assert _run(ledgers, "--json") == 1
    report = json.loads(capsysbinary.readouterr().out)
    assert report["passed"] is False
    assert report["findings"] == {"lost": 2}
    assert report["routes"]["a"]["expected"] == 2
    assert report["examples"][0]["id"] == "0"


def test_filters_and_source_decide_what_a_route_must_get(ledgers: Path) -> None:
    """A suffix filter that one event passes: only that one is owed."""
    route = {"a": {"source": "/s", "filters": [{"suffix": {"id": "2"}}]}}
    (ledgers / "routes.json").write_text(json.dumps(route))
    with LedgerWriter(ledgers / "one.jsonl") as file:
        file.write(_arrival(2, "b", status=204))
    assert _run(ledgers, "--delivered", f"a={ledgers / 'one.jsonl'}") == 0
    assert _run(ledgers, "--delivered", f"a={ledgers / 'a.jsonl'}") == 1


def test_a_route_may_name_its_events(ledgers: Path) -> None:
    """``expect`` replaces filters; an arrival beyond it is misrouted."""
    (ledgers / "routes.json").write_text(json.dumps({"a": {"expect": [["/s", "0"]]}}))
    assert _run(ledgers, "--delivered", f"a={ledgers / 'a.jsonl'}") == 1
    (ledgers / "routes.json").write_text(json.dumps({"a": {"expect": [["/s", "0"], ["/s", "1"]]}}))
    assert _run(ledgers, "--delivered", f"a={ledgers / 'a.jsonl'}") == 0


def test_one_ledger_serves_several_routes_by_path(ledgers: Path) -> None:
    """Lines of other paths belong to other routes."""
    with LedgerWriter(ledgers / "a.jsonl") as file:
        file.write(_arrival(2, "b", status=200, route="/b"))
    assert _run(ledgers, "--delivered", f"a={ledgers / 'a.jsonl'}") == 1
    (ledgers / "routes.json").write_text(json.dumps({"a": {"types": ["a"], "path": "/a"}}))
    assert _run(ledgers, "--delivered", f"a={ledgers / 'a.jsonl'}") == 0


def test_dead_letters_count_for_the_route_whose_sink_they_name(ledgers: Path) -> None:
    """A shared dead letter sink keeps the routes apart by ``knativeerrordest``."""
    with LedgerWriter(ledgers / "dead.jsonl") as file:
        file.write(*(_arrival(n, "a", status=200, error_dest="http://a/") for n in (0, 1)))
    for sink, code in (("http://a/", 0), ("http://b/", 1)):
        (ledgers / "routes.json").write_text(json.dumps({"a": {"types": ["a"], "sink": sink}}))
        assert _run(ledgers, "--dead", f"a={ledgers / 'dead.jsonl'}") == code


@pytest.mark.parametrize("member", ["pending", "dead_letters", "dropped"])
def test_the_state_dump_accounts_for_events(ledgers: Path, member: str) -> None:
    """What the server still holds, or gave up with a reason, is not lost."""
    kept = [{"route": "a", "source": "/s", "id": str(n), "attempt": 3} for n in (0, 1)]
    (ledgers / "state.json").write_text(json.dumps({member: kept}))
    assert _run(ledgers, "--state", str(ledgers / "state.json")) == 0
    (ledgers / "state.json").write_text(json.dumps({member: kept[:1]}))
    assert _run(ledgers, "--state", str(ledgers / "state.json")) == 1


def test_duplicates_are_allowed_up_to_the_bound(ledgers: Path) -> None:
    """The bound is an option; zero unless said."""
    delivered = f"a={ledgers / 'a.jsonl'}"
    assert _run(ledgers, "--delivered", delivered, "--delivered", delivered) == 1
    twice = ("--delivered", delivered, "--delivered", delivered, "--duplicates", "2")
    assert _run(ledgers, *twice) == 0


def test_the_unfinished_last_line_of_a_killed_writer_is_passed_over(ledgers: Path) -> None:
    """A line without its end is no evidence."""
    with (ledgers / "a.jsonl").open("ab") as file:
        file.write(b'{"id":"7","source":"/s"')
    assert _run(ledgers, "--delivered", f"a={ledgers / 'a.jsonl'}") == 0


@pytest.mark.parametrize(
    "damage",
    ["ledger", "missing", "routes", "unknown-route", "no-separator"],
)
def test_evidence_that_cannot_be_read_ends_with_two(
    ledgers: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damaged evidence proves nothing: neither passed nor failed."""
    delivered = f"a={ledgers / 'a.jsonl'}"
    if damage == "ledger":
        (ledgers / "a.jsonl").write_text("{}\n")
    elif damage == "missing":
        (ledgers / "sent.jsonl").unlink()
    elif damage == "routes":
        (ledgers / "routes.json").write_text('{"a": {"filtres": []}}')
    elif damage == "unknown-route":
        delivered = f"b={ledgers / 'a.jsonl'}"
    else:
        delivered = "a"
    assert _run(ledgers, "--delivered", delivered) == 2
    assert "cannot be read" in capsys.readouterr().err
