"""``distributary history``: what it prints, and which questions it refuses."""

import json
import sys
import time

import pytest

from distributary.cli import _commands, _history
from kit.history_files import DELIVERED, RETRIED, row, write_rows

NOW_S = 1_795_000_000.0


@pytest.fixture
def history(monkeypatch, capsys):
    """Run the command: exit code, rows, standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["distributary", "history", *words])
        with pytest.raises(SystemExit) as caught:
            _commands.main()
        shown = capsys.readouterr()
        rows = [json.loads(line) for line in shown.out.splitlines()]
        return int(caught.value.code or 0), rows, shown.err

    return run


def test_each_row_is_a_line_of_json(history, tmp_path):
    """What is null is left out, and times are in RFC 3339."""
    write_rows(tmp_path / "history", row(0, NOW_S + 0.25, **RETRIED), row(1, NOW_S + 1))
    code, rows, _ = history("--data-dir", str(tmp_path))
    assert code == 0
    assert rows[0] == {
        "number": 0,
        "time": "2026-11-18T11:06:40.250000Z",
        "partition": 0,
        "offset": 0,
        "index": 0,
        "event_id": "id-0",
        "event_source": "/shop",
        "event_type": "com.example.order",
        "namespace": "default",
        "subscription": "orders",
        "uid": "uid-of-orders",
        "revision": 1,
        "stage": "event",
        "attempt": 1,
        "duration": 0.01,
        "status": 503,
        "decision": "retry",
    }
    assert "status" not in rows[1]


def test_questions_narrow_it_down(history, tmp_path):
    """By subscription, event, time and failure; the folder may be named itself."""
    now_s = time.time()
    write_rows(tmp_path, row(0, now_s - 900, **RETRIED))  # perhaps of the day before
    write_rows(
        tmp_path,
        row(1, now_s - 60, **RETRIED),
        row(2, now_s - 60, **DELIVERED),
        row(3, now_s - 60, "bills", **RETRIED),
    )
    folder = "--folder", str(tmp_path)
    asked = ["--subscription", "orders", "--failures", "--since", "10m"]
    assert [found["number"] for found in history(*folder, *asked)[1]] == [1]
    assert [found["number"] for found in history(*folder, "--event", "id-2")[1]] == [2]
    assert len(history(*folder, "--since", "2026-01-31T12:00:00Z")[1]) == 4
    assert len(history(*folder, "--since", "PT5M")[1]) == 3


def test_following_goes_on_with_new_rows_until_interrupted(history, tmp_path, monkeypatch):
    """Ctrl-C is no failure."""
    write_rows(tmp_path, row(0, NOW_S))
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt
        write_rows(tmp_path, row(1, NOW_S + 5))

    monkeypatch.setattr(_history.time, "sleep", sleep)
    code, rows, _ = history("--folder", str(tmp_path), "--follow")
    assert code == 0
    assert [found["number"] for found in rows] == [0, 1]


def test_without_a_history_it_says_where_it_looked(history, tmp_path):
    """The folder may be another one."""
    code, rows, errors = history("--data-dir", str(tmp_path))
    assert (code, rows) == (2, [])
    assert "There is no history in" in errors
    assert "--folder" in errors


def test_a_time_that_is_none_is_refused(history, tmp_path):
    """With what would be one."""
    (tmp_path / "history").mkdir()
    code, _, errors = history("--data-dir", str(tmp_path), "--since", "yesterday")
    assert code == 2
    assert "--since" in errors
    assert "30m" in errors


def test_rows_of_one_namespace(history, tmp_path):
    """An id that another one has too tells nothing of that one."""
    rows = [row(number, NOW_S + number, namespace=name) for number, name in enumerate("aba")]
    write_rows(tmp_path / "history", *rows)
    code, found, _ = history("--data-dir", str(tmp_path), "--namespace", "a")
    assert code == 0
    assert [one["number"] for one in found] == [0, 2]
    assert {one["namespace"] for one in found} == {"a"}


def test_where_nothing_fits_it_says_so(history, tmp_path):
    """Beside the output, which stays empty for programs."""
    write_rows(tmp_path, row(0, NOW_S))
    code, rows, errors = history("--folder", str(tmp_path), "--event", "id-9")
    assert (code, rows) == (0, [])
    assert errors.startswith("no rows: nothing fits")
    assert history("--folder", str(tmp_path), "--event", "id-0")[2] == ""
