"""The replays of a partition: which of their matches are open, and how far each has come.

A replay keeps a position instead of a row for each match: all below it have an outcome or a row.
Outcomes above it are in the journal, under a name of the run, so a restart repeats only what had
none. A match that must be retried, or waits, becomes a row and is the replay's no more.
"""

from collections import deque
from collections.abc import Collection, Container, Mapping
from typing import Final

from distributary.core.engine.reservations import key_of
from distributary.core.engine.tracker import Tracker
from distributary.core.flow import DoneKey, Mark, Position, Task
from distributary.core.outcome.rows import RunRow

FINISHED_MAX: Final = 4_096
"""Finished matches of a replay above its position, beyond which open ones become rows: while one
attempt hangs, the journal must not accumulate all that its sink accepts meanwhile."""
_PREFIX: Final = "run "


def name_of(seq: int) -> str:
    """Name of a run in the journal, in place of a route; never a valid uid."""
    return f"{_PREFIX}{seq}"


class Replay:
    """One replay: its position, its matches under way, and those not sent yet.

    Args:
        row: Its durable progress.
        done: Matches at or above its position that had their outcome before, with checksums.

    Attributes:
        unsent: Matches that are chosen and not sent, in order.
        offered: Whether the first of them was refused: it is under way.
        gave_back: Whether matches were chosen and let go, which are to be read again.
        row: The progress that the next flush writes: all below has an outcome or a row.
    """

    def __init__(self, row: RunRow, done: Mapping[DoneKey, int]) -> None:
        self.name = name_of(row.seq)
        self.row = row
        self.unsent: deque[Task] = deque()
        self.offered = False
        self.gave_back = False
        self._done = done
        self._tracker = Tracker(Mark(row.at, 0))
        self._steps: deque[RunRow] = deque()
        self._slices: deque[tuple[Position, int]] = deque()  # the last match, bytes
        self._counted: set[DoneKey] = set()
        self._again_from: Position | None = None

    def not_counted(self, tasks: list[Task]) -> list[Task]:
        """Those of *tasks* that it has not counted before it let go what was behind them."""
        first, counted = self._again_from, self._counted
        if first is None:
            return tasks
        return [task for task in tasks if task.position >= first and key_of(task) not in counted]

    def was_done(self, task: Task) -> bool:
        """Whether the match had its outcome in this replay before the start."""
        if not self._done:
            return False
        position = task.position
        key = DoneKey(position.offset, position.index, self.name)
        return self._done.get(key) == task.checksum

    def take(
        self, tasks: list[Task], row: RunRow, size: int, others: Collection[DoneKey] = ()
    ) -> None:
        """Add matches, in order; once they and all before are finished, *row* is its progress.

        Args:
            tasks: The matches.
            row: Its progress behind them.
            size: Bytes that they hold in memory, about.
            others: Matches among them that it has counted and does not send.
        """
        at, take = 0, self._tracker.take_again if self.gave_back else self._tracker.take
        while at < len(tasks):
            offset, end = tasks[at].position.offset, at + 1
            while end < len(tasks) and tasks[end].position.offset == offset:
                end += 1
            take(offset, tasks[at].checksum, tasks[at:end])
            at = end
        self._tracker.skip_to(row.at)
        self.gave_back = False
        self.unsent.extend(tasks)
        self._steps.append(row)
        if tasks:
            self._slices.append((tasks[-1].position, size))
        if self._counted or others:
            first = self.unsent[0].position.offset if self.unsent else row.at
            self._counted = {key for key in (*self._counted, *others) if key.offset >= first}

    def released(self) -> int:
        """Bytes of the slices that were sent as a whole since the last call."""
        slices, size = self._slices, 0
        while slices and (not self.unsent or slices[0][0] < self.unsent[0].position):
            size += slices.popleft()[1]
        return size

    def give_back(self, row: RunRow) -> RunRow:
        """Let the matches go that are not sent; *row* is how far it has read.

        Returns:
            How far it has read then: they are read and counted again.
        """
        first, count = self.unsent[0].position, len(self.unsent)
        self._tracker.rewind(self.unsent)
        self.unsent.clear()
        self.gave_back = True
        self._again_from = first
        while self._steps and self._steps[-1].at > first.offset:
            self._steps.pop()
        return row._replace(
            at=first.offset,
            looked=row.looked - (row.at - first.offset),
            selected=row.selected - count,
            handled=row.handled - count,
        )

    def progress(self) -> RunRow:
        """How far it is: the last step that is finished as a whole."""
        mark = self._tracker.mark().offset
        while self._steps and self._steps[0].at <= mark:
            self.row = self._steps.popleft()
        return self.row

    def finish(self, task: Task) -> bool:
        """Mark *task* as finished; False if it already was."""
        return self._tracker.finish(task)

    @property
    def idle(self) -> bool:
        """Whether none of its matches is open."""
        return not self._tracker.open_count

    @property
    def crowded(self) -> bool:
        """Whether too many are finished above an open one."""
        tracker = self._tracker
        if tracker.finished_count <= FINISHED_MAX:
            return False
        tracker.mark()  # Those below it are counted until it is asked for.
        return tracker.finished_count > FINISHED_MAX

    def has_sent(self, task: Task) -> bool:
        """Whether *task*, which is open, has been sent."""
        return not self.unsent or task.position < self.unsent[0].position

    def take_unsent(self, keys: Container[DoneKey]) -> list[Task]:
        """Remove those of *keys* from the matches that are not sent; returns them, in order."""
        taken = [task for task in self.unsent if key_of(task) in keys]
        self._counted.update(map(key_of, taken))
        self.unsent = deque(task for task in self.unsent if key_of(task) not in keys)
        return taken

    def under_way(self, *, everything: bool) -> list[Task]:
        """Sent matches that are open: all, or those that hold up half of the finished ones."""
        first = self.unsent[0].position if self.unsent else None
        end = self._tracker.next_offset if first is None else first.offset
        if not everything:
            return self._tracker.open_before(max(1, self._tracker.finished_count // 2), end)
        found = self._tracker.open_below(end + 1)
        return found if first is None else [task for task in found if task.position < first]


class Replays:
    """The registry of a partition's replays."""

    def __init__(self) -> None:
        self.open: dict[DoneKey, tuple[Replay, Task]] = {}
        """Matches that a replay waits for."""
        self.all: dict[int, Replay] = {}
        """Replays under way, by the number of their demand."""
        self.held_bytes = 0
        """Memory of the matches that are chosen and not sent, about."""
        self._before: dict[str, dict[DoneKey, int]] = {}

    def load(self, done: Mapping[DoneKey, int]) -> None:
        """Load the outcomes that the last owner left."""
        for key, checksum in done.items():
            if key.route.startswith(_PREFIX):
                self._before.setdefault(key.route, {})[key] = checksum

    def begin(self, row: RunRow) -> Replay:
        """Begin, or go on with, a replay."""
        replay = Replay(row, self._before.pop(name_of(row.seq), {}))
        self.all[row.seq] = replay
        return replay

    def take(
        self,
        replay: Replay,
        chosen: Mapping[DoneKey, Task],
        row: RunRow,
        size: int,
        others: Collection[DoneKey] = (),
    ) -> None:
        """See ``Replay.take``; *chosen* has the tasks by their keys."""
        replay.take(list(chosen.values()), row, size, others)
        for key, task in chosen.items():
            self.open[key] = replay, task
        if chosen:
            self.held_bytes += size

    def release(self, replay: Replay) -> None:
        """Take note that matches of *replay* were sent."""
        self.held_bytes -= replay.released()

    def give_back(self, replay: Replay, row: RunRow) -> RunRow:
        """See ``Replay.give_back``."""
        for task in replay.unsent:
            del self.open[key_of(task)]
        if replay.unsent:
            row = replay.give_back(row)
        self.release(replay)
        return row

    def finish(self, task: Task, key: DoneKey) -> Replay | None:
        """Mark *task* as finished; returns its replay, None: none waits for it."""
        found = self.open.get(key)
        if found is None or found[1] is not task:
            return None
        del self.open[key]
        found[0].finish(task)
        return found[0]

    def holds(self, task: Task) -> bool:
        """True if a replay still waits for *task*."""
        found = self.open.get(key_of(task))
        return found is not None and found[1] is task

    def end(self, seq: int) -> list[Task]:
        """Forget a replay; returns its matches that were not sent."""
        replay = self.all.pop(seq)
        left = list(replay.unsent)
        for task in left:
            self.open.pop(key_of(task), None)
        replay.unsent.clear()
        self.release(replay)
        return left

    def floors(self) -> dict[str, int]:
        """From where the journal must remember the outcomes of each, by its name there."""
        return {replay.name: replay.row.at for replay in self.all.values()}
