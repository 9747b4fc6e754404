"""The audit log: one line for each change, without its content."""

import asyncio
import json

import pytest
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from tests.kit.asgi_client import AsgiClient

from distributary.access import Change, Grant, Identity, IdentityKind, Verb, encode_identity
from distributary.server.processes.base.audit import (
    FILES_MAX,
    HOUR_MS,
    IDENTITIES_MAX,
    LEFT_OUT,
    OTHERS,
    REFUSAL_FILES_MAX,
    REFUSALS_PER_HOUR,
    UNCHANGED_PER_HOUR,
    AuditLine,
    AuditLog,
    ChangeLog,
    RefusalLog,
)
from distributary.server.processes.control.audited import Audited

CANARY = "must-never-be-written"
TILL = Identity(
    name="key:till",
    how=IdentityKind.KEY,
    grants=(Grant(may=(Verb.WRITE,), namespaces=("shop",)),),
)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Makes, refuses, or fails."""
    path = scope["path"]
    if path == "/fails":
        raise RuntimeError(CANARY)
    answer = Response(CANARY, 200)
    if path == "/subscriptions":
        answer = Response(CANARY, 201, {"location": f"/subscriptions/new?{CANARY}"})
    elif path == "/refused":
        answer = Response(CANARY, 403)
    elif path == "/consent/none":
        answer = Response(CANARY, 404)
    elif path == "/apis/dry":
        scope["state"]["dry_run"] = True
    elif path == "/apis/partly":
        scope["state"]["partly"] = True
        answer = Response(CANARY, 429)
    elif path.startswith("/apis/"):
        answer = JSONResponse({"kind": CANARY, "metadata": {"name": "made"}}, 201)
    await answer(scope, receive, send)


@pytest.fixture
def log(tmp_path):
    """An empty audit log."""
    return AuditLog(tmp_path / "audit.jsonl", lambda: 7)


@pytest.fixture
def client(log):
    """A client of an audited application."""
    with asyncio.Runner() as runner:
        yield AsgiClient(Audited(application, log), runner)


def lines(tmp_path):
    """What stands in the file."""
    path = tmp_path / "audit.jsonl"
    text = path.read_text() if path.exists() else ""
    assert CANARY not in text
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("asked", "changed", "status"),
    [
        (("POST", "/subscriptions"), "/subscriptions/new", 201),
        (("PUT", f"/subscriptions/x?{CANARY}"), "/subscriptions/x", 200),
        (("DELETE", "/subscriptions/x"), "/subscriptions/x", 200),
        (("PATCH", "/refused"), "/refused", 403),
        (("POST", "/apis/g/v1/namespaces/shop/triggers"), None, 201),
        (("DELETE", "/apis/g/v1/namespaces/shop/triggers/t"), None, 201),
    ],
)
def test_a_change_has_one_line(client, tmp_path, asked, changed, status):
    """Who, what, to which object, from where, with what result; no content, no query."""
    method, target = asked
    if changed is None:
        changed = target + ("/made" if method == "POST" else "")
    headers = [
        ("x-distributary-identity", encode_identity(TILL).decode()),
        ("x-forwarded-for", "192.0.2.7"),
        ("authorization", f"Bearer {CANARY}"),
    ]
    client.request(method, target, CANARY.encode(), headers)
    assert lines(tmp_path) == [
        {
            "time_ms": 7,
            "who": "key:till",
            "how": "key",
            "what": method,
            "object": changed,
            "origin": "192.0.2.7",
            "status": status,
            "surface": "http",
        }
    ]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_consent_by_callback_has_a_line_only_where_it_is_given(client, tmp_path, method):
    """Also by GET, which changes something here; guesses at a key fill no log."""
    client.request(method, f"/consent/none?key={CANARY}", b"", ())
    assert lines(tmp_path) == []
    client.request(method, f"/consent/name?key={CANARY}", b"", ())
    (line,) = lines(tmp_path)
    assert (line["what"], line["object"], line["status"]) == (method, "/consent/name", 200)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/subscriptions"),
        ("HEAD", "/subscriptions"),
        ("OPTIONS", "/subscriptions"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
def test_what_changes_nothing_has_none(client, tmp_path, method, target):
    """Reads, and questions that are posted."""
    client.request(method, target)
    assert lines(tmp_path) == []


def test_a_change_that_fails_has_a_line(client, tmp_path):
    """It may have done something."""
    with pytest.raises(RuntimeError):
        client.request("POST", "/fails")
    (line,) = lines(tmp_path)
    assert (line["who"], line["status"]) == ("local", 500)


def test_files_are_put_aside_and_bounded(tmp_path):
    """The newest lines are in the first file; nobody else can read any."""
    log = AuditLog(tmp_path / "audit.jsonl", lambda: 7, file_bytes_max=1_000)
    for number in range(200):
        log.write(
            AuditLine(
                time_ms=0,
                who="w" * 10_000 if number == 3 else "w",
                how="key",
                what="PUT",
                object=f"/x/{number}",
                status=200,
                surface="http",
            )
        )
    log.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == FILES_MAX
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert all(path.stat().st_size <= 1_000 for path in files)
    assert lines(tmp_path)[-1]["object"] == "/x/199"
    kept = sum(len(path.read_text().splitlines()) for path in files)
    assert 50 < kept < 100


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, capfd):
    """The loss is told."""
    log = AuditLog(tmp_path / "nowhere" / "audit.jsonl", lambda: 7)
    log.write(
        AuditLine(
            time_ms=0, who="w", how="key", what="PUT", object="/x", status=200, surface="http"
        )
    )
    assert "audit-failed" in "".join(capfd.readouterr())


def line(name: str) -> AuditLine:
    """A line about *name*."""
    return AuditLine(
        time_ms=0, who="w", how="key", what="PUT", object=name, status=200, surface="http"
    )


def test_several_processes_append_to_one_file(tmp_path):
    """Each puts it aside when it is full, and finds the new one that the other has made."""
    path = tmp_path / "audit.jsonl"
    one = AuditLog(path, lambda: 7, file_bytes_max=300)
    other = AuditLog(path, lambda: 7, file_bytes_max=300)
    for number in range(20):
        (one if number % 2 else other).write(line(f"/{number}"))
    one.close()
    other.close()
    texts = [text for each in tmp_path.iterdir() for text in each.read_text().splitlines()]
    found = [json.loads(text)["object"] for text in texts]
    assert lines(tmp_path)[-1]["object"] == "/19"
    assert len(found) == len(set(found))
    assert set(found) >= {f"/{number}" for number in range(8, 20)}


def test_refusals_push_no_change_out(tmp_path):
    """However many there are: a flood has files of its own, which are bounded too."""
    path, flood_path, now_ms = tmp_path / "audit.jsonl", tmp_path / "audit-refused.jsonl", [0]
    changes = AuditLog(path, lambda: 7, file_bytes_max=1_000_000)
    flood = AuditLog(flood_path, lambda: 7, file_bytes_max=10_000, files_max=REFUSAL_FILES_MAX)
    refusals = RefusalLog(changes, flood, lambda: now_ms[0])
    changes.change(Change(TILL, "PUT", "/subscriptions/x", "", 200, "http"))
    for _ in range(2):
        for _ in range(REFUSALS_PER_HOUR + 500):
            refusals.write(Change(TILL, "PUT", "/subscriptions/y", "", 401, "http"))
        now_ms[0] += HOUR_MS
    statuses = [line["status"] for line in lines(tmp_path)]
    assert statuses == [200] + [401] * 2 * REFUSALS_PER_HOUR
    aside = sorted(tmp_path.glob("audit-refused*.jsonl"))
    assert [each.name for each in aside] == ["audit-refused.1.jsonl", "audit-refused.jsonl"]
    assert all(0 < each.stat().st_size <= 10_000 for each in aside)


def test_a_line_names_the_node(tmp_path):
    """Where there are several: each has a file of its own, which people put together."""
    log = AuditLog(tmp_path / "audit.jsonl", lambda: 7, node="node-1")
    log.change(Change(TILL, "POST", "/subscriptions/x", "", 200, "http"))
    assert [line["node"] for line in lines(tmp_path)] == ["node-1"]


def asked_by(who: str, status: int, name: str = "/subscriptions/x", **members: object) -> AuditLine:
    """A line about a request of *who*."""
    return AuditLine(
        time_ms=0,
        who=who,
        how="key",
        what="PUT",
        object=name,
        status=status,
        surface="http",
        **members,
    )


@pytest.mark.parametrize("members", [{"status": 422}, {"status": 200, "dry_run": True}], ids=str)
def test_what_changes_nothing_pushes_no_change_out(tmp_path, members):
    """Neither own ones nor those of others; the next hour says how many lines there are not."""
    now_ms = [0]
    log = ChangeLog(tmp_path / "audit.jsonl", lambda: now_ms[0])
    log.write(asked_by("key:evil", 200, "/subscriptions/secret"))
    for number in range(UNCHANGED_PER_HOUR + 500):
        log.write(asked_by("key:evil", name=f"/x/{number}", **members))
    log.write(asked_by("key:till", **members))
    for _ in range(UNCHANGED_PER_HOUR + 1):
        log.write(asked_by("key:evil", 200))
    log.write(asked_by("key:evil", 503))
    found = lines(tmp_path)
    assert found[0]["object"] == "/subscriptions/secret"
    assert len(found) == 1 + UNCHANGED_PER_HOUR + 1 + UNCHANGED_PER_HOUR + 1 + 1
    now_ms[0] = HOUR_MS
    log.write(asked_by("key:till", 200, "/next"))
    told, following = lines(tmp_path)[len(found) :]
    assert (told["who"], told["what"], told["left_out"]) == ("key:evil", LEFT_OUT, 500)
    assert (told["object"], told["status"]) == (f"/x/{UNCHANGED_PER_HOUR + 499}", members["status"])
    assert (following["object"], "left_out" in following) == ("/next", False)
    log.write(asked_by("key:evil", name="/again", **members))
    assert lines(tmp_path)[-1]["object"] == "/again"
    log.close()
    assert lines(tmp_path)[-1]["object"] == "/again"


def test_many_identities_push_no_change_out(tmp_path):
    """Those of one tenant, which may make keys: together they have one number; a stop tells it."""
    log = ChangeLog(tmp_path / "audit.jsonl", lambda: 7)
    for number in range(IDENTITIES_MAX + 3 * UNCHANGED_PER_HOUR):
        log.write(asked_by(f"key:{number}", 404))
    assert len(lines(tmp_path)) == IDENTITIES_MAX + UNCHANGED_PER_HOUR
    log.close()
    last = lines(tmp_path)[-1]
    assert (last["who"], last["left_out"]) == (OTHERS, 2 * UNCHANGED_PER_HOUR)


def test_a_full_disk_loses_no_count(tmp_path, capfd):
    """The line that cannot be written closes the file, and not the hour."""
    log = ChangeLog(tmp_path / "nowhere" / "audit.jsonl", lambda: 7)
    for _ in range(UNCHANGED_PER_HOUR + 5):
        log.write(asked_by("key:evil", 404))
    (tmp_path / "nowhere").mkdir()
    log.close()
    line = json.loads((tmp_path / "nowhere" / "audit.jsonl").read_text())
    assert line["left_out"] == 5
    assert "audit-failed" in "".join(capfd.readouterr())


def test_only_the_application_says_what_was_a_dry_run(client, tmp_path):
    """A query may say so where nothing heeds it."""
    client.request("PUT", "/apis/dry?dryRun=All")
    client.request("PUT", "/subscriptions/x?dryRun=All")
    assert [line.get("dry_run") for line in lines(tmp_path)] == [True, None]


def test_what_was_refused_after_a_part_of_it_is_never_left_out(tmp_path):
    """Some of a collection is gone, whatever the answer is."""
    log = ChangeLog(tmp_path / "audit.jsonl", lambda: 7)
    for _ in range(UNCHANGED_PER_HOUR + 1):
        log.write(asked_by("key:evil", 409))
    log.write(asked_by("key:evil", 429, "/triggers", partly=True))
    last = lines(tmp_path)[-1]
    assert (last["object"], last["status"], last["partly"]) == ("/triggers", 429, True)


def test_the_application_says_what_was_refused_after_a_part_of_it(client, tmp_path):
    """A collection of which some are gone."""
    client.request("DELETE", "/apis/partly")
    client.request("PATCH", "/refused")
    assert [line.get("partly") for line in lines(tmp_path)] == [True, None]
