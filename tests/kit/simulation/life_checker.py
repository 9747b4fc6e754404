"""Checks every step of every match against the state transition table, and counts transitions.

Called by ``partition``. A step that the table does not allow fails at once.
"""

from collections import Counter
from typing import ClassVar

from distributary.core.engine import LIFE, MatchState, Step
from distributary.core.flow import DoneKey, Origin, Stage, Task

__all__ = ["LifeChecker", "transitions"]

_FIRST = {
    Origin.LIVE: MatchState.MATCHED,
    Origin.BACKFILL: MatchState.BACKFILLING,
    Origin.RETRY: MatchState.WAITING,
    Origin.REPLAY: MatchState.WAITING,
}
_STAND_ALONE = frozenset(
    {
        MatchState.RESERVING,
        MatchState.WAITING,
        MatchState.DEFERRED,
        MatchState.READING,
        MatchState.DONE,
    }
)
"""States in which no stream waits for a match."""


def transitions() -> list[tuple[MatchState, Step]]:
    """Returns all transitions of the table."""
    return [(source, step) for step, row in LIFE.items() for source in row.sources]


class LifeChecker:
    """The matches of one partition.

    Attributes:
        met: Count by transition, over all partitions of this process.
    """

    met: ClassVar[Counter[tuple[MatchState, Step]]] = Counter()

    def __init__(self) -> None:
        self._live: dict[DoneKey, MatchState] = {}  # those whose task is the live reader's
        self._states: dict[DoneKey, MatchState] = {}  # a backfill may bring one of these as well
        self._queued: dict[tuple[str, str, Stage], tuple[DoneKey, Task]] = {}
        self._started: set[tuple[str, str, Stage]] = set()

    def begin(self) -> None:
        """Start a new owner: the state of matches is in rows, backfills and outcomes."""
        for known in (self._live, self._states, self._queued, self._started):
            known.clear()

    def step(self, step: Step, key: DoneKey, task: Task | None) -> None:
        """Check *step* of the match *key*."""
        row = LIFE[step]
        states = self._states_of(key, task)
        state = states.get(key)
        if state is None:
            state = _FIRST[Origin.RETRY if task is None else task.origin]
            if step is Step.SEND_AGAIN:
                state = MatchState.DONE
        assert state in row.sources, f"{key} is {state.value}: no {step.name} ({task})"
        self.met[state, step] += 1
        states.pop(key, None)
        target = row.target or state
        if states is self._live and target is MatchState.BACKFILLING:
            return  # The backfill brings it, or has brought it already.
        if step is Step.VOID:
            return  # Another record has its place.
        if step is Step.DEMOTE or target in _STAND_ALONE:
            states = self._states
        states[key] = target
        if step is Step.QUEUE and task is not None:
            name = str(task.event.attributes["id"]), task.route, task.stage
            self._queued[name] = key, task
            if name in self._started:  # From inside the call that queued it.
                self.started(*name)

    def _states_of(self, key: DoneKey, task: Task | None) -> dict[DoneKey, MatchState]:
        live = task is not None and task.origin is Origin.LIVE
        return (
            self._live if live and (key in self._live or key not in self._states) else self._states
        )

    def started(self, event_id: str, route: str, stage: Stage) -> None:
        """An attempt with this event has started."""
        name = event_id, route, stage
        queued = self._queued.pop(name, None)
        if queued is None:
            self._started.add(name)
            return
        self._started.discard(name)
        self._start(*queued)

    def answered(self, task: Task) -> None:
        """An attempt is over, so it has started; replies have ids of their own."""
        _, offset, index = task.position
        self._start(DoneKey(offset, index, task.route), task)

    def _start(self, key: DoneKey, task: Task) -> None:
        if self._states_of(key, task).get(key) is MatchState.QUEUED:
            self.step(Step.START, key, task)
