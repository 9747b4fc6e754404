"""``distributary archive``: what it says of a job that is over."""

from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from distributary.cli._commands import app
from distributary.server import processes


def said(monkeypatch: pytest.MonkeyPatch, *words: str, **done: Any) -> list[str]:
    """The lines of the command, where the job has *done* that."""
    nothing = {
        "events": 0,
        "ranges": 0,
        "bytes": 0,
        "days_deleted": [],
        "lost": [],
        "positions": {},
    }
    report = SimpleNamespace(**(nothing | done))
    monkeypatch.setattr(processes, "archive_log", lambda *_given, **_named: report)
    ended = CliRunner().invoke(app, ["archive", "--to", "/a", *words])
    assert ended.exit_code == 0, ended.output
    return ended.stdout.splitlines()


def test_a_small_archive_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes, where it is less than a MiB; one of something is not some."""
    done = {"events": 1, "ranges": 1, "bytes": 1_200, "positions": {0: 7}}
    line = "/a: 1 event of 1 segment, 1,200 bytes; checked. Archived to 0:7"
    assert said(monkeypatch, **done) == [line]
    assert "2.0 MiB" in said(monkeypatch, bytes=2 << 20)[0]


def test_where_no_day_is_old_enough_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked for a deletion hears what came of it."""
    words = ("--delete-before", "2025-02-01")
    assert said(monkeypatch, *words)[0] == "/a: no day before 2025-02-01 is there to be deleted"
    deleted = said(monkeypatch, *words, days_deleted=["2025-01-30", "2025-01-31"])
    assert deleted[0] == "/a: deleted 2 days, 2025-01-30 to 2025-01-31"
