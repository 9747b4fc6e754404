"""Trying a filter on events, with the reason of each verdict."""

import asyncio
import json
import threading
from typing import Any

import pytest

from distributary.subscriptions.http import _trying
from kit.event_log import numbered

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "com.example.order"}


def tried(api, events: list[Any] | None = None, **members: Any):
    """The answer to a trial."""
    events = [EVENT] if events is None else events
    return api.send("POST", "/filters/try", {"events": events, **members})


def faults(answer) -> list[tuple[str, str]]:
    """Path and code of each fault."""
    assert (answer.status, answer.json()["code"]) == (400, "invalid")
    return [(fault["path"], fault["code"]) for fault in answer.json()["faults"]]


def test_each_event_has_its_verdict_and_the_part_that_decided(api):
    """In the order of the events; the parts are those of the filter."""
    filters = [
        {"prefix": {"type": "com."}},
        {"any": [{"exact": {"subject": "a"}}, {"sql": "TRUE"}]},
    ]
    body = tried(api, [EVENT, EVENT | {"id": "2", "type": "org.other"}], filters=filters).json()
    assert (body["tried"], body["matched"]) == (2, 1)
    yes, no = body["results"]
    assert (yes["id"], yes["matched"], no["id"], no["matched"]) == ("1", True, "2", False)
    assert yes["why"]["decided"] is True
    assert [part["decided"] for part in yes["why"]["parts"]] == [True, True]
    prefix, any_ = no["why"]["parts"]
    assert (prefix["verdict"], prefix["decided"]) == (False, True)
    assert prefix["path"] == "$.filters[0].prefix.type"
    assert "org.other" in prefix["reason"]
    assert (any_["verdict"], any_["decided"]) == (True, False)
    assert [part["decided"] for part in any_["parts"]] == [False, False]


def test_source_and_types_are_tried_as_in_a_subscription(api):
    """All of what is given must hold."""
    body = tried(api, source="/shop", types=["a", "b"], filter={"exact": {"id": "1"}}).json()
    assert body["matched"] == 0
    parts = body["results"][0]["why"]["parts"]
    assert [(part["path"], part["verdict"]) for part in parts] == [
        ("$.source", True),
        ("$.types", False),
        ("$.filters", True),
    ]


def test_without_events_the_filter_is_only_checked(api):
    """As ``distributary filter`` does."""
    answer = api.send("POST", "/filters/try", {"filters": []})
    assert answer.json() == {"tried": 0, "matched": 0, "results": []}


def test_data_may_be_there_and_are_checked(api):
    """An event that could not be published is none here."""
    assert tried(api, [EVENT | {"data": {"deep": [1, 2]}}]).json()["matched"] == 1
    found = faults(tried(api, [EVENT | {"data_base64": 7}]))
    assert [path for path, _ in found] == ["$.events[0].data_base64"]


def test_every_fault_is_named_with_its_place(api):
    """Of the filter and of the events, at once."""
    answer = tried(api, [EVENT, {"id": ""}, 7], filters=[{"sqll": "x"}], sink="http://a/")
    found = faults(answer)
    assert ("$.sink", "unknown") in found
    assert ("$.filters[0].sqll", "unknown-dialect") in found
    assert ("$.events[1].source", "missing") in found
    assert any(path == "$.events[2]" for path, _ in found)


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"events": "all"}, "$.events"),
        ({"events": [EVENT] * 101}, "$.events"),
        ({"events": [EVENT] * 100, "filters": [{"not": {"sql": "TRUE"}}] * 101}, "$.events"),
    ],
    ids=["no-array", "many-events", "much-work"],
)
def test_what_is_too_much_is_refused(api, members, path):
    """Before anything is evaluated."""
    assert [found[0] for found in faults(api.send("POST", "/filters/try", members))] == [path]


def test_what_is_no_object_is_refused(api):
    """With a fault, as everywhere."""
    assert faults(api.send("POST", "/filters/try", [])) == [("$", "type")]
    assert api.request("POST", "/filters/try", b"{}").status == 415


def test_a_trial_in_a_namespace_is_the_same(api):
    """What it concerns is in the request; the path says who may ask."""
    answer = api.send("POST", "/namespaces/shop/filters/try", {"events": [EVENT]})
    assert answer.json()["matched"] == 1


def test_the_last_events_of_the_namespace_are_tried(api):
    """The newest first, with their positions; those of others are not."""
    for number in range(4):
        api.log.append(numbered(number), partition=number % 2)
    body = api.send("POST", "/filters/try", {"recent": 3, "filters": [{"exact": {"id": "e-2"}}]})
    found = [(each["id"], each["matched"]) for each in body.json()["results"]]
    assert found == [("e-3", False), ("e-2", True), ("e-1", False)]
    for each in body.json()["results"]:
        way = api.request("GET", f"/events/{each['position']}")
        assert way.json()["event"]["id"] == each["id"]
    other = api.send("POST", "/namespaces/bank/filters/try", {"recent": 3})
    assert other.json()["tried"] == 0


@pytest.mark.parametrize("recent", [0, 101, "3", 1.5, None])
def test_a_number_of_recent_events_is_checked(api, recent):
    """Up to as many as are tried at once."""
    answer = api.send("POST", "/filters/try", {"recent": recent})
    assert [path for path, _ in faults(answer)] == ["$.recent"]
    both = api.send("POST", "/filters/try", {"recent": 3, "events": []})
    assert faults(both) == [("$.recent", "conflict")]


def test_few_trials_are_evaluated_at_a_time(api, monkeypatch):
    """They leave threads for other requests; the rest get their turn."""
    lock, going_on = threading.Lock(), threading.Event()
    started = threading.Semaphore(0)
    running = most = 0
    evaluate = _trying._tried

    def slowly(*arguments):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        started.release()
        going_on.wait(30)
        with lock:
            running -= 1
        return evaluate(*arguments)

    monkeypatch.setattr(_trying, "_tried", slowly)
    body = json.dumps({"events": [EVENT]}).encode()
    fields = [("content-type", "application/json")]

    async def ask():
        asked = [
            asyncio.create_task(api.client.ask("POST", "/filters/try", body, fields))
            for _ in range(5)
        ]
        assert await asyncio.to_thread(started.acquire, timeout=30)
        await asyncio.to_thread(started.acquire, timeout=30)
        await asyncio.to_thread(started.acquire, timeout=0.2)  # there is no third one
        going_on.set()
        return await asyncio.gather(*asked)

    assert [each.status for each in api.client._runner.run(ask())] == [200] * 5
    assert most == _trying.TRIALS_AT_ONCE


def test_namespaces_take_turns_at_trials(api, monkeypatch):
    """One that tries without end delays no other."""
    going_on, began = threading.Event(), threading.Semaphore(0)
    order = []
    evaluate = _trying._tried

    def slowly(selection, events):
        order.append(events[0].event.attributes["id"])
        began.release()
        going_on.wait(30)
        return evaluate(selection, events)

    monkeypatch.setattr(_trying, "_tried", slowly)
    fields = [("content-type", "application/json")]

    def trial(namespace):
        body = json.dumps({"events": [{**EVENT, "id": namespace}]}).encode()
        target = f"/namespaces/{namespace}/filters/try"
        return asyncio.create_task(api.client.ask("POST", target, body, fields))

    async def ask():
        asked = [trial("many") for _ in range(6)]
        for _ in range(_trying.TRIALS_AT_ONCE):
            assert await asyncio.to_thread(began.acquire, timeout=30)
        asked.append(trial("few"))
        await asyncio.sleep(0)
        going_on.set()
        return await asyncio.gather(*asked)

    assert [each.status for each in api.client._runner.run(ask())] == [200] * 7
    assert order[: _trying.TRIALS_AT_ONCE + 1] == ["many"] * _trying.TRIALS_AT_ONCE + ["few"]
