"""Every route and method of every surface, asked over the wire by every kind of identity.

Then what the audit log tells of it.
"""

import asyncio
import contextlib
import http.client
import json
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distributary.access import KeyRecord, make_key
from distributary.access.tables import key_table
from distributary.protocols.amqp.engine import AmqpLogin
from kit import proton_client
from kit.access_table import MeantTable
from kit.amqp_client import AmqpClient
from kit.ports import free_port
from kit.running_server import RunningServer, wait_until

ROOT = Path(__file__).parents[2]
CANARY = "canary-of-a-secret"
REFUSED_A_SECOND = 45
"""Refused changes between two sweeps of the receiver; it records 50 of them."""
_CHANGING = frozenset(("POST", "PUT", "PATCH", "DELETE"))


class Asker:
    """Asks by one connection, with a key of each column."""

    def __init__(self, server, keys) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self._keys = keys

    def ask(self, way, column, value=None):
        """The response to *way*, which is read, and its body."""
        _, method, path, _ = way
        headers = {}
        if column != "none":
            headers["authorization"] = f"Bearer {self._keys[column].text}"
        body = json.dumps(value or {}) if method in ("POST", "PUT", "PATCH") else None
        if body is not None:
            headers["content-type"] = "application/json"
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.getheader("connection") == "close":
            self._connection.close()
        return response, answer

    def swept(self, since):
        """Wait for a sweep of the receiver after *since*; what to wait for the next one by.

        A receiver renews the date of its own responses then, and counts refusals anew.
        """
        while True:
            response, _ = self.ask(("", "GET", "/metrics", ""), "none")
            if response.getheader("date") != since:
                return response.getheader("date")

    def close(self) -> None:
        """Go."""
        self._connection.close()


@pytest.fixture(scope="module")
def asker(server, keys) -> Iterator[Asker]:
    """Asks the server."""
    made = Asker(server, keys)
    yield made
    made.close()


def audited(server, count=0) -> list[dict]:
    """The lines of the audit log, once there are *count*: a line may follow its response."""

    def lines() -> list[str]:
        return server.paths.audit.read_text().splitlines()

    wait_until(lambda: len(lines()) >= count, 30.0, f"{count} lines")
    return list(map(json.loads, lines()))


def counted(lines) -> Counter:
    """How often each change by each identity stands in *lines*; in the columns' words."""
    names = {"nobody": "none"}
    return Counter(
        (names.get(line["who"], line["who"].removeprefix("key:")), line["what"], line["object"])
        for line in lines
    )


def changing(matrix) -> list:
    """Ways that change something: neither events nor questions, and no callbacks of consent."""
    return [
        way
        for way in matrix.ways()
        if way.method in _CHANGING
        and way.surface != "events"
        and not way.path.startswith(("/consent/", "/apis/authorization.k8s.io/"))
        and not way.path.endswith("/filters/try")
    ]


@pytest.fixture(scope="module")
def matrix():
    """scripts/access_matrix.py, as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        import access_matrix  # noqa: PLC0415 - found by the line above

        yield access_matrix
    sys.modules.pop("access_matrix", None)


@pytest.fixture(scope="module")
def meant(matrix) -> Callable[[Any, str], int | None]:
    """Status of the refusal of a way to a column, as it was written down; None: let through."""
    return MeantTable(matrix.STRANGERS).expected


@pytest.fixture(scope="module")
def keys(matrix):
    """A key by column; one has expired, and one was never made."""
    return {name: make_key(secrets.token_bytes) for name in (*matrix.GRANTS, "expired", "wrong")}


@pytest.fixture(scope="module")
def amqp_port() -> int | None:
    """Where the server speaks AMQP; None: Qpid Proton is not installed."""
    return free_port() if proton_client.installed() else None


@pytest.fixture(scope="module")
def server(tmp_path_factory, matrix, keys, amqp_port) -> Iterator[RunningServer]:
    """A server that asks who its clients are."""
    folder = tmp_path_factory.mktemp("matrix")
    grants = {**matrix.GRANTS, "expired": matrix.GRANTS["operator"]}
    tables = [
        key_table(
            KeyRecord(
                id=keys[name].id,
                name=name,
                sha256=keys[name].sha256,
                grants=(grant,),
                until_ms=1_000 if name == "expired" else None,
            )
        )
        for name, grant in grants.items()
    ]
    config = folder / "distributary.toml"
    config.write_text("\n".join(tables))
    flags = ["--auth", "required", "--private-sinks", "allow", "--config", str(config)]
    if amqp_port is not None:
        flags += ["--amqp-port", str(amqp_port)]
    made = RunningServer(folder / "data", flags=flags)
    with made:
        made.wait_ready()
        yield made


def test_each_cell_of_the_table_holds(asker, matrix, meant):
    """401 and 403 where the table says so; everything else was let through the gate."""
    wrong: list[str] = []
    asked = 0
    for way in matrix.ways():
        for column in (*matrix.STRANGERS, *matrix.GRANTS):
            response, _ = asker.ask(way, column)
            asked += 1
            status = response.status if response.status in (401, 403) else None
            expected = meant(way, column)
            if status != expected:
                wrong.append(
                    f"{column}: {way.method} {way.path}: {response.status}, not {expected}"
                )
            if status == 401:
                assert "Bearer" in (response.getheader("www-authenticate") or "")
    assert wrong == []
    assert asked > 1_000


def test_each_change_of_the_table_stands_in_the_audit_log(server, matrix, meant):
    """Those that were let through once each; refused ones of a flood once at most.

    Nothing else has a line: no event, no question, nothing that was read.
    """
    let_through, refused = Counter(), Counter()
    for way in changing(matrix):
        for column in matrix.GRANTS:
            into = let_through if meant(way, column) is None else refused
            into[column, way.method, way.path] += 1
        refused["none", way.method, way.path] += len(matrix.STRANGERS)
    lines = audited(server, let_through.total() + REFUSED_A_SECOND)
    assert counted(line for line in lines if line["status"] not in (401, 403)) == let_through
    of_refused = counted(line for line in lines if line["status"] in (401, 403))
    assert of_refused <= refused


def test_refused_changes_stand_in_the_audit_log_too(server, asker, matrix, meant):
    """Each once, where they are no flood: what nobody asks for, and what another tenant does."""
    date = asker.swept(asker.swept(None))  # by then the lines of what was asked before are there
    before, wanted = len(audited(server)), Counter()
    for way in changing(matrix):
        for column in ("none", "other"):
            if meant(way, column) is not None:
                if wanted.total() % REFUSED_A_SECOND == 0:
                    date = asker.swept(date)
                status = asker.ask(way, column)[0].status
                wanted[column, way.method, way.path, status] += 1
    found = Counter(
        (*key, line["status"])
        for line in audited(server, before + wanted.total())[before:]
        for key in counted([line])
    )
    assert found == wanted


def test_no_secret_stands_in_the_audit_log(server, asker, keys):
    """Nor in the log of the server: keys shown and made, credentials of sinks, queries."""
    settings = {"headers": {"x-api-key": CANARY}, "signature": {"scheme": "v1"}}
    credential = {"credentialType": "PLAIN", "identifier": "me", "secret": CANARY}
    subscription = {
        "sink": "https://127.0.0.1:9/",
        "protocol": "HTTP",
        "sinkcredential": credential,
        "protocolsettings": settings,
    }
    trigger = {"metadata": {"name": "t", "annotations": {"note": CANARY}}, "spec": {}}
    asked = (
        ("PUT", "/namespaces/shop/subscriptions/s", subscription, 201),
        ("POST", "/namespaces/shop/subscriptions/s/signature/rotate", {}, 200),
        ("POST", f"/namespaces/shop/dead-letters/purge?secret={CANARY}", {}, 400),
        ("POST", "/keys", {"name": "k", "may": ["read"], "namespaces": ["shop"]}, 201),
        ("POST", "/apis/eventing.knative.dev/v1/namespaces/shop/triggers", trigger, 422),
    )
    canaries = [CANARY, *(key.text[20:] for key in keys.values())]
    before = len(audited(server))
    for method, path, value, status in asked:
        response, body = asker.ask(("", method, path, ""), "admin", value)
        assert response.status == status, body
        made = json.loads(body)
        if "key" in made:
            canaries.append(made["key"][20:])
        signature = made.get("protocolsettings", {}).get("signature", {})
        canaries += signature.get("secret", "").split()
    assert len(audited(server, before + len(asked))) == before + len(asked)
    assert len(canaries) >= 13  # of the columns, made above, and of both signatures
    text = server.paths.audit.read_text() + server.log.read_text()
    assert [canary for canary in canaries if canary in text] == []


@pytest.mark.usefixtures("server")
def test_each_cell_over_amqp_holds(amqp_port, keys, matrix, meant):
    """Strangers are refused with the login; 403 where the table says so, and nowhere else."""
    if amqp_port is None:
        pytest.skip("NOT RUN: Qpid Proton is not installed")
    ways = list(matrix.amqp_ways())
    assert {way.method for way in ways} == {*matrix.OperationName, matrix.DISCOVER}

    @contextlib.asynccontextmanager
    async def connected(column: str, address: str) -> AsyncIterator[AmqpClient]:
        login = AmqpLogin("x", password=keys[column].text) if column in keys else AmqpLogin()
        client = AmqpClient(address, login=login)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: client.engine, "127.0.0.1", amqp_port)
        try:
            yield client
        finally:
            transport.abort()

    async def wrong(column: str, address: str) -> list[str]:
        async with connected(column, address) as client:
            return await wrong_of(client, column, address)

    async def wrong_of(client: AmqpClient, column: str, address: str) -> list[str]:
        found: list[str] = []
        if column in matrix.STRANGERS:
            async with asyncio.timeout(30):
                ended = await client.ended
            return [] if ended.cause == "login" else [f"{column}: {ended}"]
        for way in ways:
            if way.path == address:
                named = {} if way.method in ("Create", "Query", "Discover") else {"id": "x"}
                body = {} if way.method in ("Create", "Update") else None
                code = (await client.ask(str(way.method), body, **named)).code
                if (403 if code == 403 else None) != meant(way, column):
                    found.append(f"{column}: {way.method} {address}: {code}")
        return found

    async def everybody() -> list[str]:
        columns = (*matrix.STRANGERS, *matrix.GRANTS)
        addresses = dict.fromkeys(way.path for way in ways)
        return [
            each
            for column in columns
            for address in addresses
            for each in await wrong(column, address)
        ]

    assert {meant(way, column) for way in ways for column in matrix.STRANGERS} == {401}
    assert asyncio.run(everybody()) == []
