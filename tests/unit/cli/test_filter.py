"""``distributary filter``: verdicts, reasons, summaries and exit codes."""

import io
import json
import sys
from pathlib import Path

import pytest

from distributary.cli import _commands

EVENTS = (
    {"id": "1", "source": "/s", "type": "com.a", "subject": "eu/1"},
    {"id": "2", "source": "/s", "type": "org.b"},
    {"id": "3", "source": "/t", "type": "com.c"},
)


@pytest.fixture
def events(tmp_path: Path) -> str:
    """A file of three events, as JSON lines."""
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(json.dumps({"specversion": "1.0", **event}) for event in EVENTS))
    return str(path)


@pytest.fixture
def filter_(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command: exit code, standard output, standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["distributary", "filter", *words])
        with pytest.raises(SystemExit) as caught:
            _commands.main()
        shown = capsys.readouterr()
        return int(caught.value.code or 0), shown.out, shown.err

    return run


def test_every_event_is_shown_with_the_part_that_decided(filter_, events: str) -> None:
    """A tree each, and a count at the end."""
    code, out, err = filter_(events, "--prefix", "type=com.", "--source", "/s")
    assert code == 0
    assert out.splitlines()[0] == "pass 1: 1 com.a /s"
    assert "fail 2: 2 org.b /s" in out
    assert 'false prefix $.filters[0].prefix.type: type is "org.b": it does not begin with' in out
    assert 'false source $.source: source is "/t": it is not "/s"' in out
    assert "1 of 3 events pass" in err
    assert "$.source" in err
    assert "\x1b" not in out + err


def test_machines_get_a_line_for_each_event(filter_, events: str) -> None:
    """With the verdict, and every innermost part that decided."""
    code, out, _ = filter_(events, "--json", "--filter", '{"any":[{"exact":{"type":"org.b"}}]}')
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["matches"] for line in lines] == [False, True, False]
    assert lines[1] == {
        "place": 2,
        "id": "2",
        "source": "/s",
        "type": "org.b",
        "matches": True,
        "decided_by": [
            {
                "dialect": "exact",
                "path": "$.filters[0].any[0].exact.type",
                "reason": 'type is "org.b"',
            }
        ],
    }


@pytest.mark.parametrize(
    ("show", "places"),
    [("all", [1, 2, 3]), ("pass", [1, 3]), ("fail", [2]), ("none", [])],
)
def test_what_is_shown_can_be_chosen(filter_, events: str, show: str, places: list[int]) -> None:
    """The summary counts all of them."""
    code, out, err = filter_(events, "--json", "--prefix", "type=com.", "--show", show)
    assert code == 0
    assert [json.loads(line)["place"] for line in out.splitlines()] == places
    assert "2 of 3 events pass" in err


@pytest.mark.parametrize(
    ("expect", "type_", "code"),
    [("all", "com.", 1), ("none", "com.", 1), ("none", "x", 0), ("all", "o", 1)],
)
def test_an_expectation_that_is_not_met_ends_with_one(
    filter_, events: str, expect: str, type_: str, code: int
) -> None:
    """So that a filter can be tested in a script."""
    found, _, err = filter_(events, "--prefix", f"type={type_}", "--expect", expect)
    assert found == code
    assert (f"expected {expect} to pass" in err) is bool(code)


def test_all_expected_events_pass(filter_, events: str) -> None:
    """No filter passes everything."""
    assert filter_(events, "--expect", "all")[0] == 0


def test_an_entry_that_is_no_event_is_named_and_ends_with_one(filter_, tmp_path: Path) -> None:
    """The others are tried; nothing is passed over in silence."""
    path = tmp_path / "events.json"
    good = {"specversion": "1.0", **EVENTS[0]}
    path.write_text(json.dumps([good, {"id": ""}, good]))
    code, out, err = filter_(str(path))
    assert code == 1
    assert out.count("pass") == 4
    assert "entry 2 is no event" in err
    assert "2 of 2 events pass; 1 entry is no event" in err
    code, out, _ = filter_(str(path), "--json")
    assert code == 1
    assert {"path": "$.id", "code": "empty", "message": "must not be empty"} in json.loads(
        out.splitlines()[1]
    )["faults"]


def test_a_filter_that_cannot_be_used_ends_with_two(filter_, events: str) -> None:
    """Every fault at once, where it was written; no event is looked at."""
    words = ("--filter", '{"exact": {"Type": ""}, "all": []}', "--suffix", "id=")
    code, out, err = filter_(events, *words)
    assert code == 2
    assert out == ""
    for part in ("--filter $.exact.Type", "--filter $.all", "--suffix $.suffix.id"):
        assert part in " ".join(err.replace("│", " ").split())
    code, out, err = filter_(events, *words, "--json")
    assert code == 2
    faults = json.loads(out)["faults"]
    assert {fault["given"] for fault in faults} == {"--filter", "--suffix"}


@pytest.mark.parametrize(
    ("expression", "line", "column"),
    [
        ("type = 'x' AND", "type = 'x' AND", 14),
        ("type = 'x'\nAND FOO(1) = 2", "AND FOO(1) = 2", 4),
        ("type = 'ää' = = 1", "type = 'ää' = = 1", 14),
    ],
    ids=["the end", "second line", "wide"],
)
def test_a_caret_stands_below_the_fault_of_an_expression(
    filter_, expression: str, line: str, column: int
) -> None:
    """In the line of the expression that it is in."""
    code, _, err = filter_("--sql", expression)
    assert code == 2
    lines = err.splitlines()
    at = lines.index("  " + line)
    assert lines[at + 1] == "  " + " " * column + "^"


def test_machines_get_the_offset_of_the_fault(filter_) -> None:
    """In characters from 0."""
    code, out, _ = filter_("--json", "--filter", '{"sql": "type = "}')
    (fault,) = json.loads(out)["faults"]
    assert code == 2
    assert (fault["path"], fault["offset"]) == ("$.sql", 7)


def test_an_expression_tells_its_operand_or_its_error(filter_, events: str) -> None:
    """A missing attribute is an error, and so no match (decision 5)."""
    code, out, _ = filter_(events, "--sql", "NOT (subject LIKE 'us/%') AND type = 'com.a'")
    assert code == 0
    verdicts = [line[:4] for line in out.splitlines() if line[:4] in {"pass", "fail"}]
    assert verdicts == ["pass", "fail", "fail"]
    assert "missingAttribute" in out


def test_a_filter_alone_is_only_checked(filter_) -> None:
    """Without a file of events there is nothing to try it on."""
    code, out, err = filter_("--sql", "EXISTS subject")
    assert (code, out) == (0, "")
    assert "the filter is valid" in err


def test_events_come_from_standard_input(
    filter_, events: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its usual name."""

    class Input:
        buffer = io.BufferedReader(io.BytesIO(Path(events).read_bytes()))  # type: ignore[arg-type]

    monkeypatch.setattr(sys, "stdin", Input)
    code, out, _ = filter_("-", "--json", "--exact", "id=3")
    assert code == 0
    assert [json.loads(line)["matches"] for line in out.splitlines()] == [False, False, True]


def test_a_file_that_is_not_there_ends_with_two(filter_) -> None:
    """And says what to name."""
    code, _, err = filter_("missing.jsonl")
    assert code == 2
    assert "Name a file of events" in err


def test_names_of_an_event_cannot_repaint_a_terminal(filter_, tmp_path: Path) -> None:
    """Control characters are replaced, and markup means nothing."""
    path = tmp_path / "e.json"
    event = {"specversion": "1.0", "id": "[red]x[/]", "source": "/s", "type": "a" * 5_000}
    path.write_text(json.dumps(event))
    _, out, _ = filter_(str(path), "--exact", "type=b")
    assert "[red]x[/]" in out
    assert max(map(len, out.splitlines())) < 500


def test_only_the_most_frequent_parts_are_listed(filter_, tmp_path: Path) -> None:
    """The others are counted."""
    path = tmp_path / "many.jsonl"
    names = [chr(ord("a") + n) for n in range(12)]
    # event n lacks the n-th of twelve attributes
    lines = [
        {"specversion": "1.0", "id": "1", "source": "/", "type": "t"}
        | {name: "1" for place, name in enumerate(names) if place != gone}
        for gone in range(12)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    words = [word for name in names for word in ("--exact", f"{name}=1")]
    _, _, err = filter_(str(path), *words, "--show", "none")
    assert "0 of 12 events pass" in err
    assert "… and 2 more" in err


@pytest.mark.parametrize("expect", ["all", "none"])
def test_an_expectation_of_no_events_is_not_met(filter_, tmp_path, expect: str) -> None:
    """An empty file is more likely the wrong one than a success."""
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    found, _, err = filter_(str(empty), "--prefix", "type=x", "--expect", expect)
    assert found == 1
    assert "no event" in err
