"""However Spark places tasks, and whoever dies: each partition comes to one task of the epoch."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from distributary.spark._search import PATIENCE_S, Search
from distributary.testing.virtual import VirtualClock

ROUNDS_MAX = 200
"""Looks of all tasks after which an epoch that has no owner yet never has one."""


class Lock:
    """The lock of a partition, held."""


class Place:
    """A partition whose lock, epoch and word are shared by all workers."""

    def __init__(self, number):
        self.number = number
        self.epoch = 0
        self.holder = None
        self.successor = False
        self.sick = False

    def due(self):
        return not self.sick

    def take(self):
        return None if self.holder is not None else Lock()

    def ask(self):
        self.successor = True

    def withdraw(self):
        self.successor = False


class Worker:
    """A worker process: with or without a session, with or without a task."""

    def __init__(self):
        self.place = None
        self.token = None
        self.search = None


class Epochs(RuleBasedStateMachine):
    """Epochs of one query, whose tasks are looked at in any order."""

    @initialize(count=st.integers(1, 4), spare=st.integers(0, 2))
    def begin(self, count, spare):
        self.clock = VirtualClock()
        self.places = [Place(number) for number in range(count)]
        self.workers = [Worker() for _ in range(count + spare)]
        self.epoch = 0
        self.kept = {}

    def _give(self, worker, token):
        """A task begins, as ``_delivery_task`` has it: first the session that the process has."""
        worker.token = token
        if worker.place is not None:
            worker.place.epoch = self.epoch
            worker.place.successor = False
        else:
            worker.search = Search(self.places, token, self.epoch, self.clock.monotonic_s)

    def _look(self, worker):
        if worker.token is None:
            if worker.place is not None and worker.place.successor:
                self._free(worker)  # a session without a task makes way
        elif worker.place is None:
            found = worker.search.look()
            if found is not None:
                place = self.places[found[0]]
                assert place.holder is None
                place.holder, worker.place, place.epoch = worker, place, self.epoch
                place.successor = False

    def _free(self, worker):
        worker.place.holder = None
        worker.place = None

    @rule(data=st.data())
    def next_epoch(self, data):
        """All tasks end, and their sessions stay; the next ones go to any of the workers."""
        for worker in self.workers:
            if worker.search is not None:
                worker.search.end()
            worker.token = worker.search = None
        for place in self.places:
            place.successor = False
        self.epoch += 1
        chosen = data.draw(st.permutations(self.workers))[: len(self.places)]
        self.kept = {worker: worker.place for worker in chosen if worker.place is not None}
        for token, worker in enumerate(chosen):
            self._give(worker, token)

    @rule(data=st.data(), steps=st.integers(1, 8))
    def look(self, data, steps):
        """Some workers look, in some order."""
        for _ in range(steps):
            self._look(data.draw(st.sampled_from(self.workers)))
            self.clock.move_to(self.clock.monotonic_s() + 0.05)

    @rule(data=st.data())
    def die(self, data):
        """A worker dies; Spark gives its task to another one, which knows nothing."""
        number = data.draw(st.integers(0, len(self.workers) - 1))
        worker = self.workers[number]
        if worker.place is not None:
            self._free(worker)
        self.kept.pop(worker, None)
        self.workers[number] = Worker()
        if worker.token is not None:
            self._give(self.workers[number], worker.token)

    @rule(data=st.data(), sick=st.booleans())
    def change_health(self, data, sick):
        """A partition that nobody owns cannot be tried for a while."""
        place = data.draw(st.sampled_from(self.places))
        if place.holder is None:
            place.sick = sick

    @rule()
    def settle(self):
        """In the end each partition has one task of the epoch, and nobody asks for any."""
        for place in self.places:
            place.sick = False
        busy = [worker for worker in self.workers if worker.token is not None]
        for _ in range(ROUNDS_MAX):
            for worker in self.workers:
                self._look(worker)
            self.clock.move_to(self.clock.monotonic_s() + PATIENCE_S / 5)
        served = {worker.place for worker in busy}
        if busy:
            assert served == set(self.places)
            assert [place.epoch for place in self.places] == [self.epoch] * len(self.places)
            assert not any(place.successor for place in self.places)

    @invariant()
    def who_had_a_session_goes_on_with_it(self):
        """No other task took it from a process that has a task itself."""
        for worker, place in self.kept.items():
            assert worker.place is place
            assert place.holder is worker


TestEpochs = Epochs.TestCase
TestEpochs.settings = settings(deadline=None, stateful_step_count=25)
