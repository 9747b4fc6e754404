"""A leader that alone is cut off from the log leaves the lead to a node that is not."""

import asyncio

import pytest

from distributary.core.errors import LogLockedError, LogUnavailableError
from distributary.server.nodes import NodeRow, NodeSign
from distributary.server.processes.node import _log_reach as module
from distributary.server.processes.node._log_reach import REACHED_S, VAIN_S, LogReach
from distributary.testing.virtual import VirtualClock


def row(name, *, reaches=True, age_s=0.0):
    """A node as others see it."""
    sign = NodeSign(
        name=name, address="h:1", version="1", started_ms=0, role="x", reaches_log=reaches
    )
    return NodeRow(sign, age_s)


class Cut:
    """The node ``here``, in virtual time, which looks ten times a second."""

    def __init__(self, monkeypatch):
        self.clock = VirtualClock()
        self.away = False
        self.answers = []
        self.reach = LogReach(self._ask, "here", self.clock.monotonic_s)
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    def _ask(self):
        if self.away:
            raise LogUnavailableError("no broker answers")

    async def _sleep(self, seconds):
        self.clock.move_to(self.clock.monotonic_s() + seconds)
        self.answers.append(self.reach.is_vain(self.rows))
        if len(self.answers) >= self.turns:
            raise asyncio.CancelledError

    def run(self, turns, *rows):
        """Ask so many times, beside other nodes; returns whether it led in vain at each."""
        self.turns, self.rows, self.answers = turns, rows, []
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(self.reach.follow())
        return self.answers


@pytest.fixture
def cut(monkeypatch):
    """A node that reaches the log."""
    made = Cut(monkeypatch)
    assert not any(made.run(1, row("here"), row("other")))
    assert made.reach.reached
    return made


def test_a_leader_that_is_cut_off_leaves_once_another_has_reached_the_log_for_a_while(cut):
    """Once: it is asked again only if it leads again."""
    cut.away = True
    began_s = cut.clock.monotonic_s()
    turns = int((REACHED_S + VAIN_S) / module.ASK_S) + 1
    answers = cut.run(turns, row("here"), row("other"))
    assert answers.count(True) == 1
    assert answers[-1] or answers[-2]
    assert cut.clock.monotonic_s() - began_s <= REACHED_S + VAIN_S + 2 * module.ASK_S
    with pytest.raises(LogLockedError, match="from other"):
        cut.reach.check([row("here"), row("other")])


@pytest.mark.parametrize(
    "others",
    [(), (row("other", reaches=False),), (row("other", age_s=60.0),)],
    ids=["alone", "none-reaches", "dead"],
)
def test_nobody_leaves_where_nobody_is_better(cut, others):
    """The log is away for all: whoever leads goes on with what it has, and may take the lead."""
    cut.away = True
    assert not any(cut.run(60, row("here"), *others))
    assert not cut.reach.reached
    cut.reach.check([row("here"), *others])


def test_the_first_that_reaches_the_log_again_takes_nothing(cut):
    """Nodes find it some seconds apart when it comes back."""
    cut.away = True
    cut.run(60, row("other", reaches=False))
    assert not any(cut.run(3, row("other")))
    cut.away = False
    assert not any(cut.run(30, row("other")))
    assert cut.reach.reached
