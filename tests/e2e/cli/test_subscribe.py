"""``subscribe`` and ``subscriptions`` against a server that keeps subscriptions, and no more."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from distributary.cli import main

SINK = "http://127.0.0.1:9000"


class Kept(ThreadingHTTPServer):
    """The part of the Subscriptions API that the commands use."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.subscriptions: dict[str, dict[str, object]] = {}
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Kept

    def log_message(self, *_arguments: object) -> None:
        """Nothing."""

    def _answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _id(self) -> str:
        return unquote(self.path.removeprefix("/subscriptions/"))

    def _body(self) -> dict[str, object]:
        body: dict[str, object] = json.loads(
            self.rfile.read(int(self.headers["content-length"])) or b"{}"
        )
        return body

    def do_GET(self) -> None:
        """The list."""
        self._answer(200, list(self.server.subscriptions.values()))

    def do_POST(self) -> None:
        """Create."""
        self.server.subscriptions["made"] = self._body() | {"id": "made"}
        self._answer(201, self.server.subscriptions["made"])

    def do_PUT(self) -> None:
        """Create or replace, with the one condition (RFC 9110, section 13.1.2)."""
        there = self._id() in self.server.subscriptions
        body = self._body() | {"id": self._id()}
        if there and self.headers["if-none-match"] == "*":
            self._answer(412, {"title": "The resource is in another state", "status": 412})
            return
        self.server.subscriptions[self._id()] = body
        self._answer(200 if there else 201, body)

    def do_DELETE(self) -> None:
        """Delete."""
        self.rfile.read(int(self.headers["content-length"]))
        if self.server.subscriptions.pop(self._id(), None) is None:
            self._answer(404, {"detail": "there is no subscription with this id"})
        else:
            self._answer(200, {})


@pytest.fixture
def kept() -> Iterator[Kept]:
    """A server without subscriptions."""
    with Kept() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Shell:
    """Runs commands in this process."""

    def __init__(
        self,
        kept: Kept,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("DISTRIBUTARY_URL", kept.url)

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        self._monkeypatch.setattr(sys, "argv", ["distributary", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        said = self._capsys.readouterr()
        code = caught.value.code
        return (code if isinstance(code, int) else 0), said.out, said.err


@pytest.fixture
def shell(kept: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Commands find the server by the environment."""
    return Shell(kept, monkeypatch, capsys)


def test_an_id_that_is_taken_is_not_replaced_unless_this_is_said(kept: Kept, shell: Shell) -> None:
    """Refused with a hint, and nothing changes; with the flag it is replaced, and both are said."""
    code, out, err = shell.run("subscribe", "--id", "x", "--sink", SINK, "--type", "a")
    assert (code, json.loads(out)["types"]) == (0, ["a"])
    assert err == "created x\n"
    code, out, err = shell.run("subscribe", "--id", "x", "--sink", SINK)
    assert (code, out) == (1, "")
    assert "x already" in err
    assert "--replace" in err
    assert kept.subscriptions["x"]["types"] == ["a"]
    code, _, err = shell.run("subscribe", "--id", "x", "--sink", SINK, "--replace")
    assert (code, err) == (0, "replaced x\n")
    assert "types" not in kept.subscriptions["x"]


def test_a_subscription_without_an_id_is_created_and_says_which(shell: Shell) -> None:
    """The id is the server's; it stands beside the object, for people."""
    code, _, err = shell.run("subscribe", "--sink", SINK)
    assert (code, err) == (0, "created made\n")


def test_a_whole_subscription_comes_from_a_file(kept: Kept, shell: Shell, tmp_path: Path) -> None:
    """What was printed is taken back, under the same id."""
    shell.run("subscribe", "--id", "x", "--sink", SINK, "--prefix", "type=com.")
    file = tmp_path / "x.json"
    file.write_text(json.dumps(kept.subscriptions["x"] | {"sink": SINK + "/other"}))
    assert shell.run("subscribe", "--file", str(file))[0] == 1
    assert shell.run("subscribe", "--file", str(file), "--replace")[0] == 0
    assert kept.subscriptions["x"]["sink"] == SINK + "/other"
    assert kept.subscriptions["x"]["filters"] == [{"prefix": {"type": "com."}}]
    assert shell.run("subscribe", "--file", str(file), "--id", "y")[2] == "created y\n"


@pytest.mark.parametrize("words", [(), ("--file", "x.json", "--sink", SINK)], ids=["none", "both"])
def test_a_subscription_is_said_by_flags_or_by_a_file(shell: Shell, words: tuple[str, ...]) -> None:
    """By one of them."""
    code, _, err = shell.run("subscribe", *words)
    assert code == 2
    assert "--file" in err


def test_a_deletion_names_what_it_cannot_find_and_goes_on(kept: Kept, shell: Shell) -> None:
    """The others are deleted; the exit code says that not all were."""
    kept.subscriptions |= {"a": {"id": "a"}, "b": {"id": "b"}}
    code, out, err = shell.run("subscriptions", "delete", "a", "nope", "b")
    assert (code, kept.subscriptions) == (1, {})
    assert out == "deleted a\ndeleted b\n"
    assert "nope is not deleted: 404" in err
    kept.subscriptions["c"] = {"id": "c"}
    assert shell.run("subscriptions", "delete", "c")[0] == 0


def test_a_list_shows_whole_ids(kept: Kept, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are copied into other commands."""
    id_ = "88d55534-8216-4a2e-9c3d-1b2c3d4e5f60"
    kept.subscriptions[id_] = {
        "id": id_,
        "protocol": "HTTP",
        "sink": "https://a-long-name.example.com/with/a/path",
        "types": ["com.example.order.created", "com.example.order.deleted"],
        "filters": [{"exact": {"subject": "a-long-subject-of-an-event"}}],
    }
    monkeypatch.setenv("COLUMNS", "80")
    assert id_ in shell.run("subscriptions", "list")[1]
