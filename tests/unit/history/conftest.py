"""Folders of history whose rows are lines, and a merging that joins lines."""

from collections import Counter
from pathlib import Path

import pytest

from distributary.history.names import superseded
from distributary.testing.memory_history import MemoryHistory
from distributary.testing.virtual import VirtualClock


class Lines:
    """Takes log lines."""

    def __init__(self):
        self.names = []

    def __getattr__(self, _level):
        return lambda name, **_fields: self.names.append(name)


class Joining:
    """Merges by joining; a file that begins with ``damaged`` cannot be read."""

    def __init__(self):
        self.jobs = 0
        self.before = lambda: None

    def run(self, jobs):
        self.before()
        answers = []
        for job in jobs:
            self.jobs += 1
            contents = {path: path.read_bytes() for path in job.inputs}
            damaged = [path for path, each in contents.items() if each.startswith(b"damaged")]
            if not damaged:
                job.output.write_bytes(b"".join(contents.values()))
            answers.append(damaged)
        return answers


class World:
    """A folder in memory, a clock and a scratch folder."""

    def __init__(self, scratch: Path):
        self.clock = VirtualClock(wall_ms=1_795_000_000_000)
        self.folder = MemoryHistory(lambda: self.clock.wall_ms() / 1000)
        self.merging = Joining()
        self.scratch = scratch
        self.lines = Lines()

    def add(self, file, content=None):
        """A file with a line for each row."""
        rows = [b"p%d-%d\n" % (file.partition, row) for row in range(file.first, file.end)]
        content = b"".join(rows) if content is None else content
        self.folder.content[file] = (content, self.clock.wall_ms() / 1000)

    def rows(self):
        """How often a reader that skips superseded names sees each row."""
        gone = set(superseded(self.folder.content))
        return Counter(
            line
            for file, (content, _) in self.folder.content.items()
            if file not in gone
            for line in content.splitlines()
        )


@pytest.fixture
def world(tmp_path):
    """An empty one."""
    return World(tmp_path / "scratch")
