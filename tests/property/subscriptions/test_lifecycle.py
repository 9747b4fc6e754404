"""Whatever fails or crashes, each change that somebody asked to be told of is told once or more."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.clock import SystemClock
from distributary.core.database import sqlite_url
from distributary.core.errors import LogUnavailableError
from distributary.core.filter import check
from distributary.core.flow import decode_addressed
from distributary.resource import ResourceRules, SinkRule
from distributary.subscriptions import resource
from distributary.subscriptions.lifecycle import LifecyclePublisher
from distributary.subscriptions.store.lifecycle_rows import LifecycleOutbox
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Applied, Delete, Put

RULES = ResourceRules(SinkRule(local_allowed=True), check)
EAR = {"config": {"broker": "lifecycle"}}

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc")),
        st.tuples(st.just("delete"), st.sampled_from("abc")),
        st.tuples(st.just("appended"), st.none()),
        st.tuples(st.just("turn"), st.sampled_from(["", "nothing", "some", "silence"])),
        st.tuples(st.just("crash"), st.none()),
    ),
    max_size=25,
)


def spec(**members):
    """A subscription."""
    return resource.parse({"sink": "http://127.0.0.1:9/", "protocol": "HTTP", **members}, RULES)


class World:
    """A store and a publisher that may die, and a log that may fail."""

    def __init__(self, folder):
        self.url = sqlite_url(Path(folder) / "state.db")
        self.fault, self.logged, self.expected, self.made = "", [], [], 0
        self.open()
        self.seq = self.change(Put("ear", spec(**EAR), "ear")).seq
        self.store.mark_appended(self.seq)

    def open(self):
        """Begin, as a process does."""
        self.store, self.outbox = Store(self.url), LifecycleOutbox(self.url)
        self.publisher = LifecyclePublisher(
            self.outbox, self, SystemClock(), base_url="http://h", partition_count=2
        )

    def close(self):
        """End, whatever is under way."""
        self.store.close()
        self.outbox.close()

    async def append_events(self, entries):
        """Append as many as the fault allows."""
        taken = {"": len(entries), "nothing": 0, "some": len(entries) // 2}
        count = taken.get(self.fault, len(entries))
        self.logged += [decode_addressed(body).events[0] for _, _, body in entries[:count]]
        if self.fault == "silence":  # appended, and not answered
            raise LogUnavailableError("it does not answer")
        return count

    def change(self, change):
        """Make a change; None: it was refused."""
        (outcome,) = self.store.apply([change], 5_000)
        return outcome if isinstance(outcome, Applied) else None

    def step(self, what, which):
        """Do one thing."""
        if what == "put":
            self.made += 1
            made = self.change(Put(which, spec(types=[str(self.made)]), f"{which}{self.made}"))
            uid, revision = made.subscription.uid, made.subscription.revision
            kind = "started" if revision == 1 else "updated"
            self.expected.append(f"{uid}/{revision}/{kind}")
            self.seq = made.seq
        elif what == "delete":
            gone = self.change(Delete(which))
            if gone is not None:
                made = gone.subscription
                self.expected.append(f"{made.uid}/{made.revision}/ended")
                self.seq = gone.seq
        elif what == "appended":
            self.store.mark_appended(self.seq)
        elif what == "crash":
            self.close()
            self.open()
        else:
            self.fault = which
            asyncio.run(self.publisher.turn())


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_no_change_is_lost_and_each_keeps_its_place(steps):
    """Repeated events have the same ids; the first of each are in the order of its changes.

    The events of one subscription are in one partition; between partitions there is no order.
    """
    with TemporaryDirectory() as folder:
        world = World(folder)
        try:
            for step in steps:
                world.step(*step)
            told = {event.attributes["id"] for event in world.logged}
            assert told <= set(world.expected)
            world.step("crash", None)
            world.step("appended", None)
            world.step("turn", "")
        finally:
            world.close()
        first = list(dict.fromkeys(event.attributes["id"] for event in world.logged))
        assert sorted(first) == sorted(world.expected)

        def uid_of(event_id):
            return event_id.partition("/")[0]

        assert sorted(first, key=uid_of) == sorted(world.expected, key=uid_of)
