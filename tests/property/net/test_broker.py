"""Whatever happens on a connection to a broker, every attempt gets exactly one answer in time."""

import asyncio
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.core.errors import TransportError
from distributary.net._wheel import TICK_S
from distributary.testing.virtual_loop import VirtualLoop, run
from kit.scripted_session import YES, Bench, a_place

pytestmark = pytest.mark.slow

CUT = TransportError("reset", "cut")
NO = TransportError("refused", "nobody listens")

HOSTS = ("one", "two")
"""Two connections, to see that they leave each other alone."""

LATE_S = 3 * TICK_S
"""What an answer may be late: two ticks, as the wheel promises, and one for the sums of floats."""

steps = st.one_of(
    st.tuples(
        st.just("send"), st.sampled_from(HOSTS), st.sampled_from([0.02, 0.3, 2.0, 8.0, 40.0])
    ),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.01, 0.2, 1.5, 12.0, 70.0])),
    st.tuples(st.just("answer"), st.integers(0, 30)),
    st.tuples(st.just("answer-all")),
    st.tuples(st.just("lose"), st.integers(0, 5)),
    st.tuples(st.just("dial"), st.sampled_from(["open", "refuse", "bug", "long", "lost"])),
    st.tuples(st.just("publish"), st.sampled_from(["hold", "answer", "refuse", "bug", "lose"])),
    st.tuples(st.just("window"), st.integers(1, 4)),
)


class World:
    """A bench, what was sent, and what the sessions do."""

    def __init__(self, loop):
        self.bench = Bench(loop)
        self.broker = self.bench.broker
        self.broker.window = 2
        self.broker.on_open = self._on_open
        self.sent = []
        self.due_s = {}
        self.opened = {}
        self.gone = []
        self._publishing = "hold"
        self._lost_at_once = False

    def _on_open(self, session):
        session.on_publish = lambda flight: self._published(session, flight)
        if self._lost_at_once:
            self._lose(session)

    def _lose(self, session):
        self.gone.append(session)
        session.lost(CUT)

    def _published(self, session, flight):
        assert not flight.answered
        assert session not in self.gone, "published where nobody is"
        if self._publishing == "answer":
            flight.answer(YES)
        elif self._publishing == "refuse":
            raise NO
        elif self._publishing == "bug":
            raise KeyError("a bug")
        elif self._publishing == "lose":
            self._lose(session)

    def send(self, host, timeout_s):
        number = len(self.sent)
        self.sent.append(host)
        self.due_s[number] = self.bench.loop.time() + timeout_s
        self.bench.send(number, timeout_s, a_place(host))

    def answer(self, index):
        flights = [flight for session in self.broker.sessions for flight in session.published]
        if flights:
            flights[index % len(flights)].answer(YES)

    def answer_all(self):
        for session in self.broker.sessions:
            for flight in list(session.published):
                flight.answer(YES)

    def lose(self, index):
        if self.broker.sessions:
            self._lose(self.broker.sessions[index % len(self.broker.sessions)])

    def dial(self, how):
        self.broker.otherwise = {"refuse": NO, "bug": KeyError("a bug")}.get(how)
        self.broker.dial_s = 15.0 if how == "long" else 0.01
        self._lost_at_once = how == "lost"

    def publish(self, how):
        self._publishing = how

    def window(self, size):
        self.broker.window = size
        for session in self.broker.sessions:
            session.window = max(session.window, size)

    async def take(self, name, *arguments):
        if name == "wait":
            await asyncio.sleep(*arguments)
        else:
            getattr(self, name.replace("-", "_"))(*arguments)

    def check(self):
        """What holds at every moment and at the end."""
        bench = self.bench
        now_s = bench.loop.time()
        for number, due_s in self.due_s.items():
            assert number in bench.answers or now_s <= due_s + LATE_S
            assert bench.when.get(number, 0.0) <= due_s + LATE_S
        numbers = [int(each) for session in self.broker.sessions for each in session.ids]
        assert all(count == 1 for count in Counter(numbers).values()), "published twice"
        for host in HOSTS:
            of_host = [number for number in numbers if self.sent[number] == host]
            assert of_host == sorted(of_host), "overtaken"


@given(script=st.lists(steps, max_size=60), closing=st.booleans())
@example(script=[("dial", "lost"), ("send", "one", 40.0), ("wait", 0.2)], closing=False)
@example(script=[("publish", "lose"), ("send", "one", 40.0), ("wait", 1.5)], closing=False)
@settings(max_examples=300, deadline=None)
def test_every_attempt_gets_one_answer_in_time(script, closing):
    """Under any order of sends, answers, breaks, failing dials, bugs and pauses."""
    loop = VirtualLoop()

    async def main():
        world = World(loop)
        for step in script:
            await world.take(*step)
            world.check()
        if not closing:
            await asyncio.sleep(60.0)
            world.check()
            assert len(world.bench.answers) == len(world.sent)
        await world.bench.transport.close()
        await asyncio.sleep(0)
        assert len(world.bench.answers) == len(world.sent)
        assert all(session.closed == 1 for session in world.broker.sessions)
        assert not any(world.bench.transport._wheel._slots.values())
        bugs = [context["exception"] for context in loop.complaints]
        assert all(isinstance(bug, KeyError) for bug in bugs), bugs
        loop.complaints.clear()

    run(main(), loop)
