"""Keys of issuers in virtual time: when they are fetched, kept, published and given up."""

import asyncio
import json

import pytest
import structlog

from distributary.access.issuers import ASKED_S_MIN, Issuer, IssuerRecord
from distributary.core.errors import StoreError, TransportError
from distributary.core.meter import Meter
from distributary.server.issuers import IssuerSettings, KeyKeeper, _keeper
from distributary.server.issuers._keeper import BACKOFF_S_MAX, KEPT_S_MAX
from distributary.testing.virtual import SeededRandom, VirtualClock
from kit.minted import AUDIENCE, URL, signing_key

KEYS_URL = "https://keys.example.com/jwks"
ONE, TWO = signing_key("ES256", "one"), signing_key("ES256", "two")


class Site:
    """An issuer's documents, as they stand at present."""

    def __init__(self) -> None:
        self.keys = [ONE.jwk()]
        self.body: bytes | None = None
        self.discovery: object = {"issuer": URL, "jwks_uri": KEYS_URL}
        self.down = False
        self.asked: list[str] = []

    async def get(self, uri: str) -> bytes:
        """One GET."""
        self.asked.append(uri)
        if self.down:
            raise TransportError("refused", "No connection")
        if uri.endswith("openid-configuration"):
            return json.dumps(self.discovery).encode()
        return json.dumps({"keys": self.keys}).encode() if self.body is None else self.body

    @property
    def fetches(self) -> int:
        """Of the keys."""
        return self.asked.count(KEYS_URL)


class World:
    """A keeper of one issuer."""

    def __init__(self, **changed: object) -> None:
        self.clock = VirtualClock()
        self.site = Site()
        self.published: list[tuple[IssuerRecord, ...]] = []
        self.wanted: list[str] = []
        self.meter = Meter()
        self.broken = False
        usual = {"name": "shop", "url": URL, "audiences": (AUDIENCE,), "jwks_uri": KEYS_URL}
        self.settings = IssuerSettings(Issuer(**{**usual, **changed}))
        self.keeper = KeyKeeper(
            self.clock,
            SeededRandom(1),
            self.publish,
            asked=self.take_wanted,
            count=self.meter.add,
        )

    def publish(self, records: tuple[IssuerRecord, ...]) -> None:
        """What receivers get."""
        if self.broken:
            raise StoreError("the disk is full")
        self.published.append(records)

    def take_wanted(self) -> list[str]:
        """What receivers ask for."""
        wanted, self.wanted = self.wanted, []
        return wanted

    def configure(self, known: tuple[IssuerRecord, ...] = ()) -> None:
        """The start, or a reload."""
        self.keeper.configure([(self.settings, self.site)], known)

    async def look(self) -> None:
        """One turn of the loop, the end of what it began, and the turn that sees it."""
        await self.keeper.look()
        await self.keeper.settle()
        await self.keeper.look()

    async def pass_time(self, seconds: float, step_s: float = 1.0) -> None:
        """Let time go by, a look every step."""
        until_s = self.clock.monotonic_s() + seconds
        while self.clock.monotonic_s() < until_s:
            self.clock.move_to(min(self.clock.monotonic_s() + step_s, until_s))
            await self.look()

    @property
    def known(self) -> list[str]:
        """Ids of the keys that were published last."""
        return [key["kid"] for key in self.published[-1][0].keys]


@pytest.fixture
def lines():
    """Log lines as dictionaries."""
    with structlog.testing.capture_logs() as found:
        yield found


def test_says_which_keys_count_and_which_are_left_out(lines):
    """One with an exponent as long as its modulus costs each token milliseconds."""

    async def scenario() -> None:
        world = World()
        slow = signing_key("RS256", "slow").jwk()
        world.site.keys.append({**slow, "e": slow["n"][:-2]})
        world.configure()
        await world.look()
        assert world.known == ["one"]
        changed = next(line for line in lines if line["event"] == "issuer-keys-changed")
        assert (changed["keys"], changed["left_out"]) == (["one"], ["slow"])

    asyncio.run(scenario())


def test_fetches_at_the_start_and_every_ten_minutes():
    """A little less, by jitter; what has not changed is not published again."""

    async def scenario() -> None:
        world = World()
        world.configure()
        await world.look()
        assert world.known == ["one"]
        count = len(world.published)
        await world.pass_time(539, 10)
        assert world.site.fetches == 1
        await world.pass_time(62, 1)
        assert world.site.fetches == 2
        assert len(world.published) == count

    asyncio.run(scenario())


def test_finds_the_keys_by_discovery():
    """At the issuer's well-known address, without the issuer's terminating slash."""

    async def scenario() -> None:
        world = World(url=URL + "/", jwks_uri=None)
        world.site.discovery = {"issuer": URL + "/", "jwks_uri": KEYS_URL}
        world.configure()
        await world.look()
        assert world.site.asked == [URL + "/.well-known/openid-configuration", KEYS_URL]
        assert world.known == ["one"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "found",
    [
        {"issuer": "https://evil.example", "jwks_uri": KEYS_URL},
        {"jwks_uri": KEYS_URL},
        {"issuer": URL},
        {"issuer": URL, "jwks_uri": 5},
        {"issuer": URL, "jwks_uri": "http://keys.example.com/jwks"},
        {"issuer": URL, "jwks_uri": "file:///etc/passwd"},
        {"issuer": URL, "jwks_uri": "https://user:secret@keys.example.com/"},
        [],
    ],
    ids=str,
)
def test_a_discovery_document_that_is_wrong_brings_no_keys(found, lines):
    """Of another issuer, without an address, or with one that must not be dialled."""

    async def scenario() -> None:
        world = World(jwks_uri=None)
        world.site.discovery = found
        world.configure()
        await world.look()
        assert world.site.fetches == 0
        assert world.known == []
        assert lines[-1]["event"] == "issuer-keys-not-fetched"

    asyncio.run(scenario())


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"keys":5}'])
def test_what_is_no_key_set_changes_nothing(body):
    """An error page with status 200: the keys stay."""

    async def scenario() -> None:
        world = World()
        world.configure()
        await world.look()
        world.site.body = body
        await world.pass_time(700, 10)
        assert world.site.fetches > 2
        assert world.known == ["one"]

    asyncio.run(scenario())


def test_an_unknown_key_is_fetched_at_once_and_at_most_twice_a_minute():
    """Anybody can show unknown keys, so the issuer is asked at most every 30 s."""

    async def scenario() -> None:
        world = World()
        world.configure()
        await world.look()
        world.site.keys = [ONE.jwk(), TWO.jwk()]
        world.wanted = [URL]
        await world.pass_time(1)
        assert world.known == ["one", "two"]
        fetches = world.site.fetches
        for _ in range(90):
            world.wanted = [URL, "https://unknown.example"]
            await world.pass_time(1)
        assert world.site.fetches == fetches + 90 / ASKED_S_MIN

    asyncio.run(scenario())


def test_receivers_learn_that_an_unknown_key_was_looked_for():
    """So that they refuse it at last, instead of asking to wait; not where the fetch failed."""

    async def scenario() -> None:
        world = World()
        world.configure()
        await world.look()
        assert world.published[-1][0].asked_ms == 0
        world.wanted = [URL]
        await world.pass_time(1)
        asked_ms = world.published[-1][0].asked_ms
        assert asked_ms == world.clock.wall_ms()
        world.site.down = True
        await world.pass_time(ASKED_S_MIN)
        world.wanted = [URL]
        await world.pass_time(10)
        assert world.published[-1][0].asked_ms == asked_ms

    asyncio.run(scenario())


def test_a_rotation_drops_the_old_key_when_the_issuer_does():
    """Both keys count while both are published."""

    async def scenario() -> None:
        world = World()
        world.configure()
        await world.look()
        for keys in ([ONE, TWO], [TWO]):
            world.site.keys = [key.jwk() for key in keys]
            await world.pass_time(600, 10)
            assert world.known == [key.key_id for key in keys]

    asyncio.run(scenario())


def test_keys_are_fetched_although_a_look_met_a_bug(lines, monkeypatch):
    """Nothing starts the loop again: it tells of the bug, and looks again."""
    monkeypatch.setattr(_keeper, "LOOK_S", 0.001)

    async def scenario() -> None:
        world = World()
        faults, looked = [LookupError("a bug")], asyncio.Event()

        def take_wanted() -> list[str]:
            if faults:
                raise faults.pop()
            looked.set()
            return []

        world.keeper = KeyKeeper(
            world.clock, SeededRandom(1), world.publish, asked=take_wanted, count=world.meter.add
        )
        world.configure()
        running = asyncio.create_task(world.keeper.run())
        looking = asyncio.create_task(looked.wait())
        await asyncio.wait([running, looking], return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    told = [(line["event"], line["loop"]) for line in lines if "loop" in line]
    assert told == [("turn-failed", "issuer-keys")]


def test_withdrawing_all_keys_is_a_warning(lines):
    """The issuer says so, and so it is; but it may be a mistake."""

    async def scenario() -> None:
        world = World()
        world.configure()
        await world.look()
        world.site.keys = []
        await world.pass_time(600, 10)
        assert world.known == []
        assert lines[-1]["log_level"] == "warning"

    asyncio.run(scenario())


def test_the_keys_of_an_issuer_that_is_down_count_for_a_day(lines):
    """Tried again after 1 s, 2 s and so on up to a minute; and fetched when it is back."""

    async def scenario() -> None:
        world = World()
        world.configure()
        await world.look()
        world.site.down = True
        await world.pass_time(KEPT_S_MAX - 10, 10)
        assert world.known == ["one"]
        assert world.site.fetches > KEPT_S_MAX / 70
        await world.pass_time(20, 10)
        assert world.known == []
        assert "issuer-keys-given-up" in [line["event"] for line in lines]
        world.site.down = False
        await world.pass_time(BACKOFF_S_MAX)
        assert world.known == ["one"]
        assert world.meter.counters['issuer_key_fetches_total{result="failed"}'] > 1000

    asyncio.run(scenario())


def test_a_restart_goes_on_with_the_keys_that_were_known():
    """Also while the issuer is down, for what is left of the day; not from another address."""

    async def scenario() -> None:
        first = World()
        first.configure()
        await first.look()
        await first.pass_time(7_300, 10)
        records = first.published[-1]
        for changed, known in (({}, ["one"]), ({"jwks_uri": "https://other.example/"}, [])):
            second = World(**changed)
            second.site.down = True
            second.clock.move_to(first.clock.monotonic_s() + 3_600)
            second.configure(records)
            await second.look()
            assert second.known == known
        second = World()
        second.site.down = True
        second.clock.move_to(first.clock.monotonic_s() + KEPT_S_MAX)
        second.configure(records)
        await second.look()
        assert second.known == []
        # The time of the last fetch was published too: at least every hour.
        assert records[0].fetched_ms > first.published[0][0].fetched_ms + 3_600_000

    asyncio.run(scenario())


def test_a_reload_keeps_the_keys_and_forgets_issuers():
    """Rules and audiences may change without a gap."""

    async def scenario() -> None:
        world = World()
        world.configure()
        await world.look()
        world.site.down = True
        world.settings = IssuerSettings(
            Issuer(name="new", url=URL, audiences=("x",), jwks_uri=KEYS_URL)
        )
        world.configure()
        await world.look()
        assert world.published[-1][0].issuer.audiences == ("x",)
        assert world.known == ["one"]
        world.keeper.configure([])
        await world.look()
        assert world.published[-1] == ()

    asyncio.run(scenario())


def test_what_could_not_be_published_is_published_later(lines):
    """A full disk does not end the loop."""

    async def scenario() -> None:
        world = World()
        world.broken = True
        world.configure()
        await world.look()
        assert world.published == []
        assert lines[-1]["event"] == "issuer-keys-not-published"
        world.broken = False
        await world.look()
        assert world.known == ["one"]

    asyncio.run(scenario())


def test_a_bug_in_one_fetch_does_not_end_the_others(lines):
    """It is logged without its message, and tried again."""

    async def scenario() -> None:
        world = World()
        world.configure()
        world.site.keys = [object()]  # type: ignore[list-item]
        await world.look()
        assert "a bug: TypeError" in lines[-1]["reason"]
        world.site.keys = [ONE.jwk()]
        await world.pass_time(2)
        assert world.known == ["one"]

    asyncio.run(scenario())
