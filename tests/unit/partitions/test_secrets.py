"""Credentials that name a secret of the operator: which file, for which sink, and its changes."""

import dataclasses

import pytest

from distributary.core.database import sqlite_url
from distributary.partitions._secrets import LOOK_S, Secrets
from distributary.partitions._targets import DirectoryTargets
from distributary.resource import Reach, SecretFile, SinkRule
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.service import rules
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Put
from distributary.testing.virtual import VirtualClock
from kit.certificates import Authority

ORIGIN = "https://example.com"
SINK = f"{ORIGIN}/hook"
PLAIN = {"credentialType": "PLAIN", "identifier": "me", "secretRef": {"name": "crm"}}
ACCESS = {
    "credentialType": "ACCESSTOKEN",
    "accessTokenType": "Bearer",
    "secretRef": {"name": "crm"},
}


class World:
    """A store, a file with a secret, and a reader of both."""

    def __init__(self, folder):
        self.file = folder / "crm"
        self.file.write_text("canary\n")
        self.store = Store(sqlite_url(folder / "state.db"))
        self.clock = VirtualClock(1_900_000_000_000)
        self.reports = []
        self.targets = DirectoryTargets(
            sqlite_url(folder / "state.db"),
            warn=lambda event, fields: self.reports.append((event, fields)),
            clock=self.clock,
        )
        self.secret = SecretFile("default", "crm", str(self.file), (ORIGIN,))
        self.targets.keep_within(Reach(secrets=(self.secret,)))

    def put(self, name="a", credential=PLAIN, sink=SINK, namespace="default", **settings):
        """Create or replace; its uid begins with ``u-``."""
        body = {"sink": sink, "protocol": "HTTP", "sinkCredential": credential}
        body["protocolsettings"] = settings
        spec = api_subscription.parse(body, rules(SinkRule(local_allowed=True)))
        self.store.apply([Put(name, spec, f"u-{name}", namespace=namespace)], 5)
        self.targets.refresh()

    def sink(self, name="a"):
        """Where its events go now."""
        return self.targets.get(f"u-{name}").sink

    def close(self):
        """Close all of it."""
        self.targets.close()
        self.store.close()


@pytest.fixture
def world(tmp_path):
    """An empty store."""
    made = World(tmp_path)
    yield made
    made.close()


def test_a_named_secret_goes_to_the_sink(world):
    """Its text stands where a secret of the subscription would stand."""
    world.put()
    assert (world.sink().credential.identifier, world.sink().credential.secret) == ("me", "canary")
    world.put(credential=ACCESS)
    assert world.sink().credential.access_token == "canary"
    assert world.sink().credential.access_token_expires_ms is None
    assert world.reports == []


def test_a_change_of_the_file_makes_a_new_destination_of_those_that_name_it(world):
    """Nobody touches the subscription, and others keep theirs."""
    world.put()
    world.put("b", ACCESS | {"secretRef": {"name": "other"}})
    before, other = world.sink(), world.sink("b")
    world.targets.changed_uris()
    assert world.targets.refresh() is False
    world.file.write_text("fresh")
    assert world.targets.refresh() is True
    assert world.targets.changed_uris() == [before.queue]
    assert world.sink().credential.secret == "fresh"
    assert world.sink("b") is other


def test_files_are_looked_at_once_a_second(world):
    """Also where nothing is written to the store; without any table, never."""
    secrets = Secrets(world.clock)
    secrets.follow([world.secret])
    assert secrets.due()
    assert not secrets.due()
    world.clock.move_to(world.clock.monotonic_s() + LOOK_S)
    assert secrets.due()
    secrets.follow([])
    world.clock.move_to(world.clock.monotonic_s() + LOOK_S)
    assert not secrets.due()


@pytest.mark.parametrize("text", [None, "", "a\nb\n", b"\xff", "x" * 8195])
def test_events_wait_for_a_file_that_holds_no_secret(world, text):
    """No attempt is made without it; no reason quotes the file; then it is there, and they go."""
    world.put()
    if text is None:
        world.file.unlink()
    elif isinstance(text, bytes):
        world.file.write_bytes(text)
    else:
        world.file.write_text(text)
    world.targets.refresh()
    assert "the file of the secret crm" in world.sink().refused
    assert world.sink().credential is None
    assert not text or str(text) not in world.sink().refused
    assert world.reports == [
        ("subscription-unusable", {"route": "u-a", "reason": world.sink().refused})
    ]
    world.file.write_text("there")
    world.targets.refresh()
    assert (world.sink().refused, world.sink().credential.secret) == (None, "there")


def test_a_secret_goes_to_the_sinks_of_its_table_in_its_namespace_alone(world):
    """Whoever writes subscriptions learns it at no sink of theirs."""
    world.put("elsewhere", sink="https://example.org/hook")
    world.put("port", sink="https://example.com:8443/hook")
    world.put("tenant", namespace="other")
    world.put("unknown", PLAIN | {"secretRef": {"name": "another"}})
    for name in ("elsewhere", "port", "tenant", "unknown"):
        assert "no secret" in world.sink(name).refused
        assert world.sink(name).credential is None


def test_a_secret_goes_to_a_sink_with_certificates_only_where_its_table_has_them(world, tmp_path):
    """Whoever writes subscriptions, and can answer at the sink, does not get the operator's."""
    ours, theirs = (Authority(name).pem.decode() for name in ("Ours", "Theirs"))
    reason = "the cacerts of the subscription are not in the cacerts_file of the secret crm"
    world.put(cacerts=ours)
    assert (world.sink().refused, world.sink().credential) == (reason, None)
    assert world.reports == [("subscription-unusable", {"route": "u-a", "reason": reason})]
    path = tmp_path / "own.pem"
    table = dataclasses.replace(world.secret, cacerts_file=str(path))
    world.targets.keep_within(Reach(secrets=(table,)))
    assert world.sink().credential is None
    for text, goes in ((theirs, False), (f"{theirs}ours:\n{ours}", True), ("", False)):
        path.write_text(text)
        world.targets.refresh()
        assert (world.sink().credential is not None) is goes
    world.put()
    assert world.sink().credential.secret == "canary"


@pytest.mark.parametrize(("size", "goes"), [(65_536, True), (65_537, False)])
def test_a_file_of_certificates_has_a_bound(world, tmp_path, size, goes):
    """What is beyond is not read."""
    ours = Authority().pem.strip()
    path = tmp_path / "own.pem"
    path.write_bytes((b"\n" + ours).rjust(size))
    table = dataclasses.replace(world.secret, cacerts_file=str(path))
    world.targets.keep_within(Reach(secrets=(table,)))
    world.put(cacerts=ours.decode())
    assert (world.sink().credential is not None) is goes


def test_a_table_that_is_taken_away_or_added_holds_at_once(world):
    """A reload of the settings brings another reach."""
    world.put()
    assert world.sink().credential is not None
    world.targets.keep_within(Reach())
    assert "no secret" in world.sink().refused
    moved = dataclasses.replace(world.secret, sinks=("https://example.org", ORIGIN))
    world.targets.keep_within(Reach(secrets=(moved,)))
    assert world.sink().credential.secret == "canary"


def test_a_dead_letter_sink_gets_no_named_secret_either(world):
    """As of other credentials (decision 10)."""
    body = {
        "sink": SINK,
        "protocol": "HTTP",
        "sinkCredential": PLAIN,
        "protocolsettings": {"delivery": {"deadLetterSink": f"{ORIGIN}/dead"}},
    }
    spec = api_subscription.parse(body, rules(SinkRule(local_allowed=True)))
    world.store.apply([Put("a", spec, "u-a")], 5)
    world.targets.refresh()
    assert world.targets.get("u-a").dead_letter.credential is None
