"""Every line of the log has a meaning, and the search for lines misses none."""

from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def lines(draw: ModuleType) -> ModuleType:
    """scripts/log_lines.py, as a module."""
    found: ModuleType = draw.log_lines
    return found


def test_every_line_has_a_meaning(lines: ModuleType) -> None:
    """Whoever reads a warning finds what it means; and no meaning outlives its line."""
    logged = {line.event for line in lines.search()[0]}
    means = lines.meanings()
    assert sorted(logged - means.keys()) == [], "say in docs/log-lines.toml what they mean"
    assert sorted(means.keys() - logged) == []
    assert [name for name, text in means.items() if not text.endswith(".")] == []


def test_names_that_are_put_together_are_listed(lines: ModuleType) -> None:
    """The search says where it cannot tell a name, and a list has what is logged there."""
    unnamed = {place.partition(":")[0] for place in lines.search()[1]}
    assert unnamed == lines.PASSED_ON | lines.MADE.keys()


def test_lines_are_found_however_they_are_logged(lines: ModuleType, tmp_path: Path) -> None:
    """By a logger, by a choice, by a port, by a function of the module; others are no lines."""
    (tmp_path / "a.py").write_text(
        """\
_LATE = "is-late"

def look(log, effects, say_of):
    log.warning(_LATE, why="x")
    log.exception("failed")
    log.info("gone" if say_of else "back-again")
    told = log.info if say_of else log.error
    told("chosen")
    effects.report("lost", {"count": 1})
    effects.warn("lost-more", {"count": 1} | say_of)
    say("json", "error", "cannot-start", "why")
    task.exception()
    warnings.warn("a text of Python's own", stacklevel=2)
    report("text", 3)
    log.error(f"{say_of}-failed")

class A:
    def _say(self, event, error):
        self.log.warning(event, error=error)

    def run(self):
        self._say("shared-late", 1)
"""
    )
    found, unnamed = lines.search(tmp_path)
    assert {(line.event, line.level) for line in found} == {
        ("is-late", "warning"),
        ("failed", "error"),
        ("gone", "info"),
        ("back-again", "info"),
        ("chosen", "info"),
        ("chosen", "error"),
        ("lost", "info"),
        ("lost-more", "warning"),
        ("cannot-start", "error"),
        ("shared-late", "warning"),
    }
    assert unnamed == ["a:15"]
