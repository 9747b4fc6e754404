"""``key``, ``whoami`` and ``can``: what they ask, what they print, and how they end."""

import json
import re
import sys
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from distributary.access import hash_of
from distributary.access.tables import read_keys
from distributary.cli import _api, _http, main

KEY = "dk_abcdefghijklmnop_" + "x" * 43
MADE = {
    "id": "abcdefghijklmnop",
    "name": "till",
    "may": ["publish"],
    "namespaces": ["shop"],
    "names": ["brokers/default"],
    "expires": "2027-01-31T00:00:00.000+00:00",
}


class Server:
    """Answers by method and path; knows what was asked, and by whom."""

    def __init__(self) -> None:
        self.answers: dict[str, _http.Response] = {}
        self.asked: list[tuple[str, Any]] = []
        self.addresses: list[_http.Address] = []

    def says(self, asked: str, body: Any, status: int = 200) -> None:
        """To *asked*, such as ``GET /x``."""
        self.answers[asked] = _http.Response(status, {}, json.dumps(body).encode())

    def client(self, address: _http.Address) -> "Server":
        """The client, which is the server itself."""
        self.addresses.append(address)
        return self

    async def request(
        self, method: str, path: str, _headers: _http.Headers = (), body: bytes = b""
    ) -> _http.Response:
        """The answer."""
        self.asked.append((f"{method} {path}", json.loads(body or b"null")))
        return self.answers[f"{method} {path}"]

    def close(self) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server that every command reaches; nothing in the environment shows who asks."""
    made = Server()
    monkeypatch.setattr(_api, "Client", made.client)
    monkeypatch.delenv("DISTRIBUTARY_TOKEN", raising=False)
    monkeypatch.delenv("DISTRIBUTARY_URL", raising=False)
    return made


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run a command line; its exit code."""

    def running(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["distributary", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0)

    return running


CREATE = ("key", "create", "--name", "till", "--may", "publish", "--namespace", "shop")


def test_a_key_is_printed_alone_on_standard_output(server, run, capsys):
    """So that it can be piped; what to do with it is for people."""
    server.says("POST /keys", MADE | {"key": KEY}, 201)
    flags = ("--names", "brokers/default,channels/x", "--expires", "2027-01-31")
    assert run(*CREATE, *flags) == 0
    told = capsys.readouterr()
    assert told.out == f"{KEY}\n"
    assert KEY not in told.err
    assert "publish to brokers/default in shop" in told.err
    assert server.asked == [
        (
            "POST /keys",
            {
                "name": "till",
                "may": ["publish"],
                "namespaces": ["shop"],
                "names": ["brokers/default", "channels/x"],
                "expires": "2027-01-31T00:00:00Z",
            },
        )
    ]


def test_all_of_the_answer_is_printed_as_json(server, run, capsys):
    """For programs."""
    server.says("POST /keys", MADE | {"key": KEY}, 201)
    assert run(*CREATE, "--json") == 0
    assert json.loads(capsys.readouterr().out) == MADE | {"key": KEY}


def test_a_key_for_the_configuration_file_needs_no_server(server, run, capsys):
    """Standard output is the table, which holds the hash; the key is on standard error."""
    flags = ("--print", "--may", "read", "--names", "brokers/a", "--expires", "2027-01-31")
    assert run(*CREATE, *flags) == 0
    told = capsys.readouterr()
    (key,) = re.findall(r"dk_[a-z2-7]{16}_[A-Za-z0-9_-]{43}", told.err)
    assert key not in told.out
    ((record,), faults) = read_keys(tomllib.loads(told.out)["keys"])
    assert faults == []
    assert (record.name, record.sha256) == ("till", hash_of(key))
    assert record.grants[0].may == ("publish", "read")
    assert record.until_ms == 1_801_353_600_000
    assert server.asked == []


def test_every_fault_of_a_key_for_the_configuration_file_is_named(run, capsys):
    """As the server would name them."""
    assert run("key", "create", "--print", "--name", "-", "--may", "rule") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "name: expected 1 to 63" in told.err
    assert "may: expected a list of verbs" in told.err


def test_keys_are_listed(server, run, capsys):
    """With what they allow, and when they were used."""
    server.says("GET /keys", [MADE | {"lastused": "2026-11-23T11:00:00.000+00:00"}])
    assert run("key", "list") == 0
    out = capsys.readouterr().out
    for part in ("till", "publish to brokers/default in shop", "2027-01-31", "2026-11-23 11:00"):
        assert part in out
    assert run("key", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["id"] == MADE["id"]


@pytest.mark.parametrize("word", ["till", "abcdefghijklmnop"])
def test_a_key_is_revoked_by_name_or_id(server, run, capsys, word):
    """The server knows ids alone."""
    server.says("GET /keys", [MADE, MADE | {"id": "qrstuvwxyz234567", "name": "press"}])
    server.says(f"DELETE /keys/{MADE['id']}", MADE)
    assert run("key", "revoke", word) == 0
    assert capsys.readouterr().out == f"revoked {word}\n"
    assert server.asked[-1] == (f"DELETE /keys/{MADE['id']}", None)


def test_a_name_that_is_none_or_several_revokes_nothing(server, run, capsys):
    """An expired key may have the name of a valid one."""
    server.says("GET /keys", [MADE, MADE | {"id": "qrstuvwxyz234567"}])
    assert run("key", "revoke", "press") == 1
    assert run("key", "revoke", "till") == 1
    told = capsys.readouterr().err
    assert "there is no key press" in told
    assert "abcdefghijklmnop, qrstuvwxyz234567" in told
    assert [asked for asked, _ in server.asked] == ["GET /keys", "GET /keys"]


def test_whoami_tells_name_and_grants(server, run, capsys):
    """One line each."""
    grants = [{"may": ["read", "write"], "namespaces": ["shop", "farm"]}]
    server.says("GET /whoami", {"name": "key:till", "how": "key", "grants": grants})
    assert run("whoami") == 0
    assert capsys.readouterr().out == "key:till (key)\n  read, write in shop, farm\n"


@pytest.mark.parametrize(
    ("answer", "code", "out"),
    [
        ({"allowed": True, "name": "key:till"}, 0, "yes\n"),
        (
            {"allowed": False, "name": "key:till", "missing": "read in namespace shop"},
            1,
            "no: key:till may not read in namespace shop\n",
        ),
        (
            {"allowed": False, "name": "key:till", "reason": "key:till may not x: no policy."},
            1,
            "no: key:till may not x: no policy\n",
        ),
        (
            {"allowed": True, "name": "key:till", "filteredby": ["shop/p", "shop/q"]},
            0,
            "yes, what passes the filters of shop/p, shop/q\n",
        ),
    ],
)
def test_can_ends_by_the_answer(server, run, capsys, *, answer, code, out):
    """For scripts."""
    server.says("GET /can?verb=read&resource=subscriptions&namespace=shop", answer)
    assert run("can", "read", "subscriptions", "--namespace", "shop") == code
    assert capsys.readouterr().out == out


def test_a_missing_identity_is_told_with_the_remedy(server, run, capsys):
    """Whatever was asked."""
    server.says("GET /whoami", {"title": "x", "detail": "Show who you are"}, 401)
    assert run("whoami") == 1
    assert "set DISTRIBUTARY_TOKEN" in capsys.readouterr().err


ASKING: dict[tuple[str, ...], str] = {
    ("whoami",): "GET /whoami",
    ("can", "read", "events"): "GET /can?verb=read&resource=events",
    ("key", "list"): "GET /keys",
    CREATE: "POST /keys",
    ("subscriptions", "list"): "GET /subscriptions",
    ("subscriptions", "get", "x"): "GET /subscriptions/x",
    ("subscriptions", "status", "x"): "GET /subscriptions/x/status",
    ("subscriptions", "resume", "x"): "POST /subscriptions/x/resume",
    ("subscriptions", "rotate", "x"): "POST /subscriptions/x/signature/rotate",
    ("subscribe", "--sink", "http://127.0.0.1:9"): "POST /subscriptions",
    ("dead-letters", "list"): "GET /dead-letters?limit=100",
}


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_every_command_shows_who_asks(server, run, words, tmp_path, monkeypatch):
    """By the variable; or from where it is told, which comes first."""
    server.says(ASKING[words], {"message": "no"}, 403)
    path = tmp_path / "token"
    path.write_text("from-file\n")
    assert run(*words) == 1
    monkeypatch.setenv("DISTRIBUTARY_TOKEN", "from-environment")
    assert run(*words) == 1
    assert run(*words, "--token-from", f"file:{path}") == 1
    tokens = [address.token.text if address.token else None for address in server.addresses]
    assert tokens == [None, "from-environment", "from-file"]
    assert "from-file" not in repr(server.addresses)


@pytest.mark.parametrize("words", [("whoami",), ("key", "list"), CREATE], ids=" ".join)
def test_whoever_runs_the_server_needs_no_key(server, run, words, tmp_path, monkeypatch):
    """The private socket in the data folder; no token goes there."""
    monkeypatch.setenv("DISTRIBUTARY_TOKEN", "dk_secret")
    server.says(ASKING[words], {"message": "no"}, 403)
    assert run(*words, "--data-dir", str(tmp_path)) == 1
    (address,) = server.addresses
    assert address.socket == str(tmp_path / "run" / "control.sock")
    assert address.token is None


def test_a_data_folder_without_a_server_is_told(run, capsys, tmp_path):
    """With the place."""
    assert run("key", "list", "--data-dir", str(tmp_path)) == 3
    assert "control.sock" in capsys.readouterr().err.replace("\n", "")


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("dk_secret", "expected env:NAME|file:PATH"),
        ("env:NOWHERE", "there is no environment variable NOWHERE"),
        ("env:EMPTY", "holds no API key"),
        ("env:TWO_LINES", "holds no API key"),
    ],
)
def test_a_token_that_is_none_is_told_and_never_shown(
    server, run, capsys, monkeypatch, *, source, fault
):
    """A line end in it would be another header field."""
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("TWO_LINES", "dk_secret\r\nhost: x")
    assert run("whoami", "--token-from", source) == 2
    told = capsys.readouterr()
    assert fault in told.err.replace("\n", " ")
    assert "dk_secret" not in told.err + told.out
    assert server.asked == []


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://127.0.0.1:8080", False),
        ("http://[::1]:8080", False),
        ("http://localhost", False),
        ("https://events.example.com", False),
        ("http://events.example.com", True),
    ],
)
def test_a_key_in_the_clear_is_warned_of(server, run, capsys, monkeypatch, *, url, warned):
    """Where it leaves the machine."""
    monkeypatch.setenv("DISTRIBUTARY_TOKEN", "dk_secret")
    server.says("GET /whoami", {"name": "x", "how": "key", "grants": []})
    assert run("whoami", "--url", url) == 0
    told = capsys.readouterr().err
    assert ("unencrypted: use https" in told) is warned
    assert "dk_secret" not in told
