"""Tokens that deliveries show: for whom, how long, by which key, and where they do not go."""

import os

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from distributary.core.database import sqlite_url
from distributary.core.errors import SettingsError
from distributary.core.policy import DeliveryPolicy
from distributary.partitions import IssuingKeys
from distributary.partitions._targets import DirectoryTargets
from distributary.resource import CLEARTEXT, Reach
from distributary.routes import PutRoute, RouteEndpoint, RouteSettings
from distributary.subscriptions.store.store import Store
from distributary.testing.virtual import VirtualClock

URL = "https://events.example.com"
SUBJECT = "system:serviceaccount:shop:orders-oidc-eventing.knative.dev-trigger"
SINK = "https://sink.example/in"
NOW_MS = 1_900_000_000_000


def write(path, *keys, mode=0o600):
    """Private keys into a file, as a new one."""
    beside = path.with_name("new.pem")
    beside.write_bytes(
        b"".join(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            for key in keys
        )
    )
    beside.chmod(mode)
    beside.rename(path)


class World:
    """A store with one route, and targets whose deliveries show tokens."""

    def __init__(self, folder):
        self.file = folder / "issuer.pem"
        self.keys = [Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()]
        write(self.file, self.keys[0])
        self.clock = VirtualClock(NOW_MS)
        self.store = Store(sqlite_url(folder / "state.db"))
        self.reports = []
        self.targets = DirectoryTargets(
            sqlite_url(folder / "state.db"),
            warn=lambda event, fields: self.reports.append((event, fields)),
            clock=self.clock,
        )
        self.targets.issue_as(URL, str(self.file))

    def put(self, sink=SINK, audience="urn:sink", dial=None, own=False, **members):
        """The route of a Trigger."""
        settings = RouteSettings(
            name="Trigger shop/orders",
            namespace="shop",
            sink=RouteEndpoint(sink, dial=dial, own=own, audience=audience),
            policy=DeliveryPolicy(retry=1, backoff_delay_s=1.0, timeout_s=1.0),
            **{"subject": SUBJECT, **members},
        )
        (outcome,) = self.store.apply([PutRoute("u-a", "u-broker", (), (), settings)], 5)
        assert not isinstance(outcome, Exception), outcome
        self.targets.refresh()

    @property
    def target(self):
        """Of the route."""
        return self.targets.get("u-a")

    @property
    def token(self):
        """What deliveries to the sink show; None: nothing."""
        credential = self.target.sink.credential
        return None if credential is None else credential.access_token

    def claims(self, key=0):
        """Of the token, verified."""
        return jwt.decode(
            self.token,
            self.keys[key].public_key(),
            ["EdDSA"],
            audience="urn:sink",
            issuer=URL,
            options={"verify_exp": False, "verify_iat": False},
        )

    def close(self):
        """Close all of it."""
        self.targets.close()
        self.store.close()


@pytest.fixture
def world(tmp_path):
    """One store."""
    made = World(tmp_path)
    yield made
    made.close()


def test_a_destination_with_an_audience_is_shown_a_token(world):
    """For it alone, on behalf of the object, for an hour; and no other destination is."""
    world.put(
        reply=RouteEndpoint("https://reply.example/", audience="urn:reply"),
        dead_letter=RouteEndpoint("https://dead.example/"),
    )
    assert world.claims() == {
        "iss": URL,
        "sub": SUBJECT,
        "aud": ["urn:sink"],
        "iat": NOW_MS // 1000,
        "exp": NOW_MS // 1000 + 3600,
    }
    credential = world.target.sink.credential
    assert credential.access_token_type == "Bearer"
    assert credential.access_token_expires_ms == NOW_MS + 3_600_000
    reply = world.target.reply.credential.access_token
    assert jwt.decode(reply, options={"verify_signature": False})["aud"] == ["urn:reply"]
    assert world.target.dead_letter.credential is None
    assert world.token not in repr(world.target)


@pytest.mark.parametrize("without", ["key", "audience"])
def test_without_a_key_or_an_audience_nothing_changes(world, without):
    """Also for a sink that no token may go to."""
    if without == "key":
        world.targets.issue_as("", "")
    world.put("http://sink.example/in", audience="urn:sink" if without == "key" else None)
    sink = world.target.sink
    assert (sink.credential, sink.refused, sink.stays_here) == (None, None, False)


def test_a_token_is_made_once_and_renewed_at_three_quarters_of_its_life(world):
    """Nothing is signed for an event; the connection's request stays the same meanwhile."""
    world.put()
    first, target = world.token, world.target
    for path in world.file.parent.glob("state.db*"):
        os.utime(path, (1, 1))  # nobody writes the store for long
    world.targets.may_have_news()
    world.clock.jump(45 * 60_000 - 1)
    assert world.targets.may_have_news() is False
    assert not world.targets.refresh()
    assert world.target is target
    world.clock.jump(1)
    assert world.targets.may_have_news()
    assert world.targets.refresh()
    assert world.targets.changed_uris() == [f"shop {SINK}"]
    assert world.token != first
    assert world.claims()["iat"] == NOW_MS // 1000 + 45 * 60
    assert not world.targets.refresh()
    world.clock.jump(45 * 60_000)
    assert world.targets.refresh()


def test_a_token_of_the_future_is_renewed(world):
    """The clock was a day ahead and is set right: a sink would refuse it for a day."""
    world.clock.jump(86_400_000)
    world.put()
    assert world.claims()["iat"] == NOW_MS // 1000 + 86_400
    world.clock.jump(-86_400_000)
    assert world.targets.may_have_news()
    assert world.targets.refresh()
    assert world.claims()["iat"] == NOW_MS // 1000
    world.clock.jump(-1_000)  # a correction
    assert not world.targets.refresh()


def test_a_change_of_the_object_keeps_the_token(world):
    """A Trigger that is edited often signs no more often."""
    world.put()
    first = world.token
    world.put(wants_reply=True)
    assert world.target.sink.wants_reply
    assert world.token == first


def test_another_key_signs_from_the_next_renewal_on(world):
    """Without a restart; the token before is good until it ends."""
    world.put()
    assert world.claims(key=0)
    write(world.file, world.keys[1], world.keys[0])
    world.put(wants_reply=True)
    assert world.claims(key=0)
    world.clock.jump(45 * 60_000)
    assert world.targets.refresh()
    assert world.claims(key=1)


@pytest.mark.parametrize("harm", ["removed", "open", "damaged"])
def test_a_file_that_becomes_unusable_ends_nothing(world, harm):
    """The keys that were read go on to sign, until the process ends."""
    world.put()
    assert world.claims()
    if harm == "removed":
        world.file.unlink()
    elif harm == "open":
        world.file.chmod(0o644)
    else:
        world.file.write_text("canary")
    world.clock.jump(45 * 60_000)
    assert world.targets.refresh()
    assert world.claims()
    ((event, fields),) = world.reports
    assert event == "issuer-keys-unusable"
    assert str(world.file) in fields["reason"] or "private keys" in fields["reason"]
    assert "canary" not in str(fields)
    world.clock.jump(45 * 60_000)
    assert world.targets.refresh()
    assert world.claims()
    assert len(world.reports) == 1


def test_without_a_readable_key_the_route_waits_and_says_why(world):
    """An attempt without the token would be refused, and the event lost to the dead letters."""
    world.file.chmod(0o640)
    world.put()
    sink = world.target.sink
    assert sink.credential is None
    assert f"others may read the issuer's key file {world.file}" in sink.unusable
    assert [event for event, _fields in world.reports] == ["subscription-unusable"]
    world.file.chmod(0o600)
    world.clock.jump(10_000)
    assert world.targets.may_have_news()
    assert world.targets.refresh()
    assert world.target.sink.unusable is None
    assert world.target.sink.credential is not None


@pytest.mark.parametrize(
    ("sink", "dial", "allowed"),
    [
        (SINK, None, True),
        ("http://sink.example/in", None, False),
        ("http://127.0.0.1:9/in", None, True),
        ("http://books.shop.svc/", "127.0.0.1:8081", True),
        ("http://books.shop.svc/", "10.0.0.9:8081", False),
    ],
)
def test_a_token_goes_to_another_machine_by_tls_alone(world, sink, dial, allowed):
    """Where it is dialled counts; the operator can allow it."""
    world.put(sink, dial=dial)
    found = world.target.sink
    assert found.refused == (None if allowed else CLEARTEXT)
    assert found.stays_here is sink.startswith("http:")
    world.targets.keep_within(Reach(cleartext_credentials=True))
    assert world.target.sink.refused is None
    assert world.target.sink.stays_here is False


def test_what_comes_back_to_this_server_shows_no_such_token(world):
    """It shows whose events it publishes in a way of its own."""
    world.put(own=True)
    assert world.token is None


def test_a_route_of_an_earlier_version_is_delivered_without_a_token(world):
    """Its settings name no subject."""
    world.put(subject=None)
    assert world.token is None


def test_the_file_of_keys_is_private_or_refused(tmp_path):
    """Whoever has the key is this server to every receiver."""
    path = tmp_path / "issuer.pem"
    with pytest.raises(SettingsError, match=r"issuer_key_file: .*No such file"):
        IssuingKeys(path).read()
    write(path, Ed25519PrivateKey.generate(), mode=0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        IssuingKeys(path).read()
    path.chmod(0o400)
    keys = IssuingKeys(path)
    assert keys.read() is keys.read()
