"""Order by key over receivers, whatever the links do: cut into pieces, held up, lost."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.errors import LogUnavailableError
from distributary.core.flow import Received
from distributary.server.ingest import partition_of
from distributary.server.processes.base.owned import partitions_of
from distributary.server.processes.receiver._appends import LogAppends
from distributary.server.processes.receiver._forward import ForwardServer, Link

PARTITIONS = 5
KEYS = ("a", "b", "c", "d", "e", "f")
NUMBERS = st.integers(0, 11)


class Clock:
    """Time stands still."""

    def monotonic_s(self):
        return 0.0

    def wall_ms(self):
        return 0


class Log:
    """One partition: holds appends until they are committed, or refused, all at a time."""

    pending_bytes = 0

    def __init__(self):
        self.records = []
        self.waiting = []

    def submit(self, _kind, body, done, _by=""):
        self.waiting.append((body, done))

    def commit(self, refuse):
        waiting, self.waiting = self.waiting, []
        for body, done in waiting:
            if refuse:
                done(LogUnavailableError("the disk is full"))
            else:
                self.records.append(body)
                done(len(self.records))


class Way(asyncio.Transport):
    """One direction of a link: bytes that are not delivered yet."""

    def __init__(self):
        super().__init__()
        self.held = bytearray()
        self.to = None
        self.closed = False

    def write(self, data):
        if not self.closed:
            self.held += data

    def abort(self):
        self.closed = True

    def deliver(self, count):
        """Pass on the first *count* bytes; what was sent before a loss may still arrive."""
        data = bytes(self.held[:count])
        del self.held[:count]
        if data:
            self.to.data_received(data)


class Node:
    """Several receivers with links between them; the test decides what moves."""

    def __init__(self, receivers):
        self.logs = [Log() for _ in range(PARTITIONS)]
        self.ways = []
        self.links = {}
        self.servers = []
        self.appends = []
        for number in range(receivers):
            own = {p: self.logs[p] for p in partitions_of(number, receivers, PARTITIONS)}
            self.servers.append(ForwardServer(own, lambda: True, Clock()))
            mine = {n: Link(number, Clock()) for n in range(receivers) if n != number}
            self.links |= {(number, n): link for n, link in mine.items()}
            self.appends.append(LogAppends(own, PARTITIONS, mine))
        for ends in self.links:
            self.connect(ends)

    def connect(self, ends):
        """Connect a link anew; the bytes of the old connection stay on their way."""
        link, out, back = self.links[ends], Way(), Way()
        out.to, back.to = self.servers[ends[1]].connection(), link
        out.to.connection_made(back)
        link.connection_made(out)
        self.ways += [out, back]

    def lose(self, ends):
        """Lose a link; the sender notices at once and connects again."""
        self.ways = [way for way in self.ways if way.to is not self.links[ends]]
        self.links[ends].close()
        self.connect(ends)


class Publisher:
    """Publishes numbers of one key in order: the next one after the last was acknowledged."""

    def __init__(self, key):
        self.key = key
        self.number = 0
        self.waits = False
        self.acked = []

    def publish(self, appends):
        """Publish the next event at any receiver, unless one is under way."""
        if self.waits:
            return
        self.waits = True
        body = b"%s:%d" % (self.key.encode(), self.number)
        appends.submit(Received(body, 1, self.key), self._answered)

    def _answered(self, error):
        self.waits = False
        if error is None:
            self.acked.append(self.number)
            self.number += 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), NUMBERS, NUMBERS),
        st.tuples(st.just("deliver"), NUMBERS, st.sampled_from((1, 7, 30, 1_000))),
        st.tuples(st.just("commit"), NUMBERS, st.sampled_from((0, 0, 0, 1))),
        st.tuples(st.just("lose"), NUMBERS, st.just(0)),
    ),
    max_size=120,
)


@settings(deadline=None)
@given(receivers=st.integers(2, 4), steps=STEPS)
def test_a_key_stays_in_its_partition_and_in_order(receivers, steps):
    """The first copies of its events are in the order of publishing; all acknowledged are there."""

    async def run():
        node, publishers = Node(receivers), [Publisher(key) for key in KEYS]
        for what, first, second in steps:
            if what == "publish":
                publishers[first % len(KEYS)].publish(node.appends[second % receivers])
            elif what == "deliver" and node.ways:
                node.ways[first % len(node.ways)].deliver(second)
            elif what == "commit":
                node.logs[first % PARTITIONS].commit(bool(second))
            elif what == "lose":
                node.lose(sorted(node.links)[first % len(node.links)])
            await asyncio.sleep(0)
        check(node, publishers)

    asyncio.run(run())


def check(node, publishers):
    """Judge what the logs hold."""
    for publisher in publishers:
        name = publisher.key.encode()
        home = partition_of(publisher.key, PARTITIONS)
        for partition, log in enumerate(node.logs):
            found = [int(r.partition(b":")[2]) for r in log.records if r.startswith(name + b":")]
            assert not found or partition == home
            firsts = list(dict.fromkeys(found))
            assert firsts == sorted(firsts)
            if partition == home:
                assert set(publisher.acked) <= set(found)


def test_copies_of_an_event_come_before_the_next_one():
    """A publisher that was told 503 sends again; what the lost link held comes no more."""

    async def run():
        node = Node(2)
        key = next(key for key in KEYS if partition_of(key, PARTITIONS) == 1)
        publisher, log = Publisher(key), node.logs[1]
        publisher.publish(node.appends[0])
        await asyncio.sleep(0)
        old = node.links[0, 1]._transport
        node.lose((0, 1))
        for _ in range(2):
            publisher.publish(node.appends[0])
            await asyncio.sleep(0)
            for way in node.ways:
                if way is not old:
                    way.deliver(1_000)
            log.commit(refuse=False)
            await asyncio.sleep(0)
            for way in node.ways:
                if way is not old:
                    way.deliver(1_000)
        old.deliver(1_000)
        log.commit(refuse=False)
        assert publisher.acked == [0, 1]
        assert [record[-1:] for record in log.records] == [b"0", b"1"]

    asyncio.run(run())
