"""The refresher, in virtual time: when tokens are renewed, and what stands between."""

import asyncio
import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator

import pytest
import structlog

from distributary.core.deliver.credential import Credential
from distributary.core.errors import StoreError, TransportError
from distributary.core.meter import Meter
from distributary.subscriptions.refresh import Refresher, TokenReply
from distributary.subscriptions.refresh._refresher import (
    BACKOFF_S_MAX,
    JUDGE_S_MAX,
    MARGIN_S_MAX,
    REFRESH_S_MIN,
    REFRESHES_MAX,
    REFRESHES_PER_HOST_MAX,
)
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.credentials_rows import CredentialRows
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Delete, Put
from distributary.testing.virtual import SeededRandom, VirtualClock

HOUR_S = 3600
START_MS = 1_900_000_000_000
"""After the year 2030, so that expiries are easily written before it and after it."""


class Endpoint:
    """A token endpoint that answers as it is told; every answer has a token of its own."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answer: Callable[[], TokenReply] = self.token
        self.gate: asyncio.Event | None = None
        self.under_way = 0
        self.under_way_max = 0

    def token(self, lifetime_s: object = HOUR_S, **members: object) -> TokenReply:
        """A good answer."""
        body = {"access_token": f"new-{len(self.asked)}", "expires_in": lifetime_s, **members}
        return TokenReply(200, json.dumps(body).encode())

    async def trade(self, uri: str, refresh_token: str) -> TokenReply:
        """One request."""
        self.asked.append((uri, refresh_token))
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        try:
            if self.gate is not None:
                await self.gate.wait()
            return self.answer()
        finally:
            self.under_way -= 1

    async def reached(self, count: int) -> None:
        """So many requests are under way."""
        while self.under_way < count:  # noqa: ASYNC110 - threads bring them, one by one
            await asyncio.sleep(0.01)


class World:
    """A refresher over a store, with a clock and an endpoint of the test's."""

    def __init__(self, store: Store, rows: CredentialRows, spec: Callable, proposal: dict) -> None:
        self.store = store
        self.rows = rows
        self.clock = VirtualClock(START_MS)
        self.endpoint = Endpoint()
        self.meter = Meter()
        self.refresher = Refresher(
            rows, self.endpoint, self.clock, SeededRandom(1), count=self.meter.add
        )
        self._spec = spec
        self._proposal = proposal

    def put(self, name: str = "a", lifetime_s: int = HOUR_S, **members: object) -> None:
        """A subscription whose access token lives so long from now."""
        credential = self._proposal | members
        spec = self._spec(sinkCredential=credential)
        # The time is easier to set than to write.
        expires_ms = self.clock.wall_ms() + lifetime_s * 1000
        token = dataclasses.replace(spec.credential, access_token_expires_ms=expires_ms)
        spec = dataclasses.replace(spec, credential=token)
        (outcome,) = self.store.apply([Put(name, spec, f"uid-{name}")], 5)
        assert not isinstance(outcome, Exception), outcome

    def credential(self, name: str = "a") -> Credential:
        """What the store holds."""
        held = self.rows.find(f"uid-{name}")
        assert held is not None
        return self.rows.open(held)

    async def look(self) -> None:
        """One turn of the loop, and the end of what it began; then the turn that sees it."""
        await self.refresher.look()
        await self.refresher.settle()
        await self.refresher.look()

    async def pass_time(self, seconds: float, step_s: float = 1.0) -> None:
        """Let time go by, a look every step."""
        until_s = self.clock.monotonic_s() + seconds
        while self.clock.monotonic_s() < until_s:
            self.clock.move_to(min(self.clock.monotonic_s() + step_s, until_s))
            await self.look()

    def count(self, result: str) -> float:
        """Refreshes with this result."""
        return self.meter.counters[f'credential_refreshes_total{{result="{result}"}}']


@pytest.fixture
def world(store, url, spec, tmp_path) -> Iterator[World]:
    """A refresher over the empty store."""
    rows = CredentialRows(url, Sealer(Keys(tmp_path / "credentials.key")))
    proposal = {
        "credentialType": "REFRESHTOKEN",
        "accessToken": "old",
        "accessTokenType": "Bearer",
        "accessTokenExpiresUtc": "2030-01-01T00:00:00Z",
        "refreshToken": "r-1",
        "refreshTokenEndpoint": "https://example.com/token",
    }
    yield World(store, rows, spec, proposal)
    rows.close()


def test_a_token_is_renewed_within_its_margin(world, runner):
    """Not before, and not when it has expired."""

    async def scenario() -> None:
        world.put()
        await world.look()
        await world.pass_time(HOUR_S - 1.2 * MARGIN_S_MAX - 60, step_s=30)
        assert world.endpoint.asked == []
        await world.pass_time(0.2 * MARGIN_S_MAX + 90, step_s=10)
        assert world.endpoint.asked == [("https://example.com/token", "r-1")]

    runner.run(scenario())
    credential = world.credential()
    assert credential.access_token == "new-1"
    assert credential.refresh_token == "r-1"
    assert credential.access_token_type == "Bearer"
    assert credential.access_token_expires_ms > world.clock.wall_ms() + (HOUR_S - 60) * 1000
    assert world.count("refreshed") == 1


def test_a_short_token_is_renewed_in_its_last_tenth(world, runner):
    """A margin of five minutes would leave nothing of it."""

    async def scenario() -> None:
        world.put(lifetime_s=100)
        await world.look()
        await world.pass_time(85)
        assert world.endpoint.asked == []
        await world.pass_time(10)
        assert len(world.endpoint.asked) == 1

    runner.run(scenario())


def test_an_expired_token_is_renewed_at_once(world, runner):
    """Also when the server comes back after a night."""

    async def scenario() -> None:
        world.put(lifetime_s=-5)
        await world.look()

    runner.run(scenario())
    assert world.credential().access_token == "new-1"


def test_a_rotated_refresh_token_is_used_from_then_on(world, runner):
    """The old one is worth nothing any more."""
    world.endpoint.answer = lambda: world.endpoint.token(
        100, refresh_token=f"r-{len(world.endpoint.asked) + 1}"
    )

    async def scenario() -> None:
        world.put(lifetime_s=0)
        await world.look()
        await world.pass_time(300)

    runner.run(scenario())
    asked = [token for _, token in world.endpoint.asked]
    assert asked == [f"r-{n}" for n in range(1, len(asked) + 1)]
    assert len(asked) in (4, 5)


def test_a_token_that_lives_a_moment_is_not_renewed_all_the_time(world, runner):
    """A hostile endpoint costs one durable write in a while."""
    world.endpoint.answer = lambda: world.endpoint.token(1)

    async def scenario() -> None:
        world.put(lifetime_s=0)
        await world.look()
        await world.pass_time(60, step_s=0.5)

    runner.run(scenario())
    assert len(world.endpoint.asked) <= 60 / REFRESH_S_MIN + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda: TokenReply(500, b"canary"), id="status"),
        pytest.param(lambda: TokenReply(200, b"canary"), id="no JSON"),
        pytest.param(lambda: TokenReply(302, b""), id="redirect"),
    ],
)
def test_failures_are_spaced_out_and_the_last_token_stays(world, runner, answer):
    """Each wait about doubles, up to five minutes; a token that was good is still used."""
    world.endpoint.answer = answer

    async def scenario() -> None:
        world.put(lifetime_s=0)
        with structlog.testing.capture_logs() as lines:
            await world.look()
            await world.pass_time(100, step_s=1)
            await world.pass_time(HOUR_S, step_s=10)
        waits = [line["wait_s"] for line in lines if line["event"] == "credential-not-refreshed"]
        assert waits[0] < 1.3
        assert all(later > earlier * 1.5 for earlier, later in itertools.pairwise(waits[:8]))
        assert all(BACKOFF_S_MAX <= wait <= BACKOFF_S_MAX * 1.2 for wait in waits[10:])
        assert "canary" not in str(lines)

    runner.run(scenario())
    assert world.credential().access_token == "old"
    assert world.count("refreshed") == 0
    assert 15 <= world.count("failed") <= 22


def test_an_endpoint_that_comes_back_is_noticed(world, runner):
    """And failures before are forgotten."""

    def refuse() -> TokenReply:
        raise TransportError("refused", "nobody listens")

    world.endpoint.answer = refuse

    async def scenario() -> None:
        world.put(lifetime_s=0)
        await world.look()
        await world.pass_time(20)
        world.endpoint.answer = world.endpoint.token
        await world.pass_time(40)

    runner.run(scenario())
    assert world.credential().access_token.startswith("new-")
    assert world.count("refreshed") == 1


def test_a_refresh_token_that_is_no_good_is_told_with_the_subscription(world, runner):
    """Somebody has to send another one; asking on all the time is of no use."""
    world.endpoint.answer = lambda: TokenReply(400, b'{"error": "invalid_grant"}')

    async def scenario() -> None:
        world.put("orders", lifetime_s=0)
        with structlog.testing.capture_logs() as lines:
            await world.look()
            await world.pass_time(BACKOFF_S_MAX - 10)
        (line,) = [line for line in lines if line["log_level"] == "warning"]
        assert line["id"] == "orders"
        assert "invalid_grant" in line["reason"]
        assert "new refresh token" in line["reason"]
        assert "r-1" not in str(lines)
        world.put("orders", lifetime_s=0, refreshToken="r-2")
        world.endpoint.answer = world.endpoint.token
        await world.look()

    runner.run(scenario())
    assert world.endpoint.asked[-1][1] == "r-2"
    assert world.credential("orders").access_token.startswith("new-")


def test_one_refresh_of_a_credential_is_under_way_at_a_time(world, runner):
    """However often it is looked at, and whatever changes meanwhile."""

    async def scenario() -> None:
        world.endpoint.gate = asyncio.Event()
        world.put(lifetime_s=0)
        for _ in range(5):
            await world.refresher.look()
            await asyncio.sleep(0.02)
            world.clock.move_to(world.clock.monotonic_s() + JUDGE_S_MAX + 1)
        assert len(world.endpoint.asked) == 1
        world.endpoint.gate.set()
        await world.look()

    runner.run(scenario())
    assert world.endpoint.under_way_max == 1


@pytest.mark.slow
def test_one_host_does_not_take_the_places_of_the_others(world, runner):
    """Nor do all together take more than there are."""

    async def scenario() -> None:
        world.endpoint.gate = asyncio.Event()
        for number in range(REFRESHES_PER_HOST_MAX + 3):
            world.put(f"slow-{number}", lifetime_s=0)
        others = [f"https://h{number}.example.com/" for number in range(REFRESHES_MAX + 3)]
        for number, endpoint in enumerate(others):
            world.put(f"other-{number}", lifetime_s=0, refreshTokenEndpoint=endpoint)
            if number == REFRESHES_MAX - REFRESHES_PER_HOST_MAX - 1:
                await world.refresher.look()
                await world.endpoint.reached(REFRESHES_MAX)
        await world.refresher.look()
        slow = [uri for uri, _ in world.endpoint.asked if uri == "https://example.com/token"]
        assert len(slow) == REFRESHES_PER_HOST_MAX
        world.endpoint.gate.set()
        for _ in range(5):
            await world.look()

    runner.run(scenario())
    assert world.endpoint.under_way_max == REFRESHES_MAX
    assert world.count("refreshed") == REFRESHES_MAX + REFRESHES_PER_HOST_MAX + 6


def test_the_answer_to_a_credential_that_was_replaced_is_dropped(world, runner):
    """Its token belongs to nobody; the new credential is looked after by itself."""

    async def scenario() -> None:
        world.endpoint.gate = asyncio.Event()
        world.put(lifetime_s=0)
        await world.refresher.look()
        await world.endpoint.reached(1)
        world.put(lifetime_s=HOUR_S, refreshToken="r-2", accessToken="mine")
        world.endpoint.gate.set()
        await world.look()

    runner.run(scenario())
    assert world.credential().access_token == "mine"
    assert world.count("superseded") == 1
    assert len(world.endpoint.asked) == 1


@pytest.mark.parametrize("under_way", [True, False])
def test_a_deleted_subscription_is_forgotten(world, runner, under_way):
    """Nobody is asked for it any more."""

    async def scenario() -> None:
        world.endpoint.gate = asyncio.Event()
        world.put(lifetime_s=0 if under_way else HOUR_S)
        await world.refresher.look()
        if under_way:
            await world.endpoint.reached(1)
        world.store.apply([Delete("a")], 5)
        world.endpoint.gate.set()
        await world.look()
        await world.pass_time(2 * HOUR_S, step_s=60)

    runner.run(scenario())
    assert len(world.endpoint.asked) == under_way
    assert world.rows.find("uid-a") is None


def test_other_kinds_of_credentials_are_left_alone(world, runner, spec):
    """There is nothing to trade."""
    plain = {"credentialType": "PLAIN", "identifier": "me", "secret": "x"}
    world.store.apply([Put("p", spec(sinkCredential=plain), "uid-p")], 5)
    world.put(lifetime_s=0)
    world.put(lifetime_s=0, refreshTokenEndpoint="https://example.com/2")
    runner.run(world.look())
    assert [uri for uri, _ in world.endpoint.asked] == ["https://example.com/2"]


@pytest.mark.parametrize("jump_h", [-24 * 3650, -1, 1, 24], ids=lambda h: f"{h} h")
def test_clocks_that_jump_let_no_token_expire_unseen(world, runner, jump_h):
    """Set back: the monotonic clock knows better. Set forward: it counts as expired, at once."""

    async def scenario() -> None:
        world.put()
        await world.look()
        world.clock.jump(jump_h * HOUR_S * 1000)
        await world.pass_time(JUDGE_S_MAX + 1)
        assert len(world.endpoint.asked) == (1 if jump_h > 0 else 0)
        await world.pass_time(HOUR_S, step_s=10)

    runner.run(scenario())
    assert 1 <= len(world.endpoint.asked) <= 2


class FailingRows:
    """Rows whose store cannot be written until it is mended."""

    def __init__(self, rows: CredentialRows) -> None:
        self._rows = rows
        self.broken = True

    def __getattr__(self, name: str) -> object:
        return getattr(self._rows, name)

    def renew(self, uid: str, used: Credential, renewed: Credential) -> bool:
        """As the rows do, or not."""
        if self.broken:
            raise StoreError("the disk is full")
        return self._rows.renew(uid, used, renewed)


def test_a_token_that_could_not_be_stored_is_not_lost(world, runner):
    """Its refresh token may be the only good one: it is stored before another is asked for."""
    rows = FailingRows(world.rows)
    world.endpoint.answer = lambda: world.endpoint.token(refresh_token="r-2")
    world.refresher = Refresher(
        rows, world.endpoint, world.clock, SeededRandom(1), count=world.meter.add
    )

    async def scenario() -> None:
        world.put(lifetime_s=0)
        await world.look()
        await world.pass_time(10)
        assert world.credential().refresh_token == "r-1"
        rows.broken = False
        await world.pass_time(20)

    runner.run(scenario())
    assert len(world.endpoint.asked) == 1
    assert world.credential().refresh_token == "r-2"


@pytest.mark.parametrize("replaced", ["before", "under way"])
def test_a_replace_that_keeps_the_secrets_gets_what_could_not_be_stored(world, runner, replaced):
    """The refresh token that it has kept may be worth nothing by now."""
    rows = FailingRows(world.rows)
    world.endpoint.answer = lambda: world.endpoint.token(refresh_token="r-2")
    world.refresher = Refresher(
        rows, world.endpoint, world.clock, SeededRandom(1), count=world.meter.add
    )

    async def scenario() -> None:
        world.put(lifetime_s=0)
        if replaced == "under way":
            world.endpoint.gate = asyncio.Event()
            await world.refresher.look()
            await world.endpoint.reached(1)
            world.put(lifetime_s=HOUR_S)
            await world.refresher.look()
            world.endpoint.gate.set()
            await world.look()
        else:
            await world.look()
            world.put(lifetime_s=HOUR_S)
        await world.pass_time(10)
        assert world.credential().refresh_token == "r-1"
        rows.broken = False
        await world.pass_time(20)

    runner.run(scenario())
    assert len(world.endpoint.asked) == 1
    assert world.credential().refresh_token == "r-2"


def test_a_replace_with_another_refresh_token_goes_before_what_could_not_be_stored(world, runner):
    """What the old one gave is dropped, and the new one is looked after."""
    rows = FailingRows(world.rows)
    world.refresher = Refresher(
        rows, world.endpoint, world.clock, SeededRandom(1), count=world.meter.add
    )

    async def scenario() -> None:
        world.put(lifetime_s=0)
        await world.look()
        world.put(lifetime_s=HOUR_S, refreshToken="r-9", accessToken="mine")
        await world.pass_time(5)
        rows.broken = False
        await world.pass_time(60)
        assert world.credential().access_token == "mine"
        await world.pass_time(HOUR_S, step_s=60)

    runner.run(scenario())
    assert world.count("superseded") == 1
    assert [token for _, token in world.endpoint.asked] == ["r-1", "r-9"]


def test_a_stop_stores_what_was_handed_out(world, runner):
    """The loop ends after what is under way, which it gives a moment."""

    async def scenario() -> None:
        world.endpoint.gate = asyncio.Event()
        world.put(lifetime_s=0)
        task = asyncio.create_task(world.refresher.run())
        await world.endpoint.reached(1)
        task.cancel()
        await asyncio.sleep(0.01)
        world.endpoint.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    runner.run(scenario())
    assert world.credential().access_token == "new-1"


def test_a_bug_in_one_refresh_is_told_and_stays_alone(world, runner):
    """Its message is not repeated: nobody knows what it holds."""

    def explode() -> TokenReply:
        raise LookupError("canary")

    world.endpoint.answer = explode

    async def scenario() -> None:
        world.put(lifetime_s=0)
        with structlog.testing.capture_logs() as lines:
            await world.look()
        assert "LookupError" in str(lines)
        assert "canary" not in str(lines)

    runner.run(scenario())
    assert world.count("failed") == 1


def test_a_credential_that_cannot_be_opened_is_told_and_left(url, world, runner, tmp_path):
    """Others are looked after all the same."""
    world.put(lifetime_s=0)
    other = Store(url, sealer=Sealer(Keys(tmp_path / "none", "A" * 43 + "=")))
    other.close()

    async def scenario() -> None:
        rows = CredentialRows(url, Sealer(Keys(tmp_path / "none", "A" * 43 + "=")))
        refresher = Refresher(
            rows, world.endpoint, world.clock, SeededRandom(1), count=world.meter.add
        )
        with structlog.testing.capture_logs() as lines:
            await refresher.look()
        assert [line["event"] for line in lines] == ["credential-not-opened"]
        assert "another key" in lines[0]["reason"]
        rows.close()

    runner.run(scenario())
    assert world.endpoint.asked == []


class CountingRows:
    """Counts the readings of changes; they fail while the store is away."""

    def __init__(self, rows: CredentialRows) -> None:
        self._rows = rows
        self.readings = 0
        self.away = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._rows, name)

    def changed(self, after_seq: int) -> object:
        """As the rows do, or not."""
        self.readings += 1
        if self.away:
            raise StoreError("the store is away")
        return self._rows.changed(after_seq)


def test_the_store_is_read_only_where_it_may_have_changed(world, runner):
    """An idle server has a thread less to wake; a reading that failed is made again."""
    rows, news = CountingRows(world.rows), [False]
    world.refresher = Refresher(
        rows,
        world.endpoint,
        world.clock,
        SeededRandom(1),
        count=world.meter.add,
        may_have_news=lambda: news[0],
    )

    async def scenario() -> None:
        world.put(lifetime_s=HOUR_S)
        await world.pass_time(5)
        assert rows.readings == 1
        rows.away = news[0] = True
        await world.refresher.look()
        news[0] = False
        await world.refresher.look()
        assert rows.readings == 3
        rows.away = False
        await world.pass_time(2 * HOUR_S, 60.0)
        assert rows.readings == 4

    runner.run(scenario())
    assert len(world.endpoint.asked) >= 1
