"""Consent over HTTP: the callback of a target, and what the status of a subscription says."""

import pytest

from distributary.core.database import sqlite_url
from distributary.core.deliver.consent import AWAITS_CONSENT
from distributary.core.outcome import FailingRoute, Tally, write_failing
from distributary.resource import target_key
from distributary.subscriptions.consent import CALLBACK_CONSENT_MS, AwaitedConsent
from distributary.subscriptions.service import _status as status
from distributary.subscriptions.store.consent_rows import (
    CallbackKey,
    ConsentRow,
    ConsentRows,
    digest_of,
)

SINK = "http://127.0.0.1:9/"
NAME = target_key("default", SINK, None)
URL = f"/consent/{NAME[:32]}?key=canary"


@pytest.fixture
def consents(api, tmp_path):
    """The table, with a target that was asked."""
    api.put("s")
    made = ConsentRows(sqlite_url(tmp_path / "control.db"))
    yield made
    made.close()


def ask(consents, ended_ms=1_000, **values):
    """A question with a callback; the clock of these tests stands at 0."""
    keys = (CallbackKey(digest_of("canary"), ended_ms),)
    row = ConsentRow(NAME, "asked", "events.example.com", callbacks=keys, next_ms=7_000)
    return consents.put(row._replace(**values))


def wait(api, sink=SINK, id_="s"):
    """Note, as the keeper of consents does, that the sink has not consented."""
    waits = AwaitedConsent(sink, 0)
    api.watcher.agreements.note(api.store.find(id_).uid, waits, agreed=False)
    api.watcher.turn()


def state(api):
    """What the status says of the sink."""
    found = api.request("GET", "/subscriptions/s/status").json()
    return found["state"], found.get("consent")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_callback_consents(api, consents, method):
    """http-webhook 4.1.3: by GET, as from a browser, or POST."""
    ask(consents)
    answer = api.request(method, URL)
    assert answer.status == 200
    assert "events.example.com" in answer.body.decode()
    assert answer.headers["cache-control"] == "no-store"
    row = consents.find([NAME])[NAME]
    assert (row.state, row.rate_per_min, row.until_ms) == ("given", None, CALLBACK_CONSENT_MS)


def test_a_callback_may_allow_a_rate(api, consents):
    """In the header of the answer that it stands for."""
    ask(consents)
    answer = api.request("POST", URL, b"", (("webhook-allowed-rate", "120"),))
    assert "120 a minute" in answer.body.decode()
    assert consents.find([NAME])[NAME].rate_per_min == 120


@pytest.mark.parametrize("rate", ["0", "-1", "lots", ""])
def test_a_rate_that_is_none_is_refused(api, consents, rate):
    """And nothing is consented to."""
    ask(consents)
    answer = api.request("POST", URL, b"", (("webhook-allowed-rate", rate),))
    assert (answer.status, answer.json()["code"]) == (400, "invalid")
    assert consents.find([NAME])[NAME].state == "asked"


@pytest.mark.parametrize(
    "url",
    [
        f"/consent/{NAME[:32]}?key=wrong",
        f"/consent/{NAME[:32]}?key=",
        f"/consent/{NAME[:32]}",
        f"/consent/{NAME[:31]}?key=canary",
        f"/consent/{'0' * 32}?key=canary",
        f"/consent/{'%25' * 3}?key=canary",
        f"/consent/{NAME[:32]}?key=" + "x" * 5_000,
        f"/consent/{NAME[:32]}?key=%ff%00",
    ],
)
def test_a_wrong_callback_consents_to_nothing(api, consents, url):
    """One answer for all: it tells nothing of what exists, and quotes no key."""
    ask(consents)
    answer = api.request("GET", url)
    assert (answer.status, answer.json()["code"]) == (404, "notfound")
    assert "canary" not in answer.body.decode()
    assert consents.find([NAME])[NAME].state == "asked"


def test_a_late_callback_consents_to_nothing(api, consents):
    """Its key has ended."""
    ask(consents, ended_ms=0)
    assert api.request("GET", URL).status == 404
    assert consents.find([NAME])[NAME].state == "asked"


def test_head_consents_to_nothing(api, consents):
    """Link checkers send it."""
    ask(consents)
    assert api.request("HEAD", URL).status == 200
    assert consents.find([NAME])[NAME].state == "asked"


def test_a_second_call_is_as_the_first(api, consents):
    """People click twice."""
    ask(consents)
    assert [api.request("GET", URL).status for _ in range(2)] == [200, 200]
    assert consents.find([NAME])[NAME].state == "given"


def test_a_subscription_says_that_it_waits_for_consent(api, consents):
    """Since when, why, and when the target is asked next."""
    ask(consents, reason="status 200 without WebHook-Allowed-Origin", state="refused")
    wait(api)
    word, (told,) = state(api)
    assert word == "awaiting-consent"
    assert told == {
        "sink": SINK,
        "state": "refused",
        "since": "1970-01-01T00:00:00.000+00:00",
        "asked": "1970-01-01T00:00:00.000+00:00",
        "reason": "status 200 without WebHook-Allowed-Origin",
        "next": "1970-01-01T00:00:07.000+00:00",
    }
    assert {one["id"]: one["status"].get("consent") for one in listing(api)} == {"s": [told]}


def test_a_list_says_what_those_that_wait_for_consent_wait_for(api, consents, monkeypatch):
    """Each its own, read at once; of others the status of one tells it."""
    slices, read = [], api.store.consents
    monkeypatch.setattr(api.store, "consents", lambda keys: slices.append(keys) or read(keys))
    sinks = {"a": "http://a.example/", "given": "http://given.example/", "z": "http://z.example/"}
    for id_, sink in sinks.items():
        api.put(id_, sink=sink)
        given = "given" if id_ == "given" else "refused"
        consents.put(ConsentRow(target_key("default", sink, None), given, "us", reason=id_))
    slices.clear()
    wait(api, sinks["a"], "a")
    wait(api, sinks["z"], "z")
    wait(api)  # the sink is not asked yet
    told = {one["id"]: one["status"] for one in listing(api)}
    assert len(slices) == 1
    assert {id_: len(one.get("consent", [])) for id_, one in told.items()} == {
        "a": 1,
        "given": 0,
        "s": 0,
        "z": 1,
    }
    for id_ in ("a", "z"):
        assert told[id_]["consent"][0]["reason"] == id_
        assert told[id_]["consent"][0]["sink"] == sinks[id_]
    monkeypatch.setattr(status, "SLICE", 1)
    assert {one["id"]: one["status"] for one in listing(api)} == told


def test_a_consent_in_a_list_is_as_described(api, consents):
    """The schema of a short status has it."""
    jsonschema = pytest.importorskip("jsonschema")
    ask(consents)
    wait(api)
    document = api.request("GET", "/openapi.json").json()
    name = "#/components/schemas/SubscriptionShortStatus"
    schema = {"$ref": name, "components": document["components"]}
    found = listing(api)[0]["status"]
    assert found["consent"]
    jsonschema.Draft202012Validator(schema).validate(found)


def test_what_waits_for_consent_has_not_failed(api, consents):
    """The reason that partition consumers write is for those who see no consents."""
    ask(consents, state="given")
    uid = api.store.find("s").uid
    waits = FailingRoute(
        route=uid, since_ms=1, last_ms=2, count=3, reason=AWAITS_CONSENT, dest=SINK
    )
    write_failing(api.failing[0], [waits])
    tally = Tally(failing_since_ms=1, failing_last_ms=2, failing_count=3)
    tally.failing_reason = AWAITS_CONSENT
    api.tallies.put({uid: tally})
    api.watcher.turn()
    assert words(api) == {"awaiting-consent"}  # until the keeper has looked
    api.watcher.agreements.note(uid, None, agreed=True)
    assert words(api) == {"ready"}


def words(api):
    """How the subscription stands, by each way to ask."""
    listed = {one["id"]: one["status"]["state"] for one in listing(api)}
    found = {state(api)[0], listed["s"]}
    awaiting = listing(api, "awaiting-consent")
    found.add("awaiting-consent" if awaiting else "ready")
    counted = api.request("GET", "/status").json()["awaiting-consent"]
    return found | {"awaiting-consent" if counted else "ready"}


def listing(api, state=None):
    """The subscriptions, or those that stand so."""
    query = "" if state is None else f"?state={state}"
    return api.request("GET", f"/subscriptions{query}").json()


def test_lists_and_counts_say_what_the_status_says(api):
    """Also before there is any event, so that no tally tells it."""
    api.put("s")
    api.put("other")
    assert words(api) == {"ready"}
    wait(api)
    assert words(api) == {"awaiting-consent"}
    assert [one["id"] for one in listing(api, "awaiting-consent")] == ["s"]
    assert [one["id"] for one in listing(api, "ready")] == ["other"]
    api.send("POST", "/subscriptions/s/pause", None)
    api.watcher.turn()
    assert (state(api)[0], listing(api, "awaiting-consent")) == ("paused", [])
    api.send("POST", "/subscriptions/s/resume", None)
    api.request("DELETE", "/subscriptions/s")
    api.watcher.agreements.clear()
    api.watcher.turn()
    assert api.request("GET", "/status").json()["awaiting-consent"] == 0
    assert {name.text for name in api.watcher.names().values()} <= {"other"}


def test_a_subscription_says_what_its_target_allows(api, consents):
    """Until when, and how many requests."""
    ask(consents, state="given", until_ms=1_000, rate_per_min=60)
    word, (told,) = state(api)
    assert (word, told["state"], told["ratePerMinute"]) == ("ready", "given", 60)
    assert told["until"] == "1970-01-01T00:00:01.000+00:00"


def test_a_target_on_a_private_address_is_not_waited_for(api, consents):
    """It need not be asked."""
    ask(consents, state="private")
    word, (told,) = state(api)
    assert (word, told["state"], "reason" in told) == ("ready", "private", False)


def test_the_dead_letter_sink_is_told_too(api, consents):
    """Each target by itself, without the query of its URI."""
    delivery = {"deadLetterSink": "http://dead.example/?code=canary"}
    api.put("s", protocolsettings={"delivery": delivery})
    ask(consents, state="given")
    dead = target_key("default", "http://dead.example/?code=canary", None)
    consents.put(ConsentRow(dead, "asked", "events.example.com"))
    wait(api, "http://dead.example/")
    word, told = state(api)
    assert (word, [each["sink"] for each in told]) == (
        "awaiting-consent",
        [SINK, "http://dead.example/"],
    )
