"""Secrets that a Trigger names: for which sink, in which form, and their changes."""

import base64

import pytest
import sqlalchemy as sa

from distributary.core.database import sqlite_url
from distributary.core.policy import DeliveryPolicy
from distributary.partitions._targets import DirectoryTargets
from distributary.resource import KeptSecret, Reach
from distributary.routes import PutRoute, RouteEndpoint, RouteSettings
from distributary.routes import tables as _tables
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.store import Store
from kit.certificates import Authority

SINK = "https://a.example/hook"
SIGNING = "whsec_" + base64.b64encode(bytes(32)).decode()
OURS, THEIRS = (Authority(name).pem.decode() for name in ("Ours", "Theirs"))
SEED = "whsk_" + base64.b64encode(bytes([1]) * 32).decode()


class World:
    """A store with one Trigger, and its reader."""

    def __init__(self, folder):
        self.url = sqlite_url(folder / "state.db")
        self.store = Store(self.url)
        self.sealer = Sealer(Keys(folder / "credentials.key"))
        self.reports = []
        self.targets = DirectoryTargets(
            sqlite_url(folder / "state.db"),
            warn=lambda event, fields: self.reports.append((event, fields)),
        )
        self.targets.keep_within(Reach())
        self.engine = sa.create_engine(self.url)
        self.seq = 0

    def keep(self, name="s", sinks=(SINK,), namespace="shop", **values):
        """Create or replace a Secret; without values it is deleted."""
        self.seq += 1
        table, counter = _tables.kept_secret, _tables.kept_secret_counter
        with self.engine.begin() as connection:
            connection.execute(sa.delete(table).where(table.c.name == name))
            connection.execute(sa.delete(counter))
            connection.execute(sa.insert(counter).values(id=1, seq=self.seq))
            if values:
                found = {key: text.encode() for key, text in values.items()}
                sealed = self.sealer.seal_kept("u", KeptSecret(values=found, sinks=sinks))
                row = {"namespace": namespace, "name": name, "uid": "u", "sealed": sealed}
                connection.execute(sa.insert(table).values(**row, seq=self.seq))
        self.targets.refresh()

    def put(self, sink=SINK, dial=None, ca_certs=None, bundles=None, **members):
        """The route ``r`` of a Trigger."""
        settings = RouteSettings(
            name="Trigger shop/t",
            namespace="shop",
            sink=RouteEndpoint(sink, dial=dial, ca_certs=ca_certs, bundles=bundles),
            dead_letter=RouteEndpoint("https://dead.example/"),
            policy=DeliveryPolicy(retry=3, timeout_s=5.0),
            **members,
        )
        self.store.apply([PutRoute("r", "at", (), (), settings)], 5)
        self.targets.refresh()

    @property
    def sink(self):
        """Where its events go now."""
        return self.targets.get("r").sink

    def close(self):
        """Close all of it."""
        self.engine.dispose()
        self.targets.close()
        self.store.close()


@pytest.fixture
def world(tmp_path):
    """An empty store."""
    made = World(tmp_path)
    yield made
    made.close()


def test_a_credential_is_shown_to_the_sink_alone(world):
    """A token, or a user and a password; the dead letter sink never gets it."""
    world.keep(token="canary\n")
    world.put(credential="s")
    credential = world.sink.credential
    assert (credential.type, credential.access_token) == ("ACCESSTOKEN", "canary")
    assert credential.access_token_type == "Bearer"
    assert world.targets.get("r").dead_letter.credential is None
    assert "canary" not in repr(world.sink)
    world.keep(username="me", password="canary")
    assert (world.sink.credential.identifier, world.sink.credential.secret) == ("me", "canary")


@pytest.mark.parametrize("use", ["credential", "signature"])
def test_a_secret_goes_to_the_dialled_address_only_where_it_names_it(world, use):
    """Whoever may write the Service, and does not have the value, sends it nowhere else."""
    value = {"token": "canary"} if use == "credential" else {"secret": SIGNING}
    world.keep(sinks=(SINK, "https://10.1.2.3:8443"), **value)
    world.put(dial="10.1.2.3:8443", **{use: "s"})
    assert world.sink.refused is None
    assert getattr(world.sink, "signing" if use == "signature" else use) is not None
    for dial in ("10.6.6.6:8443", "10.1.2.3:443"):
        world.put(dial=dial, **{use: "s"})
        assert "there is no Secret s for this sink" in world.sink.refused
        assert (world.sink.credential, world.sink.signing) == (None, None)
    world.keep(sinks=(SINK, "https://10.1.2.3"), **value)
    assert world.sink.refused is None


def test_a_dialled_address_alone_does_not_name_the_sink(world):
    """Nor does the URI alone, as in Secrets of versions that did not look at the address."""
    world.keep(sinks=("https://10.1.2.3:8443",), token="canary")
    world.put(dial="10.1.2.3:8443", credential="s")
    assert world.sink.credential is None
    world.keep(sinks=(SINK,), token="canary")
    assert world.sink.credential is None
    assert "there is no Secret s for this sink" in world.sink.refused


@pytest.mark.parametrize("use", ["credential", "signature"])
def test_a_secret_goes_to_a_sink_with_certificates_only_where_it_has_them(world, use):
    """Whoever may write the Trigger, and can answer at its address, does not get the value."""
    value = {"token": "canary"} if use == "credential" else {"secret": SIGNING}
    world.keep(**value)
    world.put(ca_certs=OURS, **{use: "s"})
    assert 'not under the key "caCerts" of the Secret "s"' in world.sink.refused
    assert (world.sink.credential, world.sink.signing) == (None, None)
    assert world.reports == [
        ("subscription-unusable", {"route": "r", "reason": world.sink.refused})
    ]
    world.keep(caCerts=THEIRS, **value)
    assert world.sink.refused is not None
    world.keep(caCerts=f"{THEIRS}ours:\n{OURS}", **value)
    assert world.sink.refused is None
    assert getattr(world.sink, "signing" if use == "signature" else use) is not None
    assert world.sink.ca_certs == OURS
    world.put(ca_certs=None, **{use: "s"})
    assert world.sink.refused is None


def test_certificates_of_the_operator_are_nobodys_own(world):
    """Bundles count for every sink. Rows of earlier versions do not tell them: these wait."""
    world.keep(token="canary")
    world.put(bundles=OURS, credential="s")
    assert world.sink.credential is not None
    assert world.sink.ca_certs == OURS
    world.put(ca_certs=THEIRS, bundles=OURS, credential="s")
    assert world.sink.credential is None
    assert world.sink.ca_certs == f"{THEIRS}\n{OURS}"
    world.put(ca_certs=f"{THEIRS}\n{OURS}", credential="s")
    assert world.sink.credential is None


def test_keys_sign_what_goes_to_the_sink(world):
    """Two while one replaces the other; both schemes."""
    world.keep(secret=SIGNING)
    world.put(signature="s")
    assert [key.scheme for key in world.sink.signing.keys] == ["v1"]
    world.keep(secret=SEED, previous=SIGNING)
    assert [key.scheme for key in world.sink.signing.keys] == ["v1a", "v1"]
    assert world.sink.signing.keys[0].value == bytes([1]) * 32
    assert world.targets.get("r").dead_letter.signing is None


def test_a_change_makes_a_new_destination_of_those_that_name_it(world):
    """And a deletion lets events wait."""
    world.keep(token="one")
    world.keep("other", token="x")
    world.put(credential="s")
    before = world.sink
    world.keep("other", token="y")
    assert world.sink is before
    world.keep(token="two")
    assert world.sink.credential.access_token == "two"
    world.keep()
    assert world.sink.credential is None
    assert "there is no Secret s for this sink" in world.sink.refused


@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        ({}, "there is no Secret s for this sink in the namespace shop"),
        ({"sinks": ("https://b.example/",), "token": "x"}, "there is no Secret s for this sink"),
        ({"sinks": (), "token": "x"}, "there is no Secret s for this sink"),
        ({"namespace": "bank", "token": "x"}, "there is no Secret s for this sink"),
        ({"password": "x"}, 'has neither the key "token" nor both keys "username" and "password"'),
        ({"token": "a\nb"}, 'the key "token" of the Secret "s" cannot be used'),
    ],
)
def test_without_a_credential_events_wait(world, kept, reason):
    """No attempt is made; the reason is told, and repeats nothing."""
    world.keep(**kept)
    world.put(credential="s")
    assert reason in world.sink.refused
    assert world.sink.credential is None
    assert world.reports == [
        ("subscription-unusable", {"route": "r", "reason": world.sink.refused})
    ]


@pytest.mark.parametrize(
    "value", ["canary", "whsec_canary!", "whsec_eA==", "whsk_" + SIGNING[6:-8]]
)
def test_what_is_no_key_signs_nothing(world, value):
    """Events wait."""
    world.keep(secret=value)
    world.put(signature="s")
    assert (
        'the key "secret" of the Secret "s" cannot be used: expected whsec_' in world.sink.refused
    )
    assert value not in world.sink.refused
    assert world.sink.signing is None


def test_a_credential_is_not_sent_in_the_clear(world):
    """To a plain sink elsewhere."""
    world.keep(sinks=("http://a.example/",), token="x")
    world.put(sink="http://a.example/hook", credential="s")
    assert world.sink.refused is not None
