"""Real input for the demo: facts that this machine already has, as events.

Uses the first of these that has enough events: the git history of the working folder (an event
for each changed file of each commit), the package log (an event a line), the files of Python's
standard library (an event a file).

Callers: ``demo``. Hides: the sources of facts, and how they become events.
"""

import collections
import datetime as dt
import itertools
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from distributary.core.event import Event

EVENTS_MAX = 300
"""Enough to watch for some seconds; the whole demo stays far below two minutes."""

EVENTS_MIN = 40
"""Fewest events that show enough: a fresh clone may have one commit."""

TYPE = "dev.distributary.demo."
_CHANGES = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied"}
_PACKAGE_LINE = re.compile(r"(\S+) (\S+) (?:status )?([a-z-]+) ([a-z0-9][^\s:]*)\S* (.*)")


class DemoInput(NamedTuple):
    """Events to publish, and filters that fit them.

    Attributes:
        title: What the events are.
        events: At most ``EVENTS_MAX``.
        some: A filter that some of them pass, by subject.
        few: A filter expression of several dialects that fewer pass.
    """

    title: str
    events: list[Event]
    some: dict[str, Any]
    few: dict[str, Any]


def find_input(folder: Path, package_log: Path = Path("/var/log/dpkg.log")) -> DemoInput:
    """Return the first source with enough events; the standard library always has."""
    python = {"suffix": {"subject": ".py"}}
    git = list(itertools.islice(git_events(folder), EVENTS_MAX))
    if len(git) >= EVENTS_MIN:
        # The rarest kind of change: how many there are of each depends on the folder.
        others = [e for e in git if not str(e.attributes["subject"]).endswith(".py")]
        kinds = collections.Counter(str(event.attributes["type"]) for event in others or git)
        rarest = {"exact": {"type": kinds.most_common()[-1][0]}}
        title = f"the git history of {folder.resolve().name}"
        return DemoInput(title, git, python, {"all": [rarest, {"not": python}]})
    packages = list(itertools.islice(package_events(package_log), EVENTS_MAX))
    if len(packages) >= EVENTS_MIN:
        libraries = {"prefix": {"subject": "lib"}}
        installed = {"exact": {"type": TYPE + "package.installed"}}
        unpacked = {"exact": {"type": TYPE + "package.unpacked"}}
        few = {"all": [{"any": [installed, unpacked]}, {"not": libraries}]}
        return DemoInput("the package log of this machine", packages, libraries, few)
    tests = {"prefix": {"subject": "json/"}}
    few = {"all": [python, {"any": [tests, {"prefix": {"subject": "asyncio/"}}]}]}
    library = list(itertools.islice(library_events(), EVENTS_MAX))
    return DemoInput("the files of Python's standard library", library, python, few)


def _event(number: int, about: str, *, source: str, subject: str, time: str, data: object) -> Event:
    attributes: dict[str, str | int | bool] = {
        "specversion": "1.0",
        "id": f"{number}",
        "source": source,
        "type": TYPE + about,
        "subject": subject,
        "time": time,
        "datacontenttype": "application/json",
    }
    return Event(attributes, msgspec.json.encode(data))


def git_events(folder: Path) -> Iterator[Event]:
    """Yield an event for each changed file of each commit, newest first; none without git."""
    command = ["git", "-C", str(folder), "log", "-n", str(EVENTS_MAX), "--name-status"]
    command += ["--format=%x00%H%x1f%cI%x1f%s"]
    try:
        log = subprocess.run(command, capture_output=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return
    number = 0
    for commit in log.decode("utf-8", "replace").split("\0")[1:]:
        head, *changes = commit.strip("\n").split("\n")
        sha, time, headline = (*head.split("\x1f"), "", "")[:3]
        for change in changes:
            letter, _, path = change.partition("\t")
            about = _CHANGES.get(letter[:1])
            if about is None or not path:
                continue
            number += 1
            data = {"commit": sha, "headline": headline}
            source = f"/git/{sha[:12]}"
            subject = path.split("\t")[-1]  # the new name in a rename
            yield _event(
                number, f"file.{about}", source=source, subject=subject, time=time, data=data
            )


def package_events(log: Path) -> Iterator[Event]:
    """Yield an event for each line of a dpkg log about a package; none if it is unreadable."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for number, line in enumerate(lines, 1):
        found = _PACKAGE_LINE.fullmatch(line)
        if found is not None:
            day, clock, action, package, rest = found.groups()
            data = {"versions": rest.split()}
            time = f"{day}T{clock}Z"
            about = f"package.{action}"
            yield _event(number, about, source="/dpkg", subject=package, time=time, data=data)


def library_events() -> Iterator[Event]:
    """Yield an event for each module file of the standard library, in order of names."""
    root = Path(sysconfig.get_path("stdlib"))
    for number, path in enumerate(sorted(root.glob("*/*.py")), 1):
        facts = path.stat()
        changed = dt.datetime.fromtimestamp(facts.st_mtime, dt.UTC)
        subject = path.relative_to(root).as_posix()
        time = changed.isoformat(timespec="seconds")
        data = {"bytes": facts.st_size}
        yield _event(number, "file.found", source="/python", subject=subject, time=time, data=data)
