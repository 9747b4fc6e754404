"""How an owner elsewhere asks for recalled records, and gets them: by ports that fail."""

import json
import queue
import threading

import pytest

from distributary.core.errors import LogUnavailableError, StoreError
from distributary.core.flow import RecordKind
from distributary.core.log.pieces import cut
from distributary.core.log.recalled import RecalledName, RecalledWriter, list_recalled
from distributary.partitions._courier import IDLE_S, TOLD_AFTER_S, TOLD_EVERY_S, Courier
from distributary.partitions.recall_requests import read_requests
from kit.running_server import wait_until

NAME = RecalledName(0, 3)
STRETCH = (0, 3)
WAIT_S_MAX = 30.0


class World:
    """Store, topic and job, each of which may fail."""

    def __init__(self, folder):
        self.folder = folder / "recalled" / "p0"
        self.folder.mkdir(parents=True)
        self.note = folder / "note"
        self.path = folder / "here"
        self.path.mkdir()
        self.log = []
        self.values = queue.SimpleQueue()
        self.failures = {"tell": 0, "connect": 0, "take": 0}
        self.open = self.paused = self.losing = 0
        self.reasons = []
        self.idle = threading.Event()
        self.courier = Courier(
            self.tell, self.connect, self.folder, self.reasons.append, self.pause
        )

    def _perhaps_fail(self, what, error):
        if self.failures[what]:
            self.failures[what] -= 1
            raise error(what)

    def pause(self, woken, seconds):
        """In no time, but for the wait for somebody."""
        self.paused += 1
        if seconds is None:
            self.idle.set()
        return woken.wait(None if seconds is None else 0.001)

    def tell(self, content):
        """See ``Courier``."""
        self._perhaps_fail("tell", StoreError)
        self.log.append(("tell", [tuple(each) for each in json.loads(content)["stretches"]]))
        if self.losing:
            self.losing -= 1
        else:
            self.note.write_bytes(content)

    def connect(self):
        """See ``Courier``."""
        self._perhaps_fail("connect", LogUnavailableError)
        self.values = queue.SimpleQueue()  # from now on
        self.open += 1
        self.log.append(("connect", None))
        return self

    def take(self, wait_s):
        """See ``Pieces``; time passes as fast as it can."""
        self._perhaps_fail("take", LogUnavailableError)
        try:
            return [self.values.get(timeout=0.001)]
        except queue.Empty:
            assert wait_s
            return []

    def close(self):
        """See ``Pieces``."""
        self.open -= 1

    def send(self, *, but=()):
        """What the job does: all pieces but those with these numbers."""
        if not NAME.path(self.path).exists():
            writer = RecalledWriter(self.path, NAME)
            for offset in range(*NAME):
                writer.add(offset, 1, RecordKind.EVENTS, b"x" * 500_000)
            writer.finish()
        for number, piece in enumerate(cut(NAME.path(self.path), NAME, 1)):
            if number not in but:
                self.values.put(piece)

    def wait(self, holds, what):
        """Wait until something holds."""
        wait_until(holds, WAIT_S_MAX, what, 0.001)

    def wait_asked(self):
        """Wait until the store has the request."""
        self.wait(lambda: self.note.exists() and read_requests(self.note) == [STRETCH], "asked")

    def wait_there(self):
        """Wait for the file."""
        self.wait(lambda: list_recalled(self.folder) == [NAME], "the file is there")
        assert NAME.path(self.folder).read_bytes() == NAME.path(self.path).read_bytes()


@pytest.fixture
def world(tmp_path):
    """Nobody has asked for anything."""
    made = World(tmp_path)
    yield made
    made.courier.close()
    assert not made.open
    assert not made.folder.exists()


def test_what_is_asked_for_comes(world):
    """The topic is open before the request is there: no piece comes too early."""
    world.courier.put([STRETCH])
    world.wait_asked()
    assert [name for name, _ in world.log] == ["connect", "tell"]
    world.send()
    world.wait_there()
    world.courier.put([])
    world.wait(lambda: read_requests(world.note) == [], "the request is withdrawn")


def test_a_session_that_begins_withdraws_what_the_one_before_has_asked_for(world):
    """Without the topic; and once more, where the store has lost that."""
    world.courier.put([])
    world.wait(lambda: world.log == [("tell", [])] * 2, "told twice")
    world.wait(world.idle.is_set, "it waits for somebody")
    assert world.log == [("tell", [])] * 2
    assert not world.open


def test_a_store_that_lost_a_request_is_told_it_again(world):
    """A crash may take back what it had said a moment before: nobody would ever bring it."""
    world.losing = 3
    world.courier.put([STRETCH])
    world.wait_asked()
    assert world.log.count(("tell", [STRETCH])) >= 4
    world.send()
    world.wait_there()


def test_a_store_that_lost_a_withdrawal_is_told_it_again(world):
    """The job would recall for nobody, again and again."""
    world.courier.put([STRETCH])
    world.wait_asked()
    world.losing = 1
    world.courier.put([])
    world.wait(lambda: read_requests(world.note) == [], "the request is withdrawn")
    assert world.log.count(("tell", [])) == 2


@pytest.mark.parametrize("what", ["tell", "connect"])
def test_store_and_topic_may_be_away(world, what):
    """It is asked again until they are there; people see a request even without the topic."""
    world.failures[what] = 5
    world.courier.put([STRETCH])
    world.wait(lambda: world.open and not world.failures[what], "both are there")
    world.wait_asked()
    world.send()
    world.wait_there()


@pytest.mark.parametrize("what", ["tell", "connect", "take"])
def test_what_goes_on_failing_is_told_of(world, what):
    """With the reason, once for each minute of pauses: a user who may not read the topic, say."""
    world.failures[what] = 10_000
    world.courier.put([STRETCH])
    world.wait(lambda: world.paused >= 200, "it has failed for 200 s")
    assert set(world.reasons) == {what}
    assert 2 <= len(world.reasons) <= 1 + world.paused // TOLD_EVERY_S
    world.failures[what] = 0


def test_what_fails_for_a_moment_is_not_told_of(world):
    """Nor again and again, while what is asked for comes meanwhile."""
    world.courier.put([STRETCH])
    for _ in range(3):
        world.failures |= {"connect": int(TOLD_AFTER_S) - 2, "take": 1}
        world.wait(lambda: world.open and not world.failures["connect"], "it is open again")
        world.send()
        world.wait_there()
        NAME.path(world.folder).unlink()
    assert world.reasons == []


def test_a_topic_that_was_cut_is_opened_anew(world):
    """What was begun is forgotten: the job sends all of it again."""
    world.courier.put([STRETCH])
    world.wait_asked()
    world.send(but={1})
    world.wait(lambda: list(world.folder.iterdir()), "a file is begun")
    world.failures["take"] = 1
    world.wait(lambda: world.log.count(("connect", None)) == 2, "it is opened again")
    world.send()
    world.wait_there()


def test_a_topic_that_nobody_needs_is_closed(world):
    """A while after the last request; then it is opened again."""
    world.courier.put([STRETCH])
    world.wait_asked()
    world.courier.put([])
    world.wait(lambda: not world.open, f"closed after {IDLE_S:g} s of ticks")
    world.courier.put([STRETCH])
    world.wait(lambda: world.open == 1, "open again")


def test_an_end_waits_for_no_store(world, monkeypatch):
    """A session that ends is not held up by a question to a cluster that is away."""
    released, asked = threading.Event(), threading.Event()

    def connect():
        asked.set()
        released.wait(WAIT_S_MAX)
        raise LogUnavailableError("no answer")

    monkeypatch.setattr("distributary.partitions._courier.CLOSE_S_MAX", 0.01)
    courier = Courier(world.tell, connect, world.folder, world.reasons.append, world.pause)
    courier.put([STRETCH])
    assert asked.wait(WAIT_S_MAX)
    courier.close()
    released.set()
