"""Refreshes of several namespaces: none waits for all of another one's."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator

import pytest
import structlog

from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.meter import Meter
from distributary.subscriptions.refresh import Refresher, TokenReply, _refresher
from distributary.subscriptions.refresh._refresher import REFRESHES_MAX, REFRESHES_PER_HOST_MAX
from distributary.subscriptions.store.credentials_rows import Held
from distributary.testing.virtual import SeededRandom, VirtualClock

HOUR_MS = 3_600_000
START_MS = 1_900_000_000_000


class Rows:
    """Credentials in memory, as the refresher reads them."""

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.credentials: dict[str, Credential] = {}
        self.seqs: dict[str, int] = {}

    def put(self, uid: str, namespace: str, endpoint: str, expires_ms: int) -> None:
        """A credential that expires then."""
        credential = Credential(
            "REFRESHTOKEN",
            access_token="old",
            access_token_type="Bearer",
            access_token_expires_ms=expires_ms,
            refresh_token="r",
            refresh_token_endpoint=endpoint,
        )
        self._write(uid, namespace, credential)

    def _write(self, uid: str, namespace: str, credential: Credential) -> None:
        seq = max(self.seqs.values(), default=0) + 1
        self.held[uid] = Held(uid, uid, 1, str(seq).encode(), namespace)
        self.credentials[uid], self.seqs[uid] = credential, seq

    def changed(self, after_seq: int) -> tuple[int, list[Held]]:
        """As in the store."""
        changed = [held for uid, held in self.held.items() if self.seqs[uid] > after_seq]
        return max(self.seqs.values(), default=0), changed

    def find(self, uid: str) -> Held | None:
        """As in the store."""
        return self.held.get(uid)

    def open(self, held: Held) -> Credential:
        """As in the store."""
        return self.credentials[held.uid]

    def renew(self, uid: str, _used: Credential, renewed: Credential) -> bool:
        """As in the store."""
        self._write(uid, self.held[uid].namespace, renewed)
        return True


class Endpoints:
    """Those at evil hosts answer when the test says so, and refuse; all others answer at once."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.silent: dict[str, list[asyncio.Future[None]]] = defaultdict(list)

    async def trade(self, uri: str, _refresh_token: str) -> TokenReply:
        """One request."""
        self.asked.append(uri)
        if "evil" in uri:
            answer = asyncio.get_running_loop().create_future()
            self.silent[uri].append(answer)
            await answer
            raise TransportError("timeout", "no answer")
        return TokenReply(200, b'{"access_token": "new", "expires_in": 3600}')

    def give_up(self, count: int) -> None:
        """So many requests at evil hosts end."""
        waiting = [answer for some in self.silent.values() for answer in some if not answer.done()]
        for answer in waiting[:count]:
            answer.set_result(None)


class World:
    """A refresher over credentials in memory."""

    def __init__(self) -> None:
        self.rows, self.endpoints = Rows(), Endpoints()
        self.clock = VirtualClock(START_MS)
        self.refresher = Refresher(
            self.rows, self.endpoints, self.clock, SeededRandom(1), count=Meter().add
        )

    async def look(self) -> None:
        """One turn of the loop, and what its threads bring."""
        await self.refresher.look()
        for _ in range(50):
            await asyncio.sleep(0.002)

    def is_old(self, uid: str) -> bool:
        """Whether a credential has its first token."""
        return self.rows.credentials[uid].access_token == "old"

    async def run_until_renewed(self) -> None:
        """Run the loop until the token of a credential is new, or the loop has ended."""
        self.rows.put("good", "good", "https://good.example/", START_MS)
        running = asyncio.create_task(self.refresher.run())
        while not running.done() and self.is_old("good"):  # noqa: ASYNC110 - threads bring it
            await asyncio.sleep(0.002)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    async def end(self) -> None:
        """Nothing runs any more."""
        while self.refresher._busy:
            self.endpoints.give_up(1_000_000)
            await asyncio.sleep(0.01)


@pytest.fixture
def world() -> Iterator[World]:
    """A refresher over no credential."""
    return World()


def test_many_tokens_that_fail_hold_up_no_other_namespace(world, runner):
    """A thousand at silent endpoints take all places; the next one that ends is for the other."""

    async def scenario() -> None:
        for number in range(1_000):
            endpoint = f"https://evil-{number}.example/"
            world.rows.put(f"evil-{number}", "evil", endpoint, START_MS)
        await world.look()
        assert len(world.endpoints.asked) == REFRESHES_MAX
        world.rows.put("good", "good", "https://good.example/", START_MS)
        await world.look()
        assert "https://good.example/" not in world.endpoints.asked
        world.endpoints.give_up(1)
        await asyncio.sleep(0.05)
        await world.look()
        assert "https://good.example/" in world.endpoints.asked[-2:]
        await world.end()

    runner.run(scenario())
    assert world.rows.credentials["good"].access_token == "new"


def test_ports_of_one_host_are_one_host(world, runner):
    """In any spelling: who names a thousand ports gets no more places there."""

    async def scenario() -> None:
        for number in range(20):
            spelt = ("evil.example", "EVIL.example", "evil.example.")[number % 3]
            world.rows.put(f"evil-{number}", "evil", f"https://{spelt}:{1_000 + number}/", START_MS)
        await world.look()
        assert len(world.endpoints.asked) == REFRESHES_PER_HOST_MAX
        await world.end()

    runner.run(scenario())


def test_the_longest_overdue_token_of_a_host_is_first(world, runner):
    """Whichever credential was written first."""

    async def scenario() -> None:
        for number in range(2 * REFRESHES_PER_HOST_MAX):
            expires_ms = world.clock.wall_ms() - number * HOUR_MS
            world.rows.put(f"evil-{number}", "evil", f"https://evil.example/{number}", expires_ms)
        await world.look()
        first = {uri.rpartition("/")[2] for uri in world.endpoints.asked}
        assert first == {str(REFRESHES_PER_HOST_MAX + number) for number in range(4)}
        await world.end()

    world.clock.move_to(100 * HOUR_MS / 1000)
    runner.run(scenario())


def test_tokens_are_renewed_although_a_look_met_a_bug(world, runner, monkeypatch):
    """Nothing starts the loop again: it tells of the bug, and reads the same changes again."""
    monkeypatch.setattr(_refresher, "LOOK_S", 0.001)
    faults = [LookupError("a bug")]
    read = world.rows.changed

    def changed(after_seq: int) -> tuple[int, list[Held]]:
        if faults:
            raise faults.pop()
        return read(after_seq)

    monkeypatch.setattr(world.rows, "changed", changed)
    monkeypatch.setattr(world.rows, "reseal", lambda _after: (0, None), raising=False)

    with structlog.testing.capture_logs() as lines:
        runner.run(world.run_until_renewed())
    told = [(line["event"], line["loop"]) for line in lines if "loop" in line]
    assert told == [("turn-failed", "access-tokens")]
    assert world.rows.credentials["good"].access_token == "new"


def test_tokens_are_renewed_although_a_bug_kept_them_under_an_old_key(world, runner, monkeypatch):
    """The old key still works; the next start tries again."""

    def reseal(_after: str) -> tuple[int, str | None]:
        raise LookupError("a bug")

    monkeypatch.setattr(world.rows, "reseal", reseal, raising=False)

    with structlog.testing.capture_logs() as lines:
        runner.run(world.run_until_renewed())
    assert lines[0]["event"] == "credentials-not-resealed"
    assert world.rows.credentials["good"].access_token == "new"
