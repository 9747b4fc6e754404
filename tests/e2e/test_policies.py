"""Who may send what over the wire: audiences of Brokers, EventPolicies, tokens over AMQP."""

import asyncio
import itertools
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from distributary.access import Grant, KeyRecord, Verb, make_key
from distributary.access.tables import key_table
from distributary.protocols.amqp.engine import AmqpLogin, Ended
from kit import proton_client
from kit.amqp_client import AmqpAnswer, AmqpClient
from kit.minted import signing_key
from kit.ports import free_port
from kit.running_server import Answer, RunningServer, wait_until
from kit.token_issuer import TokenIssuer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S = 60.0
TILLS = 'sub = "till-*"\nmay = ["publish"]\nnamespaces = ["shop"]'
CLERKS = 'sub = "clerk"\nmay = ["read"]\nnamespaces = ["shop"]'
EVENTING = "/apis/eventing.knative.dev"
AUDIENCE = "eventing.knative.dev/broker/shop/{}"
_number = itertools.count()


class Guarded:
    """A server that asks who its clients are: an issuer, and a key for everything."""

    def __init__(self, server: RunningServer, issuer: TokenIssuer, key: str, port: int) -> None:
        self.server = server
        self.issuer = issuer
        self.key = key
        self.amqp_port = port

    def ask(self, method: str, path: str, value: object = None, shown: str = "") -> Answer:
        """Ask an API as who runs the server, or with the token *shown*."""
        body = None if value is None else json.dumps(value).encode()
        headers = {"content-type": "application/json"}
        headers["authorization"] = f"Bearer {shown or self.key}"
        return self.server.request(method, path, body, headers)

    def publish(self, shown: str, broker: str = "main", type_: str = "order.new") -> int:
        """Publish one event to a Broker of ``shop``; returns the status."""
        headers = {
            "ce-specversion": "1.0",
            "ce-id": str(next(_number)),
            "ce-source": "/till",
            "ce-type": type_,
            "content-type": "application/json",
            "authorization": f"Bearer {shown}",
        }
        return self.server.request("POST", f"/brokers/shop/{broker}", b"{}", headers).status

    def apply(self, plural: str, name: str, spec: dict[str, Any], version: str = "v1") -> None:
        """Make an object by the Kubernetes API."""
        path = f"{EVENTING}/{version}/namespaces/shop/{plural}"
        made = self.ask("POST", path, {"metadata": {"name": name}, "spec": spec})
        assert made.status == 201, made.body

    def policy(self, name: str, broker: str, **spec: Any) -> None:
        """Make an EventPolicy for a Broker, and wait until it is in force there."""
        ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": broker}
        self.apply("eventpolicies", name, {"to": [{"ref": ref}], **spec}, "v1alpha1")
        path = f"{EVENTING}/v1/namespaces/shop/brokers/{broker}"

        def listed() -> bool:
            policies = self.ask("GET", path).json().get("status", {}).get("policies", ())
            return name in [each["name"] for each in policies]

        wait_until(listed, WAIT_S, "the Broker names the policy")

    def amqp(self, token: str, *operations: str) -> tuple[list[AmqpAnswer], Ended | None]:
        """Log in by OAUTHBEARER, and ask; the answers, or how the connection ended."""

        async def talk() -> tuple[list[AmqpAnswer], Ended | None]:
            client = AmqpClient("namespaces/shop/subscriptions", login=AmqpLogin(token=token))
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(
                lambda: client.engine, "127.0.0.1", self.amqp_port
            )
            try:
                async with asyncio.timeout(WAIT_S):
                    answers = [await client.ask(each) for each in operations]
                    return answers, (None if operations else await client.ended)
            finally:
                transport.abort()

        return asyncio.run(talk())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One server with two Brokers for all tests."""
    folder = tmp_path_factory.mktemp("policies")
    key = make_key(secrets.token_bytes)
    grants = (Grant(may=(Verb.ADMIN,), namespaces=("*",)),)
    record = KeyRecord(id=key.id, name="operator", sha256=key.sha256, grants=grants)
    port = free_port() if proton_client.installed() else 0
    config = folder / "distributary.toml"
    with TokenIssuer() as issuer:
        config.write_text(key_table(record) + "\n" + issuer.table(TILLS, CLERKS))
        flags = ["--auth", "required", "--config", str(config)]
        flags += ["--amqp-port", str(port)] if port else []
        with RunningServer(folder / "data", flags=flags) as server:
            found = Guarded(server, issuer, key.text, port)
            for name in ("main", "other"):
                found.apply("brokers", name, {})
            token = issuer.token(sub="till-1")
            for name in ("main", "other"):
                wait_until(
                    lambda name=name: found.publish(token, name) == 202, WAIT_S, f"{name} is there"
                )
            yield found


def test_a_token_for_the_audience_of_a_broker_counts_there_alone(guarded: Guarded) -> None:
    """The address says it; no setting lists it."""
    broker = guarded.ask("GET", f"{EVENTING}/v1/namespaces/shop/brokers/main").json()
    audience = broker["status"]["address"]["audience"]
    assert audience == AUDIENCE.format("main")
    token = guarded.issuer.token(sub="till-1", aud=audience)
    assert guarded.publish(token) == 202
    assert guarded.publish(token, "other") == 403
    path = "/namespaces/shop/events"
    assert (
        guarded.server.request("POST", path, b"{}", {"authorization": f"Bearer {token}"}).status
        == 403
    )
    clerk = guarded.issuer.token(sub="clerk", aud=audience)
    assert guarded.ask("GET", "/namespaces/shop/subscriptions", shown=clerk).status == 403
    assert guarded.publish(clerk) == 403
    elsewhere = guarded.issuer.token(sub="till-1", aud="https://elsewhere.example")
    assert guarded.publish(elsewhere) == 401


def test_a_policy_says_who_may_send_what(guarded: Guarded) -> None:
    """To the Broker that it names: by subject, and by a filter."""
    guarded.apply("brokers", "ruled", {})
    tills = [guarded.issuer.token(sub=f"till-{number}") for number in range(1, 4)]
    wait_until(lambda: guarded.publish(tills[0], "ruled") == 202, WAIT_S, "the Broker is there")
    guarded.policy(
        "orders",
        "ruled",
        **{"from": [{"sub": "till-1"}], "filters": [{"prefix": {"type": "order."}}]},
    )

    def statuses(type_: str) -> list[int]:
        return [guarded.publish(token, "ruled", type_) for token in tills]

    wait_until(lambda: guarded.publish(tills[1], "ruled") == 403, WAIT_S, "it is in force")
    assert statuses("order.new") == [202, 403, 403]
    assert statuses("refund.new") == [403, 403, 403]
    assert guarded.publish(tills[1], "other") == 202
    guarded.policy("all", "ruled", **{"from": [{"sub": "till-2*"}]})
    wait_until(lambda: guarded.publish(tills[1], "ruled", "refund.new") == 202, WAIT_S, "both hold")
    assert statuses("refund.new") == [403, 202, 403]
    assert statuses("order.new") == [202, 202, 403]
    assert guarded.publish(guarded.issuer.token(sub="clerk"), "ruled") == 403
    for name in ("orders", "all"):
        path = f"{EVENTING}/v1alpha1/namespaces/shop/eventpolicies/{name}"
        assert guarded.ask("DELETE", path).status == 200
    wait_until(lambda: guarded.publish(tills[2], "ruled") == 202, WAIT_S, "none is in force")


def test_a_policy_gives_nobody_more_than_a_grant(guarded: Guarded) -> None:
    """Whom it names may still not publish."""
    guarded.apply("brokers", "named", {})
    guarded.policy("clerks", "named", **{"from": [{"sub": "*"}]})
    assert guarded.publish(guarded.issuer.token(sub="clerk"), "named") == 403
    assert guarded.publish(guarded.issuer.token(sub="till-1"), "named") == 202


def test_a_batch_with_an_event_that_may_not_be_sent_is_refused_whole(guarded: Guarded) -> None:
    """And the answer names that event."""
    guarded.apply("brokers", "batched", {})
    filters = [{"exact": {"type": "order.new"}}]
    guarded.policy("new", "batched", **{"from": [{"sub": "till-*"}], "filters": filters})
    token = guarded.issuer.token(sub="till-1")
    wait_until(lambda: guarded.publish(token, "batched", "x") == 403, WAIT_S, "it is in force")
    events = [
        {"specversion": "1.0", "id": type_, "source": "/till", "type": type_}
        for type_ in ("order.new", "order.old")
    ]
    headers = {
        "content-type": "application/cloudevents-batch+json",
        "authorization": f"Bearer {token}",
    }

    def send(batch: list[dict[str, str]]) -> Answer:
        body = json.dumps(batch).encode()
        return guarded.server.request("POST", "/brokers/shop/batched", body, headers)

    refused = send(events)
    assert (refused.status, refused.json()["code"]) == (403, "forbidden")
    assert [fault["path"] for fault in refused.json()["faults"]] == ["$[1]"]
    assert send(events[:1]).status == 202


@pytest.mark.skipif(not proton_client.installed(), reason="NOT RUN: Qpid Proton is not installed")
class TestTokensOverAmqp:
    """SASL OAUTHBEARER."""

    def test_a_token_may_what_its_claims_are_granted(self, guarded: Guarded) -> None:
        """Read by its subject, and change nothing."""
        answers, _ = guarded.amqp(guarded.issuer.token(sub="clerk"), "Query", "Discover", "Create")
        assert [answer.code for answer in answers] == [200, 200, 403]

    def test_a_token_without_grants_logs_in_and_may_nothing(self, guarded: Guarded) -> None:
        """As over HTTP: 403, not 401."""
        answers, _ = guarded.amqp(guarded.issuer.token(sub="nobody"), "Query")
        assert [answer.code for answer in answers] == [403]

    @pytest.mark.parametrize(
        "kind", ["expired", "early", "audience", "issuer", "signature", "algorithm", "text"]
    )
    def test_a_wrong_token_is_no_login(self, guarded: Guarded, kind: str) -> None:
        """The outcome of SASL says so, and the connection ends."""
        issuer = guarded.issuer
        good = issuer.token(sub="clerk")
        token = {
            "expired": issuer.token(-60, sub="clerk"),
            "early": issuer.token(sub="clerk", nbf=4_000_000_000, exp=4_000_000_100),
            "audience": issuer.token(sub="clerk", aud="https://elsewhere.example"),
            "issuer": issuer.token(sub="clerk", iss="https://evil.example"),
            "signature": good[:-8] + ("A" * 8 if good[-8:] != "A" * 8 else "B" * 8),
            "algorithm": signing_key("EdDSA", "two").mint({"sub": "clerk"}).decode(),
            "text": "nonsense",
        }[kind]
        _, ended = guarded.amqp(token)
        assert ended is not None
        assert (ended.cause, ended.condition) == ("login", "sasl-auth")
