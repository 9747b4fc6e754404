"""A keeper of consents with targets, a store and a clock of the test's.

Callers: unit tests of ``subscriptions.consent``. Hides: how a keeper is made, and its turns.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa

from distributary.core.deliver import Endpoint
from distributary.core.errors import TransportError
from distributary.core.meter import Meter
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.net import AddressRule, Connector, SystemResolver
from distributary.resource import ConsentMode, ConsentRule, Reach, target_key
from distributary.subscriptions.consent import Agreements, ConsentKeeper, OptionsReply, Question
from distributary.subscriptions.resource import ApiSubscriptionSpec
from distributary.subscriptions.store import Directory
from distributary.subscriptions.store.consent_rows import ConsentRow, ConsentRows
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Delete, Put
from distributary.testing.virtual import SeededRandom, VirtualClock

START_MS: Final = 1_900_000_000_000
ORIGIN: Final = "events.example.com"
SINK: Final = "https://sink.example/hook?code=canary"
YES: Final = OptionsReply(
    200, [(b"webhook-allowed-origin", b"*"), (b"webhook-allowed-rate", b"120")]
)
SILENT: Final = OptionsReply(200, [])
NO: Final = OptionsReply(200, [(b"webhook-allowed-origin", b"other.example.com")])
DOWN: Final = TransportError("refused", "nobody there")


class Targets:
    """Foreign targets that answer as they are told."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.looked: list[str] = []
        self.answer: Callable[[Question], OptionsReply | Exception] = lambda _question: YES
        self.private: set[str] = set()
        self.gate: asyncio.Event | None = None

    async def is_private(self, where: Endpoint) -> bool:
        """By name."""
        self.looked.append(where.host)
        return where.host in self.private

    async def ask(self, question: Question) -> OptionsReply:
        """One question."""
        self.asked.append(question)
        if self.gate is not None:
            await self.gate.wait()
        found = self.answer(question)
        if isinstance(found, Exception):
            raise found
        return found


class World:
    """A keeper over a store, with targets and a clock of the test's.

    Args:
        store: An empty one.
        url: Of the store.
        spec: Makes the spec of a subscription.
        runner: Runs the keeper.
    """

    def __init__(
        self,
        store: Store,
        url: sa.URL,
        spec: Callable[..., ApiSubscriptionSpec],
        runner: asyncio.Runner,
    ) -> None:
        self.store, self._url, self._spec, self._runner = store, url, spec, runner
        self.clock = VirtualClock(START_MS)
        self.targets = Targets()
        self.failing: dict[str, str] = {}
        self.meter = Meter()
        self.agreements = Agreements()
        self.rows = ConsentRows(url)
        self._directories: list[Directory] = []
        self.keeper = self.make()

    def make(
        self,
        mode: ConsentMode = "always",
        origin: str = ORIGIN,
        base: str | None = "https://events.example.com",
    ) -> ConsentKeeper:
        """A keeper, as after a start of the server; the one before is no longer used."""
        self._directories.append(Directory(self._url))
        self.keeper = ConsentKeeper(
            self.rows,
            self._directories[-1],
            self.targets,
            Connector(AddressRule(), SystemResolver()).endpoint_of,
            Reach(consent=ConsentRule(mode, origin, base, 2)),
            agreements=self.agreements,
            failing=lambda: self.failing,
            clock=self.clock,
            random=SeededRandom(1),
            count=self.meter.add,
        )
        return self.keeper

    def put(
        self, name: str = "a", sink: str = SINK, uid: str | None = None, **members: Any
    ) -> None:
        """A subscription."""
        self.put_all([(name, sink)], uid=uid, **members)

    def put_all(
        self,
        named: list[tuple[str, str]],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        uid: str | None = None,
        **members: Any,
    ) -> None:
        """Subscriptions, by name and sink."""
        puts = [
            Put(name, self._spec(sink=sink, **members), uid or f"uid-{name}", namespace=namespace)
            for name, sink in named
        ]
        for outcome in self.store.apply(puts, 5):
            assert not isinstance(outcome, Exception), outcome

    def delete(self, name: str = "a") -> None:
        """Delete it."""
        self.store.apply([Delete(name)], 6)

    def row(self, sink: str = SINK) -> ConsentRow:
        """What is stored of a target."""
        return self.rows.find([target_key("default", sink, None)])[
            target_key("default", sink, None)
        ]

    def knows(self, sink: str = SINK) -> bool:
        """Whether anything is stored of a target."""
        return bool(self.rows.find([target_key("default", sink, None)]))

    def look(self) -> None:
        """One turn of the loop, and what it begins; then the turn that sees it."""
        self._runner.run(self._look())

    async def _look(self) -> None:
        for _ in range(2):
            await self.keeper.look()
            await self.keeper.settle()

    def pass_ms(self, wait_ms: float, step_ms: float | None = None) -> None:
        """Let time go by, with a look every step."""
        until_s = self.clock.monotonic_s() + wait_ms / 1000
        while self.clock.monotonic_s() < until_s:
            step_s = (step_ms or wait_ms) / 1000
            self.clock.move_to(min(self.clock.monotonic_s() + step_s, until_s))
            self.look()

    @property
    def asked(self) -> int:
        """How many questions there were."""
        return len(self.targets.asked)

    def close(self) -> None:
        """Close all of it."""
        for directory in self._directories:
            directory.close()
        self.rows.close()
