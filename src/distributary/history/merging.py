"""Runs the program ``merge`` as a child process."""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

STOP_LOOK_S: Final = 0.2
"""How often the caller's wish to stop is looked up while the child works."""
MERGE_S_MAX: Final = 600.0
"""A child that takes longer is killed: the largest merge takes seconds."""
_ERROR_CHARACTERS_MAX: Final = 500


class MergeJob(NamedTuple):
    """Local files that become one.

    Attributes:
        inputs: Parquet files, in the order of their rows.
        output: File that is written.
    """

    inputs: tuple[Path, ...]
    output: Path


class MergeChild:
    """Merges in child processes, one at a time.

    Args:
        stop: Set when the child is to end early.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def run(self, jobs: Sequence[MergeJob]) -> list[list[Path]]:
        """Do *jobs*; blocks.

        Returns:
            For each job those of its inputs that cannot be read; its output is worthless then.

        Raises:
            OSError: The child failed (its memory or the disk is short), or was to end early.
        """
        asked = json.dumps(
            [{"inputs": list(map(str, job.inputs)), "output": str(job.output)} for job in jobs]
        )
        with ExitStack() as opened:
            told, answered, errors = (
                opened.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3)
            )
            told.write(asked)
            told.seek(0)
            child = subprocess.Popen(
                [sys.executable, "-m", "distributary.history.merge"],
                stdin=told,
                stdout=answered,
                stderr=errors,
            )
            if code := self._wait(child):
                errors.seek(0)
                reason = errors.read()[-_ERROR_CHARACTERS_MAX:].strip()
                raise OSError(f"merging ended with {code}: {reason}")
            answered.seek(0)
            return [[Path(path) for path in json.loads(line)] for line in answered]

    def _wait(self, child: "subprocess.Popen[bytes]") -> int:
        waited_s = 0.0
        while True:
            try:
                return child.wait(STOP_LOOK_S)
            except subprocess.TimeoutExpired:
                waited_s += STOP_LOOK_S
            if self._stop.is_set() or waited_s > MERGE_S_MAX:
                child.kill()
                child.wait()
                raise OSError("merging was stopped")
