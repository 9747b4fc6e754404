"""Lists on terminals of any width."""

import pytest

from distributary.cli import _console

ROWS = [{"id": f"0-{number}", "why": "attempts-used-up: " + "no room " * 12} for number in (1, 2)]
COLUMNS = {"id": lambda row: row["id"], "why": lambda row: row["why"], "by": lambda _row: ""}


def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int) -> str:
    """The list, as so many columns show it."""
    monkeypatch.setenv("COLUMNS", str(width))
    _console.show_rows(ROWS, COLUMNS, as_json=False, none="none")
    return capsys.readouterr().out


def test_a_table_that_fits_or_is_folded_a_little_stays_one(monkeypatch, capsys) -> None:
    """A head, and a line or two for each row."""
    for width in (200, 80):
        assert shown(monkeypatch, capsys, width).split()[:3] == ["id", "why", "by"]


def test_a_table_that_is_much_too_wide_becomes_names_and_values(monkeypatch, capsys) -> None:
    """What is empty is left out; nothing is cut."""
    out = shown(monkeypatch, capsys, 30)
    assert out.startswith("id   0-1\nwhy  attempts-used-up: no room")
    assert "\n\nid   0-2\nwhy  " in out
    assert out.count("no room") == 24
    assert "by" not in out.replace("\n", " ").split()
