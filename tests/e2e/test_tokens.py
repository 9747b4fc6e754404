"""Bearer tokens over the wire: accepted, refused in every known way, and keys that are rotated."""

import http.client
import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.minted import SigningKey, claims_of, decode, encode, signing_key
from kit.running_server import Answer, RunningServer, wait_until
from kit.token_issuer import TokenIssuer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TAKEN_S_MAX = 60.0
"""Patience with keys that are fetched within a second or two."""

RATE_PER_S = 500
"""Events a second while a key is rotated."""

LOADS = 4
"""Connections that publish them: one alone waits longer for its answers than the rate allows."""

PUBLISHER = 'sub = "system:serviceaccount:shop:*"\nmay = ["publish"]\nnamespaces = ["default"]'
OPERATOR = 'sub = "operator"\nmay = ["observe"]\nnamespaces = ["*"]'
READER = 'claims.roles = "reader"\nmay = ["read"]\nnamespaces = ["default"]'
_number = itertools.count()


class Guarded:
    """A server that requires tokens of one issuer."""

    def __init__(self, server: RunningServer, issuer: TokenIssuer, config: Path) -> None:
        self.server = server
        self.issuer = issuer
        self.config = config

    def fields(self, authorization: str | None) -> dict[str, str]:
        """The header fields of an event."""
        event = {
            "ce-specversion": "1.0",
            "ce-id": str(next(_number)),
            "ce-source": "/till",
            "ce-type": "sold",
            "content-type": "application/json",
        }
        return event if authorization is None else {**event, "authorization": authorization}

    def publish(self, authorization: str | None, path: str = "/events") -> Answer:
        """Publish one event."""
        return self.server.request("POST", path, b"{}", self.fields(authorization))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One server and one issuer for all tests."""
    folder = tmp_path_factory.mktemp("tokens")
    config = folder / "distributary.toml"
    with TokenIssuer() as issuer:
        config.write_text('auth = "required"\n' + issuer.table(PUBLISHER, READER, OPERATOR))
        with RunningServer(folder / "data", flags=["--config", str(config)]) as server:
            found = Guarded(server, issuer, config)
            wait_until(
                lambda: found.publish(f"Bearer {issuer.token()}").status == 202,
                TAKEN_S_MAX,
                "the keys of the issuer are known",
            )
            yield found


def test_a_token_may_what_its_claims_are_granted(guarded):
    """Publish by its subject, read by a role; not both."""
    token = guarded.issuer.token()
    reader = guarded.issuer.token(sub="clerk", roles=["reader"])
    assert guarded.publish(f"Bearer {token}").status == 202
    shown = {"authorization": f"Bearer {reader}"}
    assert guarded.server.request("GET", "/subscriptions", headers=shown).json() == []
    refused = guarded.publish(f"Bearer {reader}")
    assert refused.status == 403
    assert "publish" in refused.json()["detail"]
    shown = {"authorization": f"Bearer {token}"}
    assert guarded.server.request("GET", "/subscriptions", headers=shown).status == 403
    stranger = guarded.issuer.token(sub="nobody")
    assert guarded.publish(f"Bearer {stranger}").status == 403


def test_without_a_token_the_challenge_names_no_error(guarded):
    """RFC 6750, section 3.1: nothing was shown, so nothing is wrong with it."""
    answer = guarded.publish(None)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="distributary"'


def test_a_token_in_the_query_is_not_looked_at(guarded):
    """It would stand in logs of proxies and in histories of browsers."""
    token = guarded.issuer.token()
    for name in ("access_token", "token", "jwt", "authorization"):
        for path in ("/events", "/subscriptions"):
            answer = guarded.publish(None, f"{path}?{name}={token}")
            assert (answer.status, "error=" in answer.headers["www-authenticate"]) == (401, False)
    body = f"access_token={token}".encode()
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert guarded.server.request("POST", "/events", body, form).status == 401


@pytest.mark.parametrize("scheme", ["Basic", "JWT", "Token", "Digest"])
def test_another_scheme_is_refused(guarded, scheme):
    """A valid token under it counts for nothing."""
    assert guarded.publish(f"{scheme} {guarded.issuer.token()}").status == 401


def test_two_authorizations_are_refused(guarded):
    """Two readers could each take another one."""
    connection = http.client.HTTPConnection("127.0.0.1", guarded.server.port, timeout=30)
    connection.putrequest("POST", "/events")
    for name, value in guarded.fields(None).items():
        connection.putheader(name, value)
    for subject in ("system:serviceaccount:shop:till", "root"):
        connection.putheader("Authorization", f"Bearer {guarded.issuer.token(sub=subject)}")
    connection.putheader("Content-Length", "2")
    connection.endheaders(b"{}")
    assert connection.getresponse().status == 400
    connection.close()


def _changed(token: str, part: int, **members: object) -> str:
    """*token* with members of its header or claims changed, and the signature as it was."""
    parts = token.split(".")
    whole = {**json.loads(decode(parts[part].encode())), **members}
    parts[part] = encode(json.dumps(whole).encode()).decode()
    return ".".join(parts)


HOSTILE = {
    "alg none": lambda issuer: _changed(issuer.token(), 0, alg="none"),
    "alg none, no signature": lambda issuer: (
        _changed(issuer.token(), 0, alg="none").rpartition(".")[0] + "."
    ),
    "alg HS256": lambda issuer: _changed(issuer.token(), 0, alg="HS256"),
    "another subject": lambda issuer: _changed(issuer.token(), 1, sub="root"),
    "later expiry": lambda issuer: _changed(issuer.token(-3600), 1, exp=4_000_000_000),
    "expired": lambda issuer: issuer.token(-60),
    "not valid yet": lambda issuer: issuer.token(nbf=int(time.time()) + 600),
    "no expiry": lambda issuer: issuer.token(exp=None),
    "another audience": lambda issuer: issuer.token(aud="https://other.example"),
    "another issuer": lambda issuer: issuer.token(iss="https://evil.example"),
    "no token": lambda _issuer: "x",
    "dots": lambda _issuer: "..",
    "padded": lambda issuer: issuer.token() + "=",
    "a key of its own": lambda issuer: (
        signing_key("ES256", "evil")
        ._replace(key_id="one")
        .mint(claims_of(iss=issuer.url, exp=4_000_000_000), {"jku": "http://127.0.0.1:1/"})
        .decode()
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_refuses_a_hostile_token(guarded, kind):
    """On the events path and on one that is relayed; quoting nothing of it."""
    token = HOSTILE[kind](guarded.issuer)
    for answer in (
        guarded.publish(f"Bearer {token}"),
        guarded.server.request(
            "GET", "/subscriptions", headers={"authorization": f"bearer {token}"}
        ),
    ):
        assert answer.status == 401
        expected = 'Bearer realm="distributary", error="invalid_token"'
        assert answer.headers["www-authenticate"] == expected
        assert token.encode() not in answer.body or len(token) < 3


def test_a_token_that_no_header_holds_is_refused_with_the_head(guarded):
    """8 KiB is the limit of a header field."""
    answer = guarded.publish(f"Bearer {guarded.issuer.token(padding='x' * 6_200)}")
    assert (answer.status, answer.json()["code"]) == (431, "headers-too-large")


def test_no_token_is_written_anywhere(guarded):
    """Neither in the log nor in the data directory: its claims and signature stand nowhere."""
    accepted = guarded.issuer.token(canary="canary-accepted")
    refused = guarded.issuer.token(-60, canary="canary-refused")
    assert guarded.publish(f"Bearer {accepted}").status == 202
    assert guarded.publish(f"Bearer {refused}").status == 401
    shown = {"authorization": f"Bearer {accepted}"}
    assert guarded.server.request("GET", "/subscriptions", headers=shown).status == 403
    texts = [guarded.server.log.read_bytes()]
    texts += [path.read_bytes() for path in guarded.server.data_dir.rglob("*") if path.is_file()]
    for token in (accepted, refused):
        for part in token.split(".")[1:]:
            assert not any(part.encode() in text for text in texts)


class _Load(threading.Thread):
    """Publishes its share of the rate on one connection, each event with a token of its own."""

    def __init__(self, guarded: Guarded, number: int) -> None:
        super().__init__()
        self._guarded = guarded
        self._number = number
        self.stopping = threading.Event()
        self.statuses: dict[int, int] = {}

    def run(self) -> None:
        """Publish until told to stop."""
        connection = http.client.HTTPConnection("127.0.0.1", self._guarded.server.port, timeout=30)
        began_s, count = time.monotonic(), 0
        while not self.stopping.is_set():
            # Another token each time, so that none is known from before.
            token = self._guarded.issuer.token(jti=f"{self._number}-{count}")
            fields = self._guarded.fields(f"Bearer {token}")
            connection.request("POST", "/events", b"{}", fields)
            answer = connection.getresponse()
            answer.read()
            self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
            count += 1
            time.sleep(max(0.0, began_s + count * LOADS / RATE_PER_S - time.monotonic()))
        connection.close()


def _accepted(loads) -> int:
    return sum(load.statuses.get(202, 0) for load in loads)


def test_a_key_is_rotated_under_load_without_a_refusal(guarded):
    """Published first, asked for by the first token that shows it, then used by all."""
    issuer = guarded.issuer
    loads = [_Load(guarded, number) for number in range(LOADS)]
    for load in loads:
        load.start()
    try:
        wait_until(lambda: _accepted(loads) > RATE_PER_S, TAKEN_S_MAX, "the old key is used")
        new: SigningKey = signing_key("ES256", "new")
        issuer.keys = [*issuer.keys, new]
        probe = new.mint(claims_of(iss=issuer.url, iat=None, exp=4_000_000_000)).decode()
        assert guarded.publish(f"Bearer {probe}").status in (202, 503)  # 503: in a moment
        wait_until(
            lambda: guarded.publish(f"Bearer {probe}").status == 202,
            TAKEN_S_MAX,
            "the new key is known",
        )
        issuer.rotate(new, keep=True)
        wanted = _accepted(loads) + 2 * RATE_PER_S
        wait_until(lambda: _accepted(loads) > wanted, TAKEN_S_MAX, "the new key is used")
    finally:
        for load in loads:
            load.stopping.set()
        for load in loads:
            load.join()
    assert [set(load.statuses) for load in loads] == [{202}] * LOADS


def test_a_flood_of_unknown_keys_is_no_flood_of_fetches(guarded):
    """Each names another key that nobody has; who is known publishes meanwhile."""
    issuer = guarded.issuer
    stranger = signing_key("ES256", "stranger")
    claims = claims_of(iss=issuer.url, exp=4_000_000_000)
    before = issuer.asked.count("/realms/shop/keys")
    for number in range(300):
        token = stranger.mint(claims, {"kid": f"unknown-{number}"}).decode()
        assert guarded.publish(f"Bearer {token}").status in (401, 503)
    assert guarded.publish(f"Bearer {issuer.token()}").status == 202
    # One that the flood asks for, and one whose time may come meanwhile.
    assert issuer.asked.count("/realms/shop/keys") <= before + 2


def test_fetches_are_counted(guarded):
    """For who may observe."""
    shown = {"authorization": f"Bearer {guarded.issuer.token(sub='operator')}"}
    metrics = guarded.server.request("GET", "/metrics", headers=shown).body.decode()
    (line,) = [
        line
        for line in metrics.splitlines()
        if line.startswith("distributary_issuer_key_fetches_total") and "fetched" in line
    ]
    assert float(line.split()[-1]) >= 1


def test_an_issuer_that_is_removed_counts_no_longer(guarded):
    """After a reload, also for tokens that were seen before, and on every path."""
    token = f"Bearer {guarded.issuer.token()}"
    assert guarded.publish(token).status == 202
    guarded.config.write_text('auth = "required"\n')
    guarded.server.tree()[0].send_signal(signal.SIGHUP)
    wait_until(lambda: guarded.publish(token).status == 401, TAKEN_S_MAX, "the issuer is removed")
    answer = guarded.server.request("GET", "/subscriptions", headers={"authorization": token})
    assert answer.status == 401
    assert answer.json()["detail"] == "No issuer of tokens is trusted here."
