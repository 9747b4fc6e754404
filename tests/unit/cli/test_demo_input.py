import itertools
from pathlib import Path

from distributary.cli import _demo_input
from distributary.core.event import validate
from distributary.core.filter import check, naive_matches

LOG = """2024-05-01 10:00:00 startup archives unpack
2024-05-01 10:00:01 install libfoo:amd64 <none> 1.0-1
2024-05-01 10:00:02 status installed libfoo:amd64 1.0-1
rubbish
2024-05-01 10:00:03 status installed zsh:amd64 5.9
"""


def test_the_package_log_gives_an_event_for_each_line_it_understands(tmp_path: Path) -> None:
    """Action in the type, package as subject; other lines are passed over."""
    (tmp_path / "log").write_text(LOG)
    events = list(_demo_input.package_events(tmp_path / "log"))
    assert [(e.attributes["type"], e.attributes["subject"]) for e in events] == [
        (_demo_input.TYPE + "package.startup", "archives"),
        (_demo_input.TYPE + "package.install", "libfoo"),
        (_demo_input.TYPE + "package.installed", "libfoo"),
        (_demo_input.TYPE + "package.installed", "zsh"),
    ]
    assert events[2].attributes["time"] == "2024-05-01T10:00:02Z"


def test_a_log_that_is_not_there_gives_nothing(tmp_path: Path) -> None:
    """Then the next source is asked."""
    assert list(_demo_input.package_events(tmp_path / "log")) == []


def test_events_of_every_source_are_valid() -> None:
    """The server would refuse others."""
    for event in itertools.islice(_demo_input.library_events(), 20):
        assert validate(event.attributes) == []


def test_without_git_and_packages_the_standard_library_is_shown(tmp_path: Path) -> None:
    """There is always something real to see, and the filters have something to do."""
    chosen = _demo_input.find_input(tmp_path, tmp_path / "log")
    assert "standard library" in chosen.title
    assert len(chosen.events) == _demo_input.EVENTS_MAX
    assert check([chosen.some, chosen.few]) == []
    few = sum(naive_matches([chosen.few], event.attributes) for event in chosen.events)
    assert 0 < few < len(chosen.events)


def test_a_log_with_enough_lines_is_preferred(tmp_path: Path) -> None:
    """Each of its filters passes some events and keeps others out."""
    (tmp_path / "log").write_text(LOG * 20)
    chosen = _demo_input.find_input(tmp_path, tmp_path / "log")
    assert "package log" in chosen.title
    for expression in (chosen.some, chosen.few):
        passed = sum(naive_matches([expression], event.attributes) for event in chosen.events)
        assert 0 < passed < len(chosen.events)
