"""Whatever sinks do and whatever is asked of the dispatcher: nothing lost, nothing doubled."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from distributary.core.deliver import Admission, Destination, Dispatcher, Limits
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.flow import Origin, Position, Stage, Task
from distributary.core.policy import DeliveryPolicy, Reply
from distributary.testing.scripted_transport import ScriptedTransport, Step
from distributary.testing.virtual import SeededRandom, VirtualClock, VirtualTimers

LIMITS = Limits(
    queued_max=20,
    held_bytes_max=60_000,
    held_bytes_total_max=150_000,
    in_flight_max=10,
    in_flight_total_max=14,
    retry_reserve=5,
)

answers = st.one_of(
    st.sampled_from([204, 204, 204, 400, 404, 429, 500, 503]).flatmap(
        lambda status: st.sampled_from([None, "1", "30", "junk"]).map(
            lambda after: Reply(status, after, None, b"")
        )
    ),
    st.sampled_from(
        [
            TransportError("refused", "x"),
            TransportError("reset", "x"),
            TransportError("blocked-address", "x", retryable=False),
        ]
    ),
    st.none(),
)


class DispatcherMachine(RuleBasedStateMachine):
    """Offers, answers, time, hand-overs, in any order."""

    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.steps = {}
        self.transport = ScriptedTransport(self.timers, self.act)
        self.admitted = {}
        self.ended = {}
        self.drained = []
        self.refused = set()
        self.dispatcher = Dispatcher(
            {"HTTP": self.transport},
            clock=self.clock,
            timers=self.timers,
            random=SeededRandom(7),
            on_attempt=lambda attempt: self.end(attempt.task),
            on_drained=self.refused.discard,
            limits=LIMITS,
        )

    def act(self, _event, destination):
        return self.steps.get(destination.uri, Step(after_s=0.01))

    def end(self, task):
        number = task.position.offset
        assert number in self.admitted, "reported but never admitted"
        assert number not in self.ended, "reported twice"
        self.ended[number] = task

    @rule(
        sink=st.integers(0, 4),
        count=st.integers(1, 30),
        size=st.sampled_from([0, 100, 20_000]),
        pace=st.sampled_from([(None, ""), (5.0, "one"), (0.5, "one"), (5.0, "other")]),
        retry=st.booleans(),
    )
    def offer(self, sink, count, size, pace, retry):
        uri = f"http://sink{sink}.example/"
        rate, owner = pace
        policy = DeliveryPolicy(timeout_s=2.0, backoff_max_s=5.0, rate_limit_per_s=rate)
        to = Destination(uri, policy=policy, paced_by=owner)
        offer = self.dispatcher.offer_retry if retry else self.dispatcher.offer
        for _ in range(count):
            number = len(self.admitted)
            event = Event({"specversion": "1.0", "id": str(number), "source": "/"}, b"x" * size)
            place = Position(0, number, 0)
            task = Task(place, 1, "route", event, Stage.PRIMARY, 1, 0, Origin.LIVE)
            if offer(task, to) is Admission.ADMITTED:
                self.admitted[number] = task
            else:
                self.refused.add(to.queue)

    @rule(sink=st.integers(0, 4), answer=answers, after_s=st.sampled_from([0.0, 0.01, 0.5, 5.0]))
    def behave(self, sink, answer, after_s):
        self.steps[f"http://sink{sink}.example/"] = Step(answer, after_s)

    @rule(seconds=st.sampled_from([0.001, 0.05, 1.0, 20.0]))
    def wait(self, seconds):
        self.timers.advance(seconds)

    @rule(sink=st.none() | st.integers(0, 4), owner=st.sampled_from(["", " of one", " of other"]))
    def take(self, sink, owner):
        uri = None if sink is None else f"http://sink{sink}.example/{owner}"
        for task in self.dispatcher.take_queued(uri):
            self.end(task)

    @rule(slow_s=st.sampled_from([0.0, 0.1]))
    def begin_drain(self, slow_s):
        self.dispatcher.begin_drain(slow_s)

    @precondition(lambda self: self.admitted)
    @rule()
    def settle(self):
        """With good sinks and enough time everything ends, and every refusal is followed up."""
        self.steps.clear()
        self.timers.advance(400.0)
        assert set(self.ended) == set(self.admitted)
        assert self.dispatcher.in_flight == self.dispatcher.queued == 0
        assert not self.refused

    @invariant()
    def counts_agree(self):
        open_tasks = len(self.admitted) - len(self.ended)
        assert self.dispatcher.in_flight + self.dispatcher.queued == open_tasks
        assert self.dispatcher.in_flight == self.transport.under_way
        if not open_tasks:
            assert self.dispatcher.held_bytes == 0

    @invariant()
    def limits_hold(self):
        assert self.dispatcher.in_flight <= LIMITS.in_flight_total_max
        for queue in self.dispatcher.queues():
            assert queue.queued <= LIMITS.queued_max + LIMITS.retry_reserve
            assert 0 <= queue.in_flight <= 64
            assert queue.queued_bytes >= 0


TestDispatcher = DispatcherMachine.TestCase
TestDispatcher.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
