"""EventPolicies hold at every node while another one takes the lead, killed or in good order."""

import base64
import contextlib
import http.client
import itertools
import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from distributary.access import Grant, KeyRecord, Verb, make_key
from distributary.access.tables import key_table
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE, STORE_PASSWORD_VARIABLE
from kit.ports import free_port
from kit.running_server import RunningServer, clean_environ, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WAIT_S_MAX = 90.0
"""Longest wait for anything that a stalled machine delays."""

PAUSE_S = 0.01
"""Between two events of a sender at a node: shorter than anything that follows a change of the
leader by itself."""

ACCEPTED, REFUSED, AGAIN, GONE = 202, 403, 503, 0
"""Answers to an event; the last one: none, since the node is not there."""

EVENTING = "/apis/eventing.knative.dev"
_number = itertools.count()


class Nodes:
    """Two nodes that ask senders who they are.

    Attributes:
        servers: The nodes.
        keys: Of the operator, of a sender that the policy names, and of one that it does not.
    """

    def __init__(self, folder: Path, kafka: Any, postgres: Any) -> None:
        store = postgres.new_database()
        grants = {
            "operator": Grant(may=(Verb.ADMIN,), namespaces=("*",)),
            "till": Grant(may=(Verb.PUBLISH,), namespaces=("shop",)),
            "other": Grant(may=(Verb.PUBLISH,), namespaces=("shop",)),
        }
        made = {name: make_key(secrets.token_bytes) for name in grants}
        self.keys = {name: key.text for name, key in made.items()}
        tables = [
            key_table(KeyRecord(id=key.id, name=name, sha256=key.sha256, grants=(grants[name],)))
            for name, key in made.items()
        ]
        environ = clean_environ() | {
            STORE_PASSWORD_VARIABLE: store.password,
            CREDENTIAL_KEY_VARIABLE: base64.b64encode(os.urandom(32)).decode(),
        }
        self.servers = []
        for number in range(2):
            config = folder / f"{number}.toml"
            settings = {
                "log": f"kafka://{','.join(kafka.servers)}/policies-{os.getpid()}",
                "store": store.url,
                "partitions": 1,
                "auth": "required",
                "node_name": f"node-{number}",
                "node_address": f"127.0.0.1:{free_port()}",
            }
            lines = [
                f"{name} = {msgspec.json.encode(value).decode()}"
                for name, value in settings.items()
            ]
            config.write_text("\n".join([*lines, *tables]))
            data = folder / f"node-{number}"
            self.servers.append(
                RunningServer(data, flags=("--config", str(config)), environ=environ)
            )

    def publish(self, server: RunningServer, sender: str, broker: str = "ruled") -> int:
        """Publish one event; the status of the answer, or ``GONE``."""
        fields = {
            "ce-specversion": "1.0",
            "ce-id": str(next(_number)),
            "ce-source": "/s",
            "ce-type": "t",
            "authorization": f"Bearer {self.keys[sender]}",
        }
        with contextlib.suppress(OSError, http.client.HTTPException):
            path = f"/brokers/shop/{broker}"
            return server.request("POST", path, b"", fields).status
        return GONE

    def rule(self, server: RunningServer, broker: str) -> None:
        """Make a Broker to which one sender may send, through *server*; wait until both count."""
        self._make(server, "v1", "brokers", broker, {})
        ref = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": broker}
        spec = {"to": [{"ref": ref}], "from": [{"sub": "key:till"}]}
        self._make(server, "v1alpha1", "eventpolicies", broker, spec)
        path = f"{EVENTING}/v1/namespaces/shop/brokers/{broker}"

        def counts() -> bool:
            code, found = self._ask(server, "GET", path)
            status = found.get("status", {}) if code == 200 else {}
            ready = {"type": "Ready", "status": "True"}.items()
            # Before that the address is not open yet, and answers 404.
            opened = any(ready <= each.items() for each in status.get("conditions", ()))
            return opened and bool(status.get("policies"))

        wait_until(counts, WAIT_S_MAX, f"{broker} is ready, and its policy in force")

    def _make(
        self, server: RunningServer, version: str, plural: str, name: str, spec: dict[str, Any]
    ) -> None:
        path = f"{EVENTING}/{version}/namespaces/shop/{plural}"
        value = {"metadata": {"name": name}, "spec": spec}
        # Where the one that leads has gone, nobody does for some seconds.
        made = {201, 409}
        wait_until(
            lambda: self._ask(server, "POST", path, value)[0] in made, WAIT_S_MAX, f"{name} is made"
        )

    def _ask(
        self, server: RunningServer, method: str, path: str, value: object = None
    ) -> tuple[int, Any]:
        fields = {
            "content-type": "application/json",
            "authorization": f"Bearer {self.keys['operator']}",
        }
        body = None if value is None else msgspec.json.encode(value)
        answer = server.request(method, path, body, fields)
        return answer.status, answer.json() if answer.status < 300 else None


class Senders:
    """A sender that the policy names and one that it does not, at both nodes without a pause.

    Attributes:
        answers: What each got from each node, by name and number.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._over = threading.Event()
        pairs = itertools.product(("till", "other"), range(len(nodes.servers)))
        self.answers: dict[tuple[str, int], list[int]] = {pair: [] for pair in pairs}
        self._threads = [threading.Thread(target=self._send, args=pair) for pair in self.answers]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _send(self, sender: str, number: int) -> None:
        server, answers = self._nodes.servers[number], self.answers[sender, number]
        while not self._over.wait(PAUSE_S):
            answers.append(self._nodes.publish(server, sender))

    def wait_for_both(self, numbers: Sequence[int]) -> None:
        """Wait until these nodes take events of one sender, and refuse the other, from now on."""
        wanted = {("till", n): ACCEPTED for n in numbers} | {("other", n): REFUSED for n in numbers}
        since = {pair: len(self.answers[pair]) for pair in wanted}
        for pair, answer in wanted.items():
            wait_until(
                lambda pair=pair, answer=answer: answer in self.answers[pair][since[pair] :],
                WAIT_S_MAX,
                f"{pair} is answered {answer}",
            )


@pytest.fixture
def nodes(tmp_path: Path, kafka_cluster, postgres) -> Iterator[Nodes]:
    """Two nodes with a Broker that has a policy; the first one leads."""
    made = Nodes(tmp_path, kafka_cluster, postgres)
    try:
        for server in made.servers:
            server.start()
            wait_until(
                lambda server=server: made.publish(server, "till") != GONE, WAIT_S_MAX, "it is up"
            )
        made.rule(made.servers[1], "ruled")
        yield made
    finally:
        for server in made.servers:
            server.kill_all()


def test_a_policy_holds_while_the_lead_changes(nodes: Nodes) -> None:
    """Of a leader that is killed, and of one that is stopped: no event of who is refused passes.

    Each leader then tells all receivers of a policy that it has made itself.
    """
    first, second = nodes.servers
    with Senders(nodes) as senders:
        senders.wait_for_both((0, 1))
        first.kill_all()
        nodes.rule(second, "after-the-kill")
        senders.wait_for_both((1,))
        first.start()
        senders.wait_for_both((0, 1))
        assert second.stop() == 0
        nodes.rule(first, "after-the-stop")
        senders.wait_for_both((0,))
    for (sender, _), answers in senders.answers.items():
        wrong = ACCEPTED if sender == "other" else REFUSED
        assert wrong not in answers
        assert {*answers} <= {ACCEPTED, REFUSED, AGAIN, GONE}
