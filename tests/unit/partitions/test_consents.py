"""Targets and consent: what deliveries may go where, as the control process has stored it."""

import pytest

from distributary.core.database import sqlite_url
from distributary.core.deliver.consent import Consent
from distributary.core.policy import DeliveryPolicy
from distributary.partitions._targets import DirectoryTargets
from distributary.resource import ConsentRule, Reach, SinkRule, target_key
from distributary.routes import PutRoute, RouteEndpoint, RouteSettings
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.service import rules
from distributary.subscriptions.store.consent_rows import ConsentRow, ConsentRows
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Put
from distributary.testing.virtual import VirtualClock

ORIGIN = "events.example.com"
SINK = "https://sink.example/"
DEAD = "https://dead.example/"
WAITS = Consent(given=False)
ALONE = Consent(given=True, private_alone=True)


class World:
    """A store, its consents, and targets that follow both."""

    def __init__(self, folder):
        self.path = folder / "state.db"
        self.clock = VirtualClock(1_900_000_000_000)
        self.store = Store(sqlite_url(self.path))
        self.rows = ConsentRows(sqlite_url(self.path))
        self.targets = DirectoryTargets(sqlite_url(self.path), clock=self.clock)
        self.rule()

    def rule(self, mode="public", origin=ORIGIN, partitions=2):
        """Whom to ask."""
        self.targets.keep_within(Reach(consent=ConsentRule(mode, origin, None, partitions)))
        self.targets.refresh()

    def put(self, sink=SINK, **members):
        """The subscription ``a``."""
        body = {"sink": sink, "protocol": "HTTP", **members}
        spec = api_subscription.parse(body, rules(SinkRule(local_allowed=True)))
        (outcome,) = self.store.apply([Put("a", spec, "u-a")], 5)
        assert not isinstance(outcome, Exception), outcome
        self.targets.refresh()

    def say(self, state, sink=SINK, dial=None, namespace="default", **values):
        """Store what is known of a target."""
        key = target_key(namespace, sink, dial)
        found = self.rows.find([key]).get(key) or ConsentRow(key, "asked", ORIGIN)
        until_ms = self.clock.wall_ms() + 1_000_000 if state == "given" else 0
        row = found._replace(**({"state": state, "until_ms": until_ms} | values))
        assert self.rows.put(row) is not None
        self.targets.refresh()

    @property
    def consent(self):
        """Of the sink."""
        return self.targets.get("u-a").sink.consent

    def close(self):
        """Close all of it."""
        self.targets.close()
        self.rows.close()
        self.store.close()


@pytest.fixture
def world(tmp_path):
    """An empty store."""
    made = World(tmp_path)
    yield made
    made.close()


def test_nobody_waits_where_nobody_is_asked(world):
    """The default; rows of another time mean nothing."""
    world.put()
    world.say("refused")
    world.rule("never")
    assert world.consent is None
    assert world.targets.get("u-a").sink.queue == SINK


def test_a_target_waits_until_it_has_consented(world):
    """Then its queue is the usual one, and what waited for the other is told."""
    world.put()
    assert world.consent == WAITS
    waiting = world.targets.get("u-a").sink.queue
    world.say("asked")
    assert world.consent == WAITS
    world.targets.changed_uris()
    world.say("given")
    assert world.consent == Consent(given=True, origin=ORIGIN)
    assert world.targets.changed_uris() == [waiting]
    assert world.targets.get("u-a").sink.queue == SINK


@pytest.mark.parametrize("state", ["refused", "asked"])
def test_a_target_that_withdraws_waits_again(world, state):
    """What was queued for it is given back."""
    world.put()
    world.say("given")
    assert world.consent.given
    world.targets.changed_uris()
    world.say(state)
    assert world.consent == WAITS
    assert world.targets.changed_uris() == [SINK]


def test_dead_letter_sinks_need_their_own_consent(world):
    """The sink's is none for another party."""
    world.put(protocolsettings={"delivery": {"deadLetterSink": DEAD}})
    world.say("given")
    assert world.targets.get("u-a").dead_letter.consent == WAITS
    world.say("given", DEAD)
    assert world.targets.get("u-a").dead_letter.consent.given


def test_consent_of_another_tenant_or_place_is_none(world):
    """By namespace, and by what is dialled for a URI."""
    world.put()
    world.say("given", namespace="shop")
    world.say("given", dial="10.0.0.1:80")
    assert world.consent == WAITS


@pytest.mark.parametrize(
    "sink", ["http://127.0.0.1:9/", "http://localhost:9/", "http://10.1.2.3/", "http://[::1]:9/"]
)
def test_private_addresses_need_no_question(world, sink):
    """Where the mode is public: at once, without a row; always asks them too."""
    world.put(sink)
    assert world.consent == ALONE
    world.rule("always")
    assert world.consent == WAITS
    world.say("given", sink)
    assert world.consent.given


def test_names_wait_until_somebody_has_looked(world):
    """They may mean any address; and if they change, the connector refuses them."""
    world.put("http://inside.example/")
    assert world.consent == WAITS
    world.say("private", "http://inside.example/")
    assert world.consent == ALONE
    world.rule("always")
    assert world.consent == WAITS


def test_partitions_share_the_allowed_rate(world):
    """All together start no more; a rate below one for each is shared in time."""
    world.put()
    world.say("given", rate_per_min=121)
    assert world.consent.rate_per_s == pytest.approx(1.0)
    world.say("given", rate_per_min=1)
    assert world.consent.rate_per_s == pytest.approx(1 / 120)
    world.say("given", rate_per_min=None)
    assert world.consent.rate_per_s is None


def test_consent_to_another_name_of_ours_is_none(world):
    """It is to an origin."""
    world.put()
    world.say("given")
    world.rule(origin="new.example.com")
    assert world.consent == WAITS


def test_consent_that_has_ended_is_none_after_a_start(world):
    """The server was off for longer than it held."""
    world.put()
    world.say("given")
    world.clock.move_to(2_000.0)
    again = DirectoryTargets(sqlite_url(world.path), clock=world.clock)
    again.keep_within(Reach(consent=ConsentRule("public", ORIGIN)))
    again.refresh()
    assert again.get("u-a").sink.consent == WAITS
    again.close()


def test_other_protocols_and_ourselves_need_none(world):
    """The handshake is HTTP's, and this server need not ask itself."""
    world.put("mqtt://broker.example/", protocol="MQTT5", protocolsettings={"topicname": "t"})
    assert world.consent is None


def test_a_sink_that_settings_refuse_is_not_waited_for(world):
    """Its reason is the one to tell, and nothing is sent either way."""
    world.put()
    world.targets.keep_within(Reach(consent=ConsentRule("always", ORIGIN), protocols=("MQTT5",)))
    world.targets.refresh()
    sink = world.targets.get("u-a").sink
    assert sink.consent is None
    assert "protocols" in sink.refused


def test_ways_of_knatives_kinds_need_consent_each(world):
    """Subscriber, reply and dead letter sink; a Broker of this server excepted."""
    settings = RouteSettings(
        name="Trigger shop/t",
        namespace="shop",
        sink=RouteEndpoint("http://s.shop.svc/", dial="203.0.114.9:80"),
        reply=RouteEndpoint("http://127.0.0.1:8080/brokers/shop/b", own=True),
        dead_letter=RouteEndpoint(DEAD),
        policy=DeliveryPolicy(retry=1, backoff_delay_s=1.0, timeout_s=1.0),
    )
    world.store.apply([PutRoute("u-a", "", (), (), settings)], 5)
    world.targets.refresh()
    target = world.targets.get("u-a")
    assert (target.sink.consent, target.dead_letter.consent) == (WAITS, WAITS)
    assert target.reply.consent is None
    world.say("given", DEAD, namespace="shop")
    world.say("given", "http://s.shop.svc/", dial="203.0.114.9:80", namespace="shop")
    target = world.targets.get("u-a")
    assert target.sink.consent.given
    assert target.dead_letter.consent.given


def test_a_change_reaches_only_the_routes_of_its_target(world):
    """Others keep the destination that transports know."""
    world.put()
    kept = world.targets.get("u-a")
    world.say("given", DEAD)
    assert world.targets.get("u-a") is kept
