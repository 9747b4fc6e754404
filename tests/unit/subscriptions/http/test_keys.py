"""API keys, and who is who, over HTTP."""

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest

from distributary.access import (
    IDENTITY_FIELD,
    AccessSnapshot,
    Grant,
    Identity,
    IdentityKind,
    KeyRecord,
    PolicyRecord,
    Verb,
    encode_identity,
    hash_of,
)
from kit.asgi_client import Answer

KEY = re.compile(r"dk_([a-z2-7]{16})_[A-Za-z0-9_-]{43}")


def sent_by(name: str, *grants: Grant, until_ms: int | None = None) -> tuple[str, str]:
    """The header field by which a receiver tells who sends a request."""
    identity = Identity(
        name=f"key:{name}", how=IdentityKind.KEY, grants=grants, subject=name, until_ms=until_ms
    )
    return IDENTITY_FIELD.decode(), encode_identity(identity).decode()


def grant(may: str, namespaces: str, names: str = "") -> Grant:
    """A grant from words."""
    verbs = tuple(map(Verb, may.split()))
    return Grant(may=verbs, namespaces=tuple(namespaces.split()), names=tuple(names.split()))


SHOP = sent_by("shop", grant("admin", "shop"))
FARM = sent_by("farm", grant("admin", "farm"))
TILL = sent_by("till", grant("publish", "shop", "brokers/a"), until_ms=60_000)


def make(api, name: str = "till", *headers: tuple[str, str], **members: Any) -> Answer:
    """Ask for a key."""
    body = {"name": name, "may": ["publish"], "namespaces": ["shop"], **members}
    return api.send("POST", "/keys", body, *headers)


def test_a_key_is_shown_once_and_kept_as_a_hash(api):
    """Never again, not even its hash."""
    answer = make(api, expires="2027-01-31T00:00:00Z", names=["brokers/default"])
    body = answer.json()
    found = KEY.fullmatch(body["key"])
    assert found is not None
    assert (answer.status, body["id"]) == (201, found[1])
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["location"] == f"/keys/{found[1]}"
    assert api.announcer.count == 1
    (stored,) = api.key_store.read_all()
    assert stored.record.sha256 == hash_of(body["key"])
    told = {name: value for name, value in body.items() if name != "key"}
    assert api.request("GET", "/keys").json() == [told]
    assert api.request("GET", f"/keys/{found[1]}").json() == told
    assert told == {
        "id": found[1],
        "name": "till",
        "may": ["publish"],
        "namespaces": ["shop"],
        "names": ["brokers/default"],
        "created": "1970-01-01T00:00:00.000+00:00",
        "createdby": "local",
        "expires": "2027-01-31T00:00:00.000+00:00",
    }


def test_namespaces_take_turns_at_changes_of_keys(api, monkeypatch):
    """Each change waits for the receivers: many of one namespace delay no other."""
    begun, going_on = asyncio.Event(), asyncio.Event()

    async def slowly():
        begun.set()
        await going_on.wait()

    monkeypatch.setattr(api.announcer, "announce", slowly)

    def ask(name, namespace, sender):
        body = {"name": name, "may": ["publish"], "namespaces": [namespace]}
        fields = [("content-type", "application/json"), sender]
        sent = json.dumps(body).encode()
        return asyncio.create_task(api.client.ask("POST", "/keys", sent, fields))

    async def race():
        asked = [ask(f"till-{number}", "shop", SHOP) for number in range(9)]
        await begun.wait()
        asked.append(ask("barn", "farm", FARM))
        await asyncio.sleep(0)
        done = []
        for each in asked:
            each.add_done_callback(done.append)
        going_on.set()
        assert {answer.status for answer in await asyncio.gather(*asked)} == {201}
        return done.index(asked[-1])

    assert api.client._runner.run(race()) <= 2


@pytest.mark.parametrize("expires", ["9999-12-31T23:59:59-01:00", "9999-12-31T23:59:60Z"])
def test_a_key_that_expires_beyond_all_years_is_listed(api, expires):
    """Else it would hide all keys from whoever is to revoke it."""
    answer = make(api, expires=expires)

    assert answer.status == 201
    assert answer.json()["expires"] == "9999-12-31T23:59:59.999+00:00"
    assert [key["id"] for key in api.request("GET", "/keys").json()] == [answer.json()["id"]]


def test_a_caller_whose_token_ends_beyond_all_years_is_told_so(api):
    """Its issuer chooses the time."""
    sender = sent_by("far", grant("read", "shop"), until_ms=1 << 62)

    answer = api.send("GET", "/whoami", None, sender)

    assert answer.json()["until"] == "9999-12-31T23:59:59.999+00:00"


def test_every_fault_of_a_proposal_is_named(api):
    """With its path, and nothing is made."""
    body = {"may": ["publish", "rule"], "namespaces": [], "names": ["shop"], "for": 1}
    answer = api.send("POST", "/keys", body | {"name": "-", "expires": "tomorrow"})
    assert answer.status == 400
    assert {(each["path"], each["code"]) for each in answer.json()["faults"]} == {
        ("$.name", "value"),
        ("$.may[1]", "value"),
        ("$.namespaces", "empty"),
        ("$.names[0]", "value"),
        ("$.for", "unknown"),
        ("$.expires", "time"),
    }
    assert make(api, expires="1969-01-31T00:00:00Z").json()["faults"][0]["path"] == "$.expires"
    assert api.key_store.read_all() == []


@pytest.mark.parametrize(
    ("sender", "members", "missing"),
    [
        (SHOP, {"namespaces": ["shop", "farm"]}, "administer keys in namespace farm"),
        (SHOP, {"namespaces": ["*"]}, "administer keys in all namespaces"),
        (TILL, {}, "administer keys in namespace shop"),
        (sent_by("one", grant("admin", "shop", "brokers/a")), {}, "publish in namespace shop"),
    ],
)
def test_nobody_makes_a_key_for_more_than_it_may_do(api, sender, members, missing):
    """403 names what is missing."""
    answer = make(api, "x", sender, **members)
    assert (answer.status, answer.json()["code"]) == (403, "forbidden")
    assert missing in answer.json()["detail"]
    assert api.key_store.read_all() == []


def test_a_key_makes_no_key_that_outlives_it(api):
    """Or its end would mean nothing."""
    brief = sent_by("brief", grant("admin", "shop"), until_ms=1_000)
    assert make(api, "x", brief).status == 403
    assert make(api, "x", brief, expires="1970-01-01T00:00:02Z").status == 403
    assert make(api, "x", brief, expires="1970-01-01T00:00:01Z").status == 201


def test_an_administrator_sees_and_revokes_the_keys_of_its_namespaces_alone(api):
    """Others are 404: not even their existence is told."""
    ids = {name: make(api, name, namespaces=[name]).json()["id"] for name in ("shop", "farm")}
    both = make(api, "both", namespaces=["shop", "farm"]).json()["id"]
    assert [each["name"] for each in api.request("GET", "/keys", headers=[SHOP]).json()] == ["shop"]
    for hidden in (ids["farm"], both, "a" * 16):
        for method in ("GET", "DELETE"):
            answer = api.request(method, f"/keys/{hidden}", headers=[SHOP])
            assert (answer.status, answer.json()["detail"]) == (
                404,
                "there is no key with this id",
            )
    assert api.request("DELETE", f"/keys/{ids['shop']}", headers=[SHOP]).json()["name"] == "shop"
    assert api.request("GET", f"/keys/{ids['shop']}").status == 404
    assert len(api.request("GET", "/keys").json()) == 2


def test_a_taken_name_is_a_conflict(api):
    """Names stand in the audit log."""
    make(api)
    assert (make(api).status, make(api).json()["code"]) == (412, "conflict")


def test_a_key_that_could_not_be_announced_was_not_made(api):
    """Its text was shown to nobody."""
    api.announcer.fails = True
    answer = make(api)
    assert (answer.status, answer.json()["code"]) == (503, "store-failed")
    assert b"dk_" not in answer.body
    api.announcer.fails = False
    assert api.request("GET", "/keys").json() == []
    assert make(api).status == 201


def test_a_revocation_that_could_not_be_announced_says_so(api):
    """It holds all the same: the announcer tries again."""
    id_ = make(api).json()["id"]
    api.announcer.fails = True
    assert api.request("DELETE", f"/keys/{id_}").status == 503
    assert api.key_store.read_all() == []


def test_keys_of_the_configuration_file_are_listed_and_are_revoked_there(api):
    """With their last use."""
    record = KeyRecord(
        id="a" * 16, name="first", sha256="0" * 64, grants=(grant("admin", "*"),), until_ms=None
    )
    api.announcer.configured = (record,)
    api.key_store.note_uses({record.id: 60_000})
    assert api.request("GET", "/keys").json() == [
        {
            "id": "a" * 16,
            "name": "first",
            "may": ["admin"],
            "namespaces": ["*"],
            "configured": True,
            "lastused": "1970-01-01T00:01:00.000+00:00",
        }
    ]
    assert api.request("DELETE", f"/keys/{record.id}").status == 412
    assert make(api, "first").status == 412


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ([], {"name": "local", "how": "local", "namespaces": ["*"]}),
        (
            [TILL],
            {
                "name": "key:till",
                "how": "key",
                "subject": "till",
                "namespaces": ["shop"],
                "grants": [{"may": ["publish"], "namespaces": ["shop"], "names": ["brokers/a"]}],
                "until": "1970-01-01T00:01:00.000+00:00",
            },
        ),
    ],
    ids=["private-socket", "key"],
)
def test_whoami_tells_who_sends_the_request(api, headers, told):
    """And what they may do."""
    body = api.request("GET", "/whoami", headers=headers).json()
    assert told.items() <= body.items()


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("verb=publish&resource=brokers/shop/a", None),
        ("verb=publish&resource=brokers/shop/b", "publish to brokers/b in namespace shop"),
        ("verb=publish&resource=events&namespace=shop", "publish to brokers/default in"),
        ("verb=publish&resource=brokers/farm/a", "publish to brokers/a in namespace farm"),
        ("verb=read&resource=subscriptions&namespace=shop", "read in namespace shop"),
        ("verb=read&resource=subscriptions", "read in namespace default"),
        ("verb=observe&resource=metrics&namespace=shop", "observe in namespace shop"),
        ("verb=read&resource=metrics&namespace=*", "observe in all namespaces"),
        ("verb=read&resource=metrics", "observe in all namespaces"),
    ],
)
def test_can_answers_for_the_sender(api, question, missing):
    """And names what is missing."""
    body = api.request("GET", f"/can?{question}", headers=[TILL]).json()
    assert body["allowed"] is (missing is None)
    assert (missing or "") in body.get("missing", "")
    assert api.request("GET", f"/can?{question}").json() == {"allowed": True, "name": "local"}


def test_can_knows_policies(api):
    """A refusal names the reason, and filters are named."""
    target = "brokers/shop/a"
    policy = PolicyRecord(name="shop/p", targets=(target,))
    question = f"/can?verb=publish&resource={target}"
    for subjects, filters, told in (
        ((), (), "reason"),
        (("*",), (), None),
        (("*",), ({"exact": {"type": "x"}},), "filteredby"),
    ):
        found = msgspec.structs.replace(policy, subjects=subjects, filters=filters)
        api.gate.replace(AccessSnapshot(required=True, policies=(found,)))
        body = api.request("GET", question, headers=[TILL]).json()
        assert body.keys() - {"allowed", "name"} == ({told} if told else set())
        assert body["allowed"] is (told != "reason")


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("resource=events", "verb"),
        ("verb=publish", "resource"),
        ("verb=rule&resource=events", "verb"),
        ("verb=read&resource=brokers/shop", "resource"),
        ("verb=read&resource=events&namespace=", "namespace"),
        ("verb=publish&resource=brokers/shop/a&namespace=farm", "namespace"),
        ("verb=read&verb=read&resource=events", "verb"),
        ("verb=read&resource=events&as=boss", "query"),
    ],
)
def test_a_question_that_is_none_is_refused(api, question, path):
    """By the name of the parameter."""
    answer = api.request("GET", f"/can?{question}")
    assert (answer.status, answer.json()["faults"][0]["path"]) == (400, path)


def test_no_answer_about_keys_may_be_stored(api):
    """They tell who may do what."""
    for target in ("/keys", "/whoami", "/can?verb=read&resource=events"):
        assert api.request("GET", target).headers["cache-control"] == "no-store"
    assert json.dumps("sha256") not in api.request("GET", "/openapi.json").body.decode()
