"""``distributary filter``: try a filter on events from files, without a server.

Callers: ``_command_filter``. Hides: which event is shown, and what the exit code says.
"""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Literal, cast

from distributary.cli import _console, _filter_entries, _filter_screen, _filter_wish
from distributary.cli._filter_wish import Selection, Wish
from distributary.cli._outgoing import Unreadable
from distributary.core.event import Event

__all__ = ["Expect", "Show", "Trial", "run"]

Show = Literal["all", "pass", "fail", "none"]
Expect = Literal["all", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What to try, on what, and what to say.

    Attributes:
        wish: The filter.
        files: Paths of files of events; ``-`` is standard input; none: check the filter alone.
        show: Which events are shown.
        as_json: JSON lines in place of trees.
        expect: Which events must pass; None: nothing is expected.
    """

    wish: Wish
    files: tuple[str, ...]
    show: Show
    as_json: bool
    expect: Expect | None


def run(trial: Trial) -> int:
    """Try it; the exit code.

    0: done. 1: the expectation is not met, or an entry is no event. 2: the filter cannot be used.
    """
    selection, misfits = _filter_wish.read(trial.wish)
    if misfits:
        _filter_screen.show_misfits(misfits, as_json=trial.as_json)
        return _console.UNUSABLE
    if not trial.files:
        console = _console.errors()
        console.print("[green]the filter is valid[/]; name files of events to try it on them")
        return _console.OK
    summary = _filter_screen.Summary()
    with contextlib.ExitStack() as stack:
        files = [_open(name, stack) for name in trial.files]
        for place, entry in _entries(files):
            _try_on(entry, place, selection, trial, summary)
    _filter_screen.show_summary(summary, as_json=trial.as_json)
    unmet = _unmet(trial.expect, summary)
    if unmet:
        _console.errors().print(f"[bold red]expected {trial.expect} to pass:[/] {unmet}")
    return _console.FAILED if unmet or summary.unreadable else _console.OK


def _unmet(expect: Expect | None, summary: _filter_screen.Summary) -> str:
    """Why the expectation is not met; empty where it is, or where there is none."""
    if expect is None:
        return ""
    if not summary.passed + summary.failed:
        return "there was no event to try it on"  # or a check on a wrong file would succeed
    if expect == "all":
        return f"{summary.failed:,} events do not pass" if summary.failed else ""
    return f"{summary.passed:,} events pass" if summary.passed else ""


def _try_on(
    entry: Event | Unreadable,
    place: int,
    selection: Selection,
    trial: Trial,
    summary: _filter_screen.Summary,
) -> None:
    if isinstance(entry, Unreadable):
        summary.unreadable += 1
        _filter_screen.show_unreadable(entry, place, as_json=trial.as_json)
        return
    explanation = selection.explain(entry.attributes)
    summary.add(explanation)
    if trial.show in {"all", "pass" if explanation.verdict else "fail"}:
        _filter_screen.show_event(place, entry, explanation, as_json=trial.as_json)


def _entries(files: Iterable[BufferedReader]) -> Iterator[tuple[int, Event | Unreadable]]:
    for file in files:
        yield from _filter_entries.entries(file)


def _open(name: str, stack: contextlib.ExitStack) -> BufferedReader:
    if name == "-":
        return cast("BufferedReader", sys.stdin.buffer)
    try:
        return stack.enter_context(Path(name).open("rb"))
    except OSError as error:
        hint = "Name a file of events, or - for standard input."
        _console.fail(f"{name}: {error.strerror}", hint)
