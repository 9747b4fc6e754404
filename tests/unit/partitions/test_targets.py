"""Targets from the resource store: credentials, renewals, and rows that cannot be read."""

import dataclasses
import sqlite3
from contextlib import closing

import pytest

from distributary.core.database import sqlite_url
from distributary.core.deliver import Destination
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.partitions import _targets
from distributary.partitions._targets import DirectoryTargets
from distributary.protocols.http.settings import HttpSettings
from distributary.protocols.mqtt.settings import MqttSettings
from distributary.resource import (
    CLEARTEXT,
    OWN_EVENTS,
    OWN_LISTENER,
    OwnAddresses,
    Reach,
    SinkRule,
)
from distributary.routes import PutRoute, RouteEndpoint, RouteSettings
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.resource import Rotation
from distributary.subscriptions.service import rules
from distributary.subscriptions.store import Directory, Keys, Sealer
from distributary.subscriptions.store.credentials_rows import CredentialRows
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Delete, Put, Rotate
from kit.servers import Authority

SINK = "http://127.0.0.1:9/"
REFRESH = {
    "credentialType": "REFRESHTOKEN",
    "accessToken": "canary",
    "accessTokenType": "Bearer",
    "accessTokenExpiresUtc": "2030-01-31T12:00:00Z",
    "refreshToken": "canary-too",
    "refreshTokenEndpoint": "https://example.com/token",
}


class World:
    """A store and a reader of it."""

    def __init__(self, folder):
        self.path = folder / "state.db"
        self.url = sqlite_url(self.path)
        self.store = Store(self.url)
        self.rows = CredentialRows(self.url, Sealer(Keys(folder / "credentials.key")))
        self.reports = []
        self.targets = self.reader()

    def reader(self, keys=None):
        """Another reader."""
        return DirectoryTargets(
            sqlite_url(self.path), keys, lambda event, fields: self.reports.append((event, fields))
        )

    def put(self, name="a", **members):
        """Create or replace; its uid begins with ``u-``."""
        body = {"sink": SINK, "protocol": "HTTP", **members}
        spec = api_subscription.parse(
            body, rules(SinkRule(local_allowed=True, cleartext_allowed=True))
        )
        self.store.apply([Put(name, spec, f"u-{name}")], 5)
        self.targets.refresh()

    def damage(self, name="a"):
        """Make its row one that nobody can read."""
        with closing(sqlite3.connect(str(self.path))) as connection, connection:
            connection.execute("UPDATE api_subscription SET spec_json = '{}' WHERE id = ?", [name])

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


@pytest.mark.parametrize(
    "dead", ["http://127.0.0.1:8/", {"sink": "http://127.0.0.1:8/"}], ids=["URI", "object"]
)
def test_a_credential_goes_to_the_sink_alone(world, dead):
    """A dead letter sink never gets it, also where it shares all settings (decision 10)."""
    settings = {"delivery": {"deadLetterSink": dead}}
    world.put(sinkCredential=REFRESH, protocolsettings=settings)
    target = world.targets.get("u-a")
    assert target.sink.credential.access_token == "canary"
    assert target.dead_letter.credential is None


def test_a_renewed_token_makes_a_new_destination(world):
    """And what waits at the sink goes there with it (DESIGN rule 5)."""
    world.put(sinkCredential=REFRESH)
    world.put("b", sink="http://127.0.0.1:7/", sinkCredential=REFRESH)
    before = world.targets.get("u-a"), world.targets.get("u-b")
    world.targets.changed_uris()
    used = world.rows.open(world.rows.find("u-a"))
    assert world.rows.renew("u-a", used, dataclasses.replace(used, access_token="new"))
    assert world.targets.refresh() is True
    assert world.targets.changed_uris() == [SINK]
    assert world.targets.get("u-a").sink.credential.access_token == "new"
    assert world.targets.get("u-a").revision == before[0].revision
    assert world.targets.get("u-b") is before[1]


def test_a_row_that_cannot_be_read_fails_deliveries_and_not_the_owner(world):
    """Each attempt may be made again; others are served; it is told."""
    world.put("a")
    world.put("b")
    world.damage("a")
    targets = world.reader()
    targets.refresh()
    target = targets.get("u-a")
    assert "damaged" in target.sink.unusable
    assert target.sink.policy.retry == 1000
    assert world.reports == [
        ("subscription-unusable", {"route": "u-a", "reason": target.sink.unusable})
    ]
    assert targets.get("u-b").sink == Destination(SINK, settings=HttpSettings())
    assert not targets.all_go_to(SINK)
    assert targets.get("u-a") is target
    world.put("a", types=["mended"])
    assert targets.refresh() is True
    assert targets.get("u-a").sink == Destination(SINK, settings=HttpSettings())
    assert targets.changed_uris() == [target.sink.queue]
    targets.close()


def test_a_damaged_row_that_is_deleted_is_gone(world):
    """Then its matches are dropped, as for every deleted route."""
    world.put("a")
    world.damage("a")
    targets = world.reader()
    targets.refresh()
    assert targets.get("u-a").sink.unusable
    world.store.apply([Delete("a")], 5)
    targets.refresh()
    assert targets.get("u-a") is None
    targets.close()


def test_with_another_key_deliveries_wait_for_the_right_one(world, tmp_path):
    """The sink and its policy stand; nothing is sent without the credential."""
    world.put(sinkCredential=REFRESH)
    world.put("b")
    targets = world.reader(Keys(tmp_path / "other.key", "A" * 43 + "="))
    targets.refresh()
    sink = targets.get("u-a").sink
    assert (sink.uri, sink.credential) == (SINK, None)
    assert "another key" in sink.unusable
    assert "DISTRIBUTARY_CREDENTIAL_KEY" in sink.unusable
    assert targets.get("u-b").sink.unusable is None
    assert "canary" not in str(world.reports)
    targets.close()


def test_secret_settings_stand_where_they_are_sent(world, tmp_path):
    """To the sink and to its dead letter sink; without the key nothing goes to either."""
    dead_letters = {
        "sink": "http://127.0.0.1:8/",
        "protocolsettings": {"headers": {"X-Key": "dead"}},
    }
    delivery = {"deadLetterSink": dead_letters}
    world.put(protocolsettings={"headers": {"X-Key": "canary"}, "delivery": delivery})
    target = world.targets.get("u-a")
    assert target.sink.settings.headers == (("X-Key", "canary"),)
    assert target.dead_letter.settings.headers == (("X-Key", "dead"),)
    targets = world.reader(Keys(tmp_path / "other.key", "A" * 43 + "="))
    targets.refresh()
    target = targets.get("u-a")
    assert "another key" in target.sink.unusable
    assert target.dead_letter.unusable == target.sink.unusable
    assert "canary" not in str(world.reports)
    targets.close()


def test_a_change_of_one_resource_looks_at_no_others(world, monkeypatch):
    """With 100,000 of them, to look at all for each change would take the owner's whole time."""
    for number in range(20):
        world.put(f"s{number}")
        world.targets.get(f"u-s{number}")
    asked = []
    plain = Directory.revision
    monkeypatch.setattr(
        Directory, "revision", lambda self, uid: asked.append(uid) or plain(self, uid)
    )
    kept = world.targets.get("u-s1")
    world.put("s7", sink="http://127.0.0.1:9/new")
    assert asked == ["u-s7"]
    assert world.targets.changed_uris() == [SINK]
    assert world.targets.get("u-s7").sink.uri == "http://127.0.0.1:9/new"
    assert world.targets.get("u-s1") is kept


def put_route(world, **changes):
    """The route ``r`` of a Trigger."""
    settings = RouteSettings(
        **{
            "name": "Trigger default/t",
            "sink": RouteEndpoint("http://s.default.svc/", dial="127.0.0.1:7", ca_certs="PEM"),
            "wants_reply": True,
            "reply": RouteEndpoint("http://me.example/brokers/default/b", own=True),
            "reply_kept": True,
            "dead_letter": RouteEndpoint("http://127.0.0.1:8/dead"),
            "policy": DeliveryPolicy(3, BackoffPolicy.LINEAR, 0.5, 60.0, 5.0),
            "format": "structured",
            **changes,
        }
    )
    world.store.apply([PutRoute("r", "at", (), (), settings)], 5)
    world.targets.refresh()


def test_a_triggers_route_delivers_as_its_settings_say(world):
    """Sink, reply and dead letter sink are told apart; one policy for all of them."""
    put_route(world)
    target = world.targets.get("r")
    assert (target.sink.uri, target.sink.dial) == ("http://s.default.svc/", "127.0.0.1:7")
    assert (target.sink.wants_reply, target.sink.ca_certs) == (True, "PEM")
    assert (target.reply.own, target.reply.wants_reply, target.reply_kept) == (True, False, True)
    assert target.dead_letter.uri == "http://127.0.0.1:8/dead"
    for destination in (target.sink, target.reply, target.dead_letter):
        assert (destination.policy.retry, destination.policy.backoff_delay_s) == (3, 0.5)
        assert destination.format == "structured"
    assert (target.sink.unusable, target.events_max) == (None, None)


def test_a_subscriber_that_does_not_resolve_any_more_fails_each_attempt(world):
    """With the reason, at the sink alone; the dead letter sink works."""
    put_route(world)
    world.targets.get("r")
    world.targets.changed_uris()
    put_route(world, unusable='services "s" not found')
    target = world.targets.get("r")
    assert target.sink.unusable == 'services "s" not found'
    assert target.dead_letter.unusable is None
    assert set(world.targets.changed_uris()) == {
        "http://s.default.svc/",
        "http://me.example/brokers/default/b",
        "http://127.0.0.1:8/dead",
    }


def test_a_route_whose_settings_cannot_be_read_fails_alone(world):
    """As a subscription that cannot be read."""
    put_route(world)
    world.put()
    put_route(world, format="cubic")
    assert "damaged" in world.targets.get("r").sink.unusable
    assert world.targets.get("u-a").sink.unusable is None


def test_settings_of_a_broker_reach_the_destination(world):
    """Typed; what HTTP has alone stays as it was."""
    settings = {
        "topicname": "t",
        "qos": 2,
        "format": "structured",
        "delivery": {"retry": 1, "deadLetterSink": {"sink": SINK, "protocol": "HTTP"}},
    }
    world.put(sink="mqtt://127.0.0.1:9", protocol="MQTT5", protocolsettings=settings)
    target = world.targets.get("u-a")
    assert (target.sink.uri, target.sink.protocol) == ("mqtt://127.0.0.1:9", "MQTT5")
    assert target.sink.settings == MqttSettings("t", qos=2)
    assert (target.sink.format, target.sink.policy.retry) == ("structured", 1)
    assert target.sink.queue == "mqtt://127.0.0.1:9 t"
    assert target.sink.unusable is None
    assert (target.dead_letter.uri, target.dead_letter.settings) == (SINK, HttpSettings())


def test_certificates_reach_the_destination(world, tmp_path):
    """And that of the dead letter sink that shares the settings."""
    pem = Authority(tmp_path / "authority").ca_certs
    settings = {"cacerts": pem, "delivery": {"deadLetterSink": "https://127.0.0.1:8/"}}
    world.put(sink="https://127.0.0.1:9/", protocolsettings=settings)
    target = world.targets.get("u-a")
    assert target.sink.ca_certs.strip() == pem.strip()
    assert target.dead_letter.ca_certs == target.sink.ca_certs


def test_a_protocol_that_is_not_installed_any_more_makes_a_sink_unusable(world, monkeypatch):
    """A subscription that was made with it is kept, and told from those that can be served."""
    world.put(sink="nats://127.0.0.1:9", protocol="NATS", protocolsettings={"subject": "s"})
    monkeypatch.setattr(_targets, "PROTOCOLS_ABSENT", {"NATS": "needs an extra"})
    assert world.targets.get("u-a").sink.unusable == "needs an extra"
    fields = {"route": "u-a", "reason": "needs an extra"}
    assert world.reports == [("subscription-unusable", fields)]


def test_a_dead_letter_sink_of_such_a_protocol_is_unusable_alone(world, monkeypatch):
    """Events that its sink takes are delivered."""
    dead = {"sink": "nats://127.0.0.1:9", "protocol": "NATS", "protocolsettings": {"subject": "s"}}
    world.put(protocolsettings={"delivery": {"deadLetterSink": dead}})
    monkeypatch.setattr(_targets, "PROTOCOLS_ABSENT", {"NATS": "needs an extra"})
    target = world.targets.get("u-a")
    assert (target.sink.unusable, target.dead_letter.unusable) == (None, "needs an extra")


OWN = OwnAddresses(("http://me.example",), (("127.0.0.1", 8080),), "127.0.0.1:8080")


def test_a_sink_at_our_own_address_waits_until_a_setting_allows_it(world):
    """Of an earlier version, say: refused it makes no attempt, allowed it goes to our own port."""
    world.put(sink="http://me.example/events")
    world.targets.keep_within(Reach(own=OWN))
    refused = world.targets.get("u-a").sink
    assert (refused.refused, refused.own, refused.passes) == (OWN_EVENTS, False, 0)
    world.targets.keep_within(Reach(own=OWN, own_sinks=3))
    allowed = world.targets.get("u-a").sink
    assert (allowed.refused, allowed.own, allowed.dial) == (None, True, "127.0.0.1:8080")
    assert allowed.passes == 8


def test_other_paths_of_ours_are_never_allowed(world):
    """No publisher's event becomes a request to our own interface."""
    world.put(sink="http://me.example/subscriptions")
    world.targets.keep_within(Reach(own=OWN, own_sinks=3))
    assert world.targets.get("u-a").sink.refused == OWN_LISTENER


def test_a_protocol_that_is_left_out_waits(world):
    """KAFKA where private sinks are denied: what stands is not given up."""
    world.put(sink="kafka://k.example/t", protocol="KAFKA")
    world.targets.keep_within(Reach(protocols=("HTTP",)))
    assert "KAFKA" in world.targets.get("u-a").sink.refused
    world.targets.keep_within(Reach())
    assert world.targets.get("u-a").sink.refused is None


ACCOUNT = {"credentialType": "PLAIN", "identifier": "me", "secret": "hunter22"}


def test_a_credential_for_another_machine_waits_for_tls_or_a_setting(world):
    """One that an earlier version took: no attempt is made, and nothing is given up."""
    world.put(sink="http://example.com/", sinkCredential=ACCOUNT)
    world.targets.keep_within(Reach())
    sink = world.targets.get("u-a").sink
    assert (sink.refused, sink.unusable, sink.plain) == (CLEARTEXT, None, False)
    world.targets.keep_within(Reach(cleartext_credentials=True))
    sink = world.targets.get("u-a").sink
    assert (sink.refused, sink.stays_here, sink.plain) == (None, False, True)


def test_a_credential_in_the_clear_stays_on_this_machine(world):
    """Whatever the name resolves to later; with TLS it goes anywhere."""
    for uri, stays_here in (("http://localhost:9/", True), ("https://example.com/", False)):
        world.put(sink=uri, sinkCredential=ACCOUNT)
        sink = world.targets.get("u-a").sink
        assert (sink.refused, sink.stays_here) == (None, stays_here)


def test_an_authorization_header_is_a_credential(world):
    """Also that of a dead letter sink with headers of its own; other headers are not."""
    secret = {"headers": {"authorization": "Bearer x"}}
    dead = {"sink": "http://example.com/", "protocolsettings": secret}
    world.put(
        sink="http://example.com/",
        protocolsettings={"headers": {"x-api-key": "k"}, "delivery": {"deadLetterSink": dead}},
    )
    target = world.targets.get("u-a")
    assert (target.sink.refused, target.dead_letter.refused) == (None, CLEARTEXT)
    world.put(sink="http://example.com/", protocolsettings=secret)
    assert world.targets.get("u-a").sink.refused == CLEARTEXT


def test_keys_that_sign_go_to_the_sink_and_to_its_own_origin(world):
    """Another dead letter sink could pass on to the sink what we signed for it."""
    for dead, signed in (
        ("http://127.0.0.1:9/dead", True),
        ({"sink": "http://127.0.0.1:9/dead"}, True),
        ("http://127.0.0.1:8/dead", False),
    ):
        signature = {"signature": {"scheme": "v1"}, "delivery": {"deadLetterSink": dead}}
        world.put(protocolsettings=signature)
        target = world.targets.get("u-a")
        assert len(target.sink.signing.keys) == 1
        assert target.dead_letter.signing == (target.sink.signing if signed else None)
    world.put()
    assert world.targets.get("u-a").sink.signing is None


def test_a_rotation_makes_a_new_destination(world):
    """Attempts from then on have both signatures."""
    world.put(protocolsettings={"signature": {"scheme": "v1"}})
    before = world.targets.get("u-a").sink
    world.store.apply([Rotate("a", Rotation())], 5)
    world.targets.refresh()
    after = world.targets.get("u-a").sink
    assert after != before
    assert [key.value for key in after.signing.keys[1:]] == [before.signing.keys[0].value]


def test_routes_to_one_sink_share_its_destination(world: World, monkeypatch) -> None:
    """But not what holds a secret or has a rate of its own; another setting is another one."""
    monkeypatch.setattr(_targets, "WAYS_KNOWN_MAX", 3)
    slow = {"protocolsettings": {"delivery": {"timeout": "PT9S"}}}
    own_rate = {"protocolsettings": {"delivery": {"rateLimit": 5}}}
    secret = {"sinkcredential": REFRESH}
    for name, members in {"slow": slow, "own1": own_rate, "own2": own_rate}.items():
        world.put(name, **members)
    for name in ("secret1", "secret2"):
        world.put(name, **secret)
    for number in range(9):
        world.put(f"s{number}")
    sinks = {name: world.targets.get(f"u-s{name}").sink for name in range(9)}
    assert all(sink is sinks[0] for sink in sinks.values())
    for name in ("slow", "own1", "own2", "secret1", "secret2"):
        assert world.targets.get(f"u-{name}").sink is not sinks[0]
    one, two = (world.targets.get(f"u-own{number}").sink for number in (1, 2))
    assert one.queue != two.queue
    one, two = (world.targets.get(f"u-secret{number}").sink for number in (1, 2))
    assert one is not two
    for number in range(9):  # more than are remembered
        world.put(f"t{number}", sink=f"{SINK}{number}")
        assert world.targets.get(f"u-t{number}").sink.uri == f"{SINK}{number}"
