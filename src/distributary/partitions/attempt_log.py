"""The attempt log: one JSON line for each delivery attempt, in a file of bounded size."""

import os
from pathlib import Path

import msgspec

from distributary.core.event import Event
from distributary.core.flow import Attempt, Stage
from distributary.core.policy import DELIVERED, Decision, Reply, Verdict

FILE_BYTES_MAX = 64 * 1024 * 1024
"""Size at which the file is rotated; one old file is kept: some 400,000 attempts."""
BUFFER_LINES_MAX = 256
"""Lines that are encoded and written together: a system call for each would cost as much as the
attempt. A line has some 300 bytes, at most 4 KiB."""


_STAGES = {Stage.PRIMARY: "event", Stage.DEAD_LETTER: "dead-letter", Stage.REPLY: "reply"}
_DECISIONS = {decision: decision.value for decision in Decision}


class _Line(msgspec.Struct, omit_defaults=True):
    t: int
    """Wall clock, milliseconds."""
    event: str
    partition: int
    offset: int
    index: int
    route: str
    stage: str = msgspec.field(name="leg")
    attempt: int
    verdict: str
    duration_s: float
    status: int | None = None
    reason: str | None = None
    wait_s: float | None = None
    id: str | None = None
    source: str | None = None
    type: str | None = None


VALUE_CHARS_MAX = 1024
"""Longer attribute values are truncated, which bounds the length of a line."""


def _names(event: Event) -> tuple[str, str, str]:
    """Id, source and type, cut to what a line holds."""
    return (
        str(event.text("id"))[:VALUE_CHARS_MAX],
        str(event.text("source"))[:VALUE_CHARS_MAX],
        str(event.text("type"))[:VALUE_CHARS_MAX],
    )


class AttemptLog:
    """Writes attempts to a file.

    Args:
        path: The file; its folder is created. None: nothing is written.
        failures_only: Leave out deliveries that succeed at the first attempt.
    """

    def __init__(self, path: Path | None, *, failures_only: bool = False) -> None:
        self._path = path
        self._failures_only = failures_only
        self._encode_lines = msgspec.json.Encoder().encode_lines
        self._lines: list[_Line] = []
        self._event: Event | None = None  # the last one, and what its lines call it
        self._names = "", "", ""
        self._fd = -1
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, flags, 0o600)
            self._size = os.fstat(self._fd).st_size
        except OSError:
            # As in ``flush``: a log that cannot be written stops nothing. The next owner tries.
            return

    def line(self, attempt: Attempt, verdict: Verdict, now_ms: int) -> None:
        """Buffer a line about *attempt* and its verdict."""
        if self._fd < 0:
            return
        task = attempt.task
        answer = attempt.answer
        status = answer.status if type(answer) is Reply else None
        delivered = verdict is DELIVERED
        if self._failures_only and delivered and task.attempt == 1:
            return
        event = task.event
        if event is not self._event:  # The matches of an event follow one another.
            self._event = event
            self._names = _names(event)
        event_id, source, event_type = self._names
        position = task.position
        self._lines.append(
            _Line(
                now_ms,
                "attempt",
                position[0],
                position[1],
                position[2],
                task.route,
                _STAGES[task.stage],
                task.attempt,
                "delivered" if delivered else _DECISIONS[verdict.decision],
                round(attempt.duration_s, 6),
                status,
                None if delivered else verdict.reason,
                verdict.wait_s or None,
                event_id,
                source,
                event_type,
            )
        )
        if len(self._lines) >= BUFFER_LINES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines. A failure of the log stops no deliveries."""
        if self._fd < 0 or not self._lines:
            return
        content = self._encode_lines(self._lines)
        self._lines = []
        try:
            self._size += os.write(self._fd, content)
            if self._size > FILE_BYTES_MAX:
                self._turn()
        except OSError:
            # A full disk: attempts matter more than their log. Counters still tell of them.
            return

    def _turn(self) -> None:
        assert self._path is not None
        os.close(self._fd)
        self._fd = -1
        self._path.rename(self._path.with_suffix(".old"))
        self._open(self._path)

    def close(self) -> None:
        """Write the buffered lines and close the file."""
        self.flush()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
