"""``subscriptions apply`` and ``edit``: what is created, replaced and left, and what is refused."""

import json
import sys
from pathlib import Path

import pytest

from distributary.cli import _api, _http, main
from distributary.core import filter as filters
from distributary.resource import ResourceRules, SinkRule
from distributary.subscriptions import resource

SINK = "http://127.0.0.1:9000/"
RULES = ResourceRules(SinkRule(local_allowed=True), filters.check)


def realized(id_, **members):
    """A subscription as the server shows it."""
    spec = resource.parse({"sink": SINK, "protocol": "HTTP", **members}, RULES)
    return {"id": id_, **spec.to_json(), "status": {"state": "ready"}}


class Server:
    """Holds subscriptions, and checks conditions; knows what was put."""

    def __init__(self):
        self.there, self.put, self.refuses = {}, [], set()

    def client(self, _address):
        """The client, which is the server itself."""
        return self

    def close(self):
        """Nothing."""

    async def request(self, method, path, headers=(), body=b""):
        """Answer as the API does."""
        id_, fields = path.rpartition("/")[2], dict(headers)
        found = self.there.get(id_)
        if method == "GET":
            if found is None:
                return answer(404, {"detail": "there is none"})
            return answer(200, found, etag=f'"{id_}-1"')
        if fields.get("if-match") not in {None, f'"{id_}-1"'}:
            return answer(412, {"detail": "it has changed"})
        if id_ in self.refuses:
            return answer(400, {"detail": "no", "faults": [{"path": "$.sink", "message": "bad"}]})
        self.put.append((id_, json.loads(body), fields))
        return answer(201 if found is None else 200, json.loads(body))


def answer(status, body, **headers):
    """A response."""
    return _http.Response(status, headers, json.dumps(body).encode())


@pytest.fixture
def server(monkeypatch):
    """In place of the network."""
    made = Server()
    monkeypatch.setattr(_api, "Client", made.client)
    return made


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command: exit code, standard output, standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["distributary", "subscriptions", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out, told.err

    return run


FILE = f"""
id: new
sink: {SINK}
protocol: HTTP
config: {{start: 2026-01-31T00:00:00Z}}
---
- id: same
  sink: {SINK}
  protocol: HTTP
  types: [a]
- id: other
  sink: {SINK}
  protocol: HTTP
  types: [b]
---
"""


def test_a_file_says_how_subscriptions_are_to_be(server, run, tmp_path):
    """Several at a time, in YAML; what is so already is not written."""
    server.there = {"same": realized("same", types=["a"]), "other": realized("other", types=["c"])}
    file = tmp_path / "all.yaml"
    file.write_text(FILE)
    assert run("apply", "-f", str(file), "--dry-run") == (
        0,
        "new would be created\nsame unchanged\nother would be replaced\n",
        "",
    )
    assert server.put == []
    code, out, _ = run("apply", "-f", str(file))
    assert (code, out) == (0, "new created\nsame unchanged\nother replaced\n")
    (made, body, fields), (replaced, _, conditions) = server.put
    assert (made, fields["if-none-match"]) == ("new", "*")
    assert body["config"] == {"start": "2026-01-31T00:00:00Z"}
    assert (replaced, conditions["if-match"]) == ("other", '"other-1"')


def test_what_get_prints_is_unchanged(server, run, tmp_path):
    """The status in it is the server's; JSON is taken too."""
    server.there = {"a": realized("a", config={"maxevents": 3}, filters=[{"exact": {"type": "x"}}])}
    file = tmp_path / "a.json"
    file.write_text(json.dumps(server.there["a"], indent=1))
    assert run("apply", "-f", str(file)) == (0, "a unchanged\n", "")


@pytest.mark.parametrize(
    "more",
    [
        {"protocolsettings": {"headers": {"authorization": "Bearer new"}}},
        {"sinkCredential": {"credentialType": "PLAIN", "identifier": "me", "secret": "new"}},
        {"protocol": "NEW"},
    ],
)
def test_where_it_is_not_known_the_server_is_asked(server, run, tmp_path, more):
    """Secrets cannot be compared, and a newer server knows more."""
    server.there = {"a": realized("a")}
    file = tmp_path / "a.json"
    body = {"id": "a", "sink": "https://sink.example/", "protocol": "HTTP"} | more
    file.write_text(json.dumps(body))
    assert run("apply", "-f", str(file)) == (0, "a replaced\n", "")
    assert server.put[0][1] == body


def test_a_refusal_is_named_and_the_others_go_on(server, run, tmp_path):
    """The exit code tells."""
    server.refuses = {"bad"}
    file = tmp_path / "a.json"
    file.write_text(json.dumps([{"id": id_, "sink": SINK} for id_ in ("bad", "good")]))
    code, out, err = run("apply", "-f", str(file))
    assert (code, out) == (1, "good created\n")
    assert "bad is not applied: 400 no" in err
    assert "$.sink" in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no subscription"),
        ("7", "subscription 1 is no object"),
        ("- {id: a}\n- {sink: b}", "subscription 2 has no id"),
        ("{id: 7}", "subscription 1 has no id"),
        ("a: [", "this is no YAML: line 1, column 5: expected the node content"),
    ],
)
def test_a_file_that_cannot_be_used_changes_nothing(server, run, tmp_path, text, told):
    """It is read whole before the first request."""
    file = tmp_path / "a.yaml"
    file.write_text(text)
    code, _, err = run("apply", "-f", str(file))
    assert code == 2
    assert told in " ".join(err.split())
    assert server.put == []


def test_a_file_that_is_not_there_is_told(run, tmp_path):
    """By name."""
    code, _, err = run("apply", "-f", str(tmp_path / "none"))
    assert code == 2
    assert "No such file" in err


@pytest.fixture
def editor(monkeypatch, tmp_path):
    """Make an editor that does what a line of Python says with *text*."""

    def make(line):
        script = tmp_path / "editor.py"
        script.write_text(
            "import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\ntext = file.read_text()\n"
            f"{line}\n"
        )
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    return make


def left(tmp_path):
    """Files that edit has left."""
    return sorted(tmp_path.glob("distributary-*.json"))


def test_an_edit_is_a_replace_of_what_was_read(server, run, editor, tmp_path):
    """The status is not shown; the condition is the tag of what was."""
    server.there = {"a": realized("a", types=["x"])}
    editor("""file.write_text(text.replace('"x"', '"y"'))""")
    assert run("edit", "a") == (0, "a replaced\n", "")
    ((id_, body, fields),) = server.put
    assert (id_, body["types"], fields["if-match"]) == ("a", ["y"], '"a-1"')
    assert "status" not in body
    assert left(tmp_path) == []


def test_an_edit_that_changes_nothing_asks_for_nothing(server, run, editor, tmp_path):
    """As with kubectl."""
    server.there = {"a": realized("a")}
    editor("pass")
    assert run("edit", "a") == (0, "a unchanged\n", "")
    assert server.put == []
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    "case",
    [
        ("file.write_text('{')", "this is not JSON", 2),
        ("file.write_text(text.replace('HTTP', 'X'))", "a is not changed: 400", 1),
    ],
)
def test_an_edit_that_is_refused_is_kept(server, run, editor, tmp_path, case):
    """So no work is lost."""
    line, told, code = case
    server.there, server.refuses = {"a": realized("a")}, {"a"}
    editor(line)
    ended, _, err = run("edit", "a")
    assert ended == code
    assert told in err
    (file,) = left(tmp_path)
    assert str(file) in err.replace("\n", "").replace(" ", "") or str(file) in err
    assert Path(file).stat().st_mode & 0o077 == 0


def test_a_change_of_others_meanwhile_is_not_overwritten(server, run, editor, monkeypatch):
    """Whoever edits decides what to do."""
    server.there = {"a": realized("a")}
    editor("file.write_text(text.replace('HTTP', 'X'))")
    asked = server.request

    async def changed(method, path, headers=(), body=b""):
        if method == "PUT":
            return answer(412, {"detail": "it has changed"})
        return await asked(method, path, headers, body)

    monkeypatch.setattr(server, "request", changed)
    code, _, err = run("edit", "a", "-n", "shop")
    assert code == 1
    assert "somebody else has changed a meanwhile" in err
    assert "distributary subscriptions edit a --namespace shop --url http" in " ".join(err.split())
    assert "apply" not in err


@pytest.mark.parametrize("editor_named", ["/nowhere/editor", f"{sys.executable} -c exit(3) --"])
def test_an_editor_that_fails_changes_nothing(server, run, monkeypatch, tmp_path, editor_named):
    """And leaves nothing behind."""
    server.there = {"a": realized("a")}
    monkeypatch.setenv("VISUAL", editor_named)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, _, err = run("edit", "a")
    assert code == 2
    assert "editor" in err
    assert left(tmp_path) == []
