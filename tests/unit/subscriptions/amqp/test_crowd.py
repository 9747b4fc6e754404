"""Connections to the AMQP port: what one tenant, and clients without a login, leave to others."""

import asyncio
import random

import pytest

from distributary.access import AccessSnapshot, Grant, KeyRecord, Verb, make_key
from distributary.protocols.amqp.engine import AmqpLogin
from distributary.subscriptions.amqp import CONNECTIONS_MAX, UNOPENED_MAX
from distributary.subscriptions.amqp._crowd import Crowd
from kit.amqp_client import AmqpClient, join

pytest.importorskip("cproton", reason="Qpid Proton is not installed")

NAMESPACES = {
    "shop": ("shop",),
    "till": ("till",),
    "shop, till": ("till", "shop"),
    "operator": ("*",),
}
KEYS = {name: make_key(random.Random(name).randbytes) for name in NAMESPACES}
SNAPSHOT = AccessSnapshot(
    required=True,
    keys=tuple(
        KeyRecord(
            id=key.id,
            name=name,
            sha256=key.sha256,
            grants=(Grant(may=(Verb.ADMIN,), namespaces=NAMESPACES[name]),),
        )
        for name, key in KEYS.items()
    ),
)


@pytest.fixture
def guarded(served):
    """A server that asks who its clients are."""
    served.gate.replace(SNAPSHOT)
    return served


def client_of(served, name: str) -> AmqpClient:
    """A client that shows a key."""
    return served.connect(login=AmqpLogin("anyone", password=KEYS[name].text))


async def let_in(served, name: str) -> list[AmqpClient]:
    """Clients with one key, as many as are let in one after the other."""
    clients: list[AmqpClient] = []
    while True:
        client = client_of(served, name)
        try:
            assert (await client.ask("Discover")).status == "ok"
        except ConnectionError:
            ended = await client.ended
            assert ended.condition == "amqp:resource-limit-exceeded"
            assert f" {name} are open" in ended.text
            return clients
        clients.append(client)


def test_a_tenant_leaves_connections_to_others(guarded, quiet):
    """Half of them while nobody else connects; once half are open, a quarter for each."""

    async def crowd() -> None:
        shop = await let_in(guarded, "shop")
        assert len(shop) == CONNECTIONS_MAX // 2
        assert len(await let_in(guarded, "till")) == CONNECTIONS_MAX // 4
        assert (await client_of(guarded, "operator").ask("Discover")).status == "ok"
        for client in shop:
            client.engine.abort()
        await quiet()
        assert len(await let_in(guarded, "shop")) == CONNECTIONS_MAX // 4

    guarded.run(crowd)


def test_a_key_for_several_namespaces_leaves_connections_to_others(guarded):
    """As a tenant does."""

    async def crowd() -> None:
        assert len(await let_in(guarded, "shop, till")) == CONNECTIONS_MAX // 2
        assert len(await let_in(guarded, "till")) == CONNECTIONS_MAX // 4

    guarded.run(crowd)


def test_clients_without_a_login_keep_nobody_out(guarded, quiet):
    """They are so many at most; one more, and the one that has waited longest is cut."""

    async def crowd() -> None:
        wires = []
        for _ in range(2 * UNOPENED_MAX):
            wire, _ = join(asyncio.Protocol(), guarded.server.meet())
            wires.append(wire)
        await quiet()
        assert [wire._gone for wire in wires] == [True] * UNOPENED_MAX + [False] * UNOPENED_MAX
        clients = [client_of(guarded, "shop") for _ in range(10)]
        for client in clients:
            assert (await client.ask("Discover")).status == "ok"
        assert [wire._gone for wire in wires].count(False) == UNOPENED_MAX - 10

    guarded.run(crowd)


def test_who_opens_when_all_are_open_is_told_so(served, quiet, monkeypatch):
    """It came while there was room."""

    async def crowd() -> None:
        monkeypatch.setattr(Crowd, "full", False)
        late = served.connect()
        monkeypatch.setattr(Crowd, "full", True)
        await quiet()
        ended = await late.ended
        assert ended.condition == "amqp:resource-limit-exceeded"
        assert "too many connections" in ended.text
        await quiet()
        assert not served.server._conversations

    served.run(crowd)


def test_a_crowd_counts_what_is_there():
    """Whatever comes, opens and goes, in any order."""
    crowd, rng = Crowd(), random.Random(11)
    unopened: list[object] = []
    opened: dict[object, str] = {}
    for _ in range(5_000):
        step = rng.choice((0, 0, 1, 1, 2))
        if step == 0:
            one = object()
            late = crowd.enter(one)
            assert (late is not None) == (len(unopened) >= UNOPENED_MAX)
            if late is not None:
                assert late is unopened.pop(0)
                crowd.leave(late)
            unopened.append(one)
        elif step == 1 and unopened:
            one = unopened[rng.randrange(len(unopened))]
            tenant = rng.choice(("shop", "till", "farm,shop", ""))
            own = list(opened.values()).count(tenant)
            share = 2 * len(opened) >= CONNECTIONS_MAX and 4 * own >= CONNECTIONS_MAX
            refused = len(opened) >= CONNECTIONS_MAX or (bool(tenant) and share)
            assert bool(crowd.open(one, tenant)) == refused
            if not refused:
                unopened.remove(one)
                opened[one] = tenant
        elif opened:
            one = rng.choice(list(opened))
            crowd.leave(one)
            del opened[one]
    for one in (*unopened, *opened):
        crowd.leave(one)
    assert not crowd._unopened
    assert not crowd._open
    assert not crowd._of_holders
