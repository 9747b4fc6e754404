"""Clients of the AMQP port show who they are: SASL, grants, revocation, the audit log."""

import contextlib
import random

import pytest

from distributary.access import (
    AccessSnapshot,
    CertificateRecord,
    Gate,
    Grant,
    KeyRecord,
    PeerCertificate,
    Verb,
    make_key,
)
from distributary.protocols.amqp.engine import AmqpLogin, ClientLogin
from distributary.subscriptions.amqp._sender import Sender
from kit.amqp_client import AmqpClient, join

KEYS = {name: make_key(random.Random(name).randbytes) for name in ("reader", "writer", "other")}
GRANTS = {
    "reader": Grant(may=(Verb.READ,), namespaces=("default",)),
    "writer": Grant(may=(Verb.WRITE,), namespaces=("default",)),
    "other": Grant(may=(Verb.ADMIN,), namespaces=("shop",)),
}
RECORDS = {
    name: KeyRecord(id=key.id, name=name, sha256=key.sha256, grants=(GRANTS[name],))
    for name, key in KEYS.items()
}
SNAPSHOT = AccessSnapshot(required=True, keys=tuple(RECORDS.values()))


def by_password(name: str) -> AmqpLogin:
    """A key as a password: PLAIN."""
    return AmqpLogin("anyone", password=KEYS[name].text)


def by_token(name: str) -> AmqpLogin:
    """A key as a token: OAUTHBEARER."""
    return AmqpLogin(token=KEYS[name].text)


@pytest.fixture
def guarded(served):
    """A server that asks who its clients are."""
    served.gate.replace(SNAPSHOT)
    return served


@pytest.mark.parametrize("login", [by_password, by_token])
def test_who_may_write_writes_and_who_may_read_reads(guarded, good, login):
    """By either mechanism; a refusal has the status of HTTP."""

    async def live() -> None:
        writer = guarded.connect(login=login("writer"))
        assert (await writer.ask("Create", good())).code == 201
        reader = guarded.connect(login=login("reader"))
        assert (await reader.ask("Query")).code == 200
        refused = await reader.ask("Create", good())
        assert (refused.code, refused.json()["code"]) == (403, "forbidden")
        other = guarded.connect(login=login("other"))
        assert (await other.ask("Query")).code == 403
        assert (await other.ask("Discover")).code == 200

    guarded.run(live)


@pytest.mark.parametrize(
    ("login", "code"),
    [
        (AmqpLogin(), "sasl-mechanism"),
        (AmqpLogin("reader", password="nonsense"), "sasl-auth"),
        (AmqpLogin("reader", password=KEYS["reader"].text + "x"), "sasl-auth"),
        (AmqpLogin(token="nonsense"), "sasl-auth"),
        (AmqpLogin(token="a b\x01auth=Bearer c"), "sasl-auth"),
    ],
)
def test_who_shows_nothing_valid_gets_no_links(guarded, login, code):
    """The outcome says so, and the connection ends."""

    async def try_it() -> None:
        ended = await guarded.connect(login=login).ended
        assert (ended.cause, ended.condition) == ("login", code)

    guarded.run(try_it)


def test_a_client_without_sasl_gets_the_header_that_is_missing(guarded):
    """AMQP section 2.2: then the connection is closed."""

    async def try_it() -> None:
        client, _, wire = guarded.connect_by_wires()
        client.engine.abort()
        _, _, wire = guarded.connect_by_wires()
        written: list[bytes] = []
        wire.peer.arrive = written.append
        wire.arrive(b"AMQP\x00\x01\x00\x00")
        while not wire.is_closing():
            await quiet()
        assert b"".join(written) == b"AMQP\x03\x01\x00\x00"

    async def quiet() -> None:
        import asyncio  # noqa: PLC0415 - one turn of the loop

        await asyncio.sleep(0)

    guarded.run(try_it)


def test_a_revoked_key_ends_its_connection(guarded):
    """At the next request."""

    async def revoke() -> None:
        client = guarded.connect(login=by_password("reader"))
        assert (await client.ask("Query")).code == 200
        guarded.gate.replace(AccessSnapshot(required=True, keys=(RECORDS["writer"],)))
        with contextlib.suppress(ConnectionError):
            assert (await client.ask("Query")).code == 401
        ended = await client.ended
        assert ended.condition == "amqp:unauthorized-access"

    guarded.run(revoke)


def test_a_change_by_a_revoked_key_is_audited(guarded):
    """Whoever asked is nobody by now."""

    async def revoke() -> None:
        client = guarded.connect(login=by_password("writer"))
        assert (await client.ask("Query")).code == 200
        guarded.gate.replace(AccessSnapshot(required=True, keys=(RECORDS["reader"],)))
        with contextlib.suppress(ConnectionError):
            assert (await client.ask("Delete", id="x")).code == 401
        await client.ended

    guarded.run(revoke)
    told = [(one.sender.name, one.operation, one.object, one.status) for one in guarded.changes]
    assert told == [("nobody", "Delete", "/subscriptions/x", 401)]


def test_changes_are_audited(guarded, good):
    """Who, what, the path as over HTTP, from where, with what result; reads are not."""

    async def change() -> None:
        client = guarded.connect(login=by_password("writer"))
        made = await client.ask("Create", good())
        subscription_id = made.properties["id"] if "id" in made.properties else made.json()["id"]
        await client.ask("Query")
        await client.ask("Retrieve", id=subscription_id)
        await client.ask("Delete", id=subscription_id)
        await client.ask("Delete", id=subscription_id)
        reader = guarded.connect(login=by_password("reader"))
        await reader.ask("Delete", id="x")
        path = f"/subscriptions/{subscription_id}"
        found = [(*one[1:-1], one.sender.name) for one in guarded.changes]
        assert found == [
            ("Create", path, "127.0.0.1", 201, "key:writer"),
            ("Delete", path, "127.0.0.1", 200, "key:writer"),
            ("Delete", path, "127.0.0.1", 404, "key:writer"),
            ("Delete", "/subscriptions/x", "127.0.0.1", 403, "key:reader"),
        ]

    guarded.run(change)


CERTIFICATE = PeerCertificate(("dns:till.shop",), 10)


def test_a_certificate_is_shown_by_external():
    """It is offered where there is one; a name of its own choice is refused."""
    gate = Gate(lambda: 0)
    accepted = CertificateRecord(pattern="dns:till.shop", grants=(GRANTS["reader"],))
    gate.replace(AccessSnapshot(required=True, certificates=(accepted,)))
    sender = Sender(gate, CERTIFICATE)
    assert sender.mechanisms[0] == "EXTERNAL"
    assert sender.accept(ClientLogin("EXTERNAL", ""))
    assert sender.identify().name == "certificate:dns:till.shop"
    assert "EXTERNAL" not in Sender(gate).mechanisms
    assert not Sender(gate).accept(ClientLogin("EXTERNAL", ""))


def test_a_login_does_not_show_its_secret():
    """Not in a traceback."""
    assert "secret" not in repr(ClientLogin("PLAIN", "secret"))


def test_certificates_of_a_removed_authority_end_their_connections(served):
    """After the request in progress; who has shown none stays."""

    async def live() -> None:
        certified = AmqpClient()
        certificate = PeerCertificate(("cn:till",), 2**53)
        join(certified.engine, served.server.meet("127.0.0.1", certificate))
        other = served.connect()
        for client in (certified, other):
            assert (await client.ask("Discover")).status == "ok"
        served.server.forget_certificates()
        assert (await certified.ended).condition == "amqp:connection:forced"
        assert (await other.ask("Discover")).status == "ok"

    served.run(live)
