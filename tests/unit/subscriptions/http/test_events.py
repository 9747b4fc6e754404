"""Events over HTTP: the search, pages, tenants, and the way of one."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from distributary.access import (
    IDENTITY_FIELD,
    Grant,
    Identity,
    IdentityKind,
    Verb,
    encode_identity,
)
from distributary.core.errors import RequestError
from distributary.core.flow import (
    Attempt,
    DoneKey,
    Ending,
    Origin,
    Position,
    RouteRecord,
    Stage,
    Task,
)
from distributary.core.journal_frames import HistoryBlock
from distributary.core.log.taken import OnceLimits
from distributary.core.policy import DELIVERED, Decision, Reply, Verdict
from distributary.history.rows import Recorder, RouteNames
from distributary.history.writer import HistoryWriter
from distributary.subscriptions.events import EventQuery, Events
from distributary.subscriptions.events._service import THREADS
from kit.asgi_client import Answer
from kit.event_log import ids, numbered

WAY_NAMES = RouteNames("default", "orders", 3)


@pytest.fixture
def log(api):
    """A log of two partitions, behind the application."""
    return api.log


def get(api: Any, target: str, *headers: tuple[str, str]) -> Answer:
    """The good answer."""
    answer = api.request("GET", target, headers=headers)
    assert answer.status == 200, answer.body
    return answer


def pages(api: Any, target: str) -> list[list[str]]:
    """The ids of each part, as the links lead from one to the next."""
    found = []
    while target:
        answer = get(api, target)
        found.append(ids(answer.json()))
        target = answer.headers.get("link", "").partition(">")[0].lstrip("<")
    return found


def test_events_are_listed_newest_first_over_all_partitions(api, log):
    """By the time at which they were accepted, in parts that a link leads to."""
    for number in range(7):
        log.append(numbered(number), partition=number % 2)
    assert pages(api, "/events?limit=3") == [
        ["e-6", "e-5", "e-4"],
        ["e-3", "e-2", "e-1"],
        ["e-0"],
    ]


def test_a_part_may_end_within_a_batch(api, log):
    """A batch is one record: its events are told one by one, none twice."""
    log.append(*(numbered(number) for number in range(5)))
    log.append(numbered(5))
    assert pages(api, "/events?limit=2") == [["e-5", "e-4"], ["e-3", "e-2"], ["e-1", "e-0"]]


@pytest.mark.parametrize("indexed", [True, False], ids=["index", "no index"])
def test_an_event_is_found_by_its_id(api, log, indexed):
    """With and without an index, wherever it stands."""
    places = [log.append(numbered(number), partition=number % 2) for number in range(300)]
    if indexed:
        log.index(api.folder / "index")
    for number in (0, 1, 150, 299):
        (found,) = get(api, f"/events?id=e-{number}").json()
        assert found["event"]["id"] == f"e-{number}"
        assert found["position"] == "-".join(map(str, places[number]))
        assert found["address"] == "/events"


def test_all_that_is_asked_for_must_hold(api, log):
    """Attributes and times together; until is not included."""
    log.append(numbered(1, type="a", subject="x"))
    log.append(numbered(2, type="b", subject="x"))
    log.append(numbered(3, type="a", subject="y"))
    listed = get(api, "/events").json()
    assert ids(get(api, "/events?type=a").json()) == ["e-3", "e-1"]
    assert ids(get(api, "/events?type=a&subject=x").json()) == ["e-1"]
    assert ids(get(api, "/events?source=%2Felse").json()) == []
    second = listed[1]["time"].replace("+", "%2B")
    assert ids(get(api, f"/events?since={second}").json()) == ["e-3", "e-2"]
    assert ids(get(api, f"/events?until={second}").json()) == ["e-1"]


def test_long_data_are_left_out_of_a_list(api, log):
    """Their length is told; the way of the event has them."""
    place = log.append(numbered(1, b"x" * 5000, datacontenttype="text/plain"))
    (found,) = get(api, "/events").json()
    assert found["dataBytes"] == 5000
    assert "data" not in found["event"]
    way = get(api, f"/events/{'-'.join(map(str, place))}").json()
    assert way["event"]["data"] == "x" * 5000


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("/events?limit=0", "limit"),
        ("/events?sinc=1", "query"),
        ("/events?since=yesterday", "since"),
        ("/events?broker=a&channel=b", "channel"),
        ("/events?id=", "id"),
        ("/events?cursor=x", "cursor"),
        ("/events?cursor=0-1-99999999", "cursor"),
        ("/events/0-0-0?limit=1", "query"),
        ("/events/0-0-0?subscription=", "subscription"),
        ("/events/0-0-0?subscription=a&route=b", "route"),
    ],
)
@pytest.mark.usefixtures("log")
def test_what_is_asked_wrongly_is_refused(api, target, place):
    """With the parameter at fault."""
    answer = api.request("GET", target)
    assert (answer.status, answer.json()["code"]) == (400, "invalid")
    assert [fault["path"] for fault in answer.json()["faults"]] == [place]


def test_an_unknown_position_is_not_found(api, log):
    """Nor one that is none, nor a Broker that is none."""
    log.append(numbered(1))
    for target in ("/events/0-9-0", "/events/0-0-1", "/events/9-0-0", "/events/x"):
        answer = api.request("GET", target)
        assert (answer.status, answer.json()["code"]) == (404, "notfound"), target
    assert api.request("GET", "/events?broker=nope").status == 404


# -- tenants -----------------------------------------------------------------------------------


def test_a_tenant_finds_its_own_events_alone(api, log):
    """By the address of its namespace; others' are not there for it, by position either."""
    mine = log.append(numbered(1), address="@shop")
    other = log.append(numbered(2), address="@bank")
    log.append(numbered(3))
    assert ids(get(api, "/namespaces/shop/events").json()) == ["e-1"]
    assert get(api, "/namespaces/shop/events?id=e-1").json()[0]["address"] == (
        "/namespaces/shop/events"
    )
    assert ids(get(api, "/namespaces/shop/events?id=e-2").json()) == []
    assert ids(get(api, "/events").json()) == ["e-3"]
    own = "-".join(map(str, mine))
    assert get(api, f"/namespaces/shop/events/{own}").json()["event"]["id"] == "e-1"
    for namespace, place in (("shop", other), ("bank", mine), ("default", mine)):
        target = f"/namespaces/{namespace}/events/{'-'.join(map(str, place))}"
        assert api.request("GET", target).status == 404


def test_events_of_a_timer_are_their_owners(api, log, monkeypatch):
    """They were published nowhere: the namespace of the subscription finds them."""
    api.put("ticks")
    uid = api.store.find("ticks").uid
    place = log.tick(uid, numbered(1))
    log.tick("another", numbered(2))
    (found,) = get(api, "/events").json()
    assert (found["event"]["id"], found["address"]) == ("e-1", None)
    assert get(api, "/namespaces/shop/events").json() == []
    assert get(api, "/events?broker=default").json() == []
    target = f"/namespaces/shop/events/{'-'.join(map(str, place))}"
    assert api.request("GET", target).status == 404
    # The owners are remembered: a log full of others' timers costs no question for each.
    monkeypatch.setattr(api.store, "route_names", lambda _uids: pytest.fail("asked again"))
    get(api, "/events")
    get(api, "/namespaces/shop/events")


# -- the way of one ----------------------------------------------------------------------------


def record_of(uid: str, **members: Any) -> RouteRecord:
    """A route in its second revision."""
    return RouteRecord(seq=1, op="put", uid=uid, revision=2, **members)


def attempt(position: Position, status: int, body: bytes, number: int, uid: str = "u-1") -> Attempt:
    """An attempt for the route *uid*."""
    task = Task(position, 1, uid, numbered(1), Stage.PRIMARY, number, 0, Origin.LIVE)
    return Attempt(task, Reply(status, None, None, body), 0.25)


def written(folder: Path, recorder: Recorder) -> None:
    """Publish the rows of *recorder* as a file of the first partition."""
    count, rows = recorder.take()
    writer = HistoryWriter(folder / "history", 0)
    writer.publish(writer.write([HistoryBlock(1, count, rows)]))


def test_the_way_of_an_event_tells_matches_attempts_and_outcome(api, log):
    """What the history has, then routes by their newest filters, with the reason of a mismatch."""
    place = log.append(numbered(1, subject="west"))
    now_ms = log.clock.wall_ms()
    recorder = Recorder(0, lambda _uid: WAY_NAMES)
    refused = attempt(place, 503, b"no room: \xff", 1)
    recorder.attempted(refused, Verdict(Decision.RETRY, "status"), now_ms + 5)
    taken = attempt(place, 200, b"", 2)
    recorder.attempted(taken, DELIVERED, now_ms + 9)
    key = DoneKey(place.offset, 0, "u-1")
    recorder.ended(key, Ending.DELIVERED, None, now_ms + 9, taken.task)
    written(api.folder, recorder)
    api.routes.records = [
        record_of("u-1"),
        record_of("u-2", filters=({"exact": {"subject": "east"}},), types=("other",)),
        record_of("u-3", source="/shop"),
        record_of("u-4", address="elsewhere"),
    ]
    way = get(api, f"/events/{'-'.join(map(str, place))}").json()
    assert (way["attempts"], way["more"], way["by"]) == ("all", False, None)
    delivered, waiting, not_ = way["matches"]
    assert (delivered["subscription"], delivered["revision"]) == ("orders", 3)
    assert (delivered["matched"], delivered["outcome"]) == (True, "delivered")
    assert [
        (each["attempt"], each["status"], each["decision"], each.get("answer"))
        for each in delivered["attempts"]
    ] == [(1, 503, "retry", "no room: \N{REPLACEMENT CHARACTER}"), (2, 200, "delivered", None)]
    assert (waiting["uid"], waiting["matched"], waiting["outcome"]) == ("u-3", True, None)
    assert waiting["waiting"]
    assert "waiting" not in delivered
    assert "waiting" not in not_
    assert (not_["uid"], not_["matched"]) == ("u-2", False)
    assert [each["path"] for each in not_["why"]] == ["$.types", "$.filters[0].exact.subject"]


def test_the_way_of_a_repeat_says_what_it_repeats(api, log):
    """Where readers find repeats: within the window, at its address, and in a record of its own."""
    first, other = log.append(numbered(1)), log.append(numbered(1), address="b")
    batch = log.append(numbered(1), numbered(2), partition=1)
    repeat = log.append(numbered(1))
    elsewhere = log.append(numbered(2))
    log.clock.jump(10_000)
    late = log.append(numbered(1))
    limits: list[OnceLimits | None] = [None]
    places = api.places(api.folder)._replace(once=lambda: limits[0])
    api.store.addresses = lambda _namespace: {"": "/events", "b": "/brokers/default/b"}
    events = Events(places, api.store, api.routes)

    def repeats_of(position: Position) -> Position | None:
        return asyncio.run(events.way(position, "default")).repeats

    assert repeats_of(repeat) is None
    limits[0] = OnceLimits(5.0, 100)
    assert repeats_of(repeat) == first
    assert [repeats_of(each) for each in (first, other, batch, elsewhere, late)] == [None] * 5
    limits[0] = OnceLimits(60.0, 100)
    assert repeats_of(late) == repeat
    limits[0] = OnceLimits(60.0, 1)
    assert repeats_of(late) is None
    events.close()


def test_the_way_to_one_subscription_alone(api, log):
    """By its id, or by the uid of its route; others of the namespace alone are known."""
    body = b'{"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}'
    json_type = (("content-type", "application/json"),)
    for path in ("/subscriptions/a", "/namespaces/shop/subscriptions/b"):
        assert api.request("PUT", path, body, headers=json_type).status == 201
    uid = get(api, "/subscriptions/a/status").json()["route"]
    other = get(api, "/namespaces/shop/subscriptions/b/status").json()["route"]
    api.routes.records = [record_of("u-1"), record_of(uid, types=("other",))]
    place = "/events/" + "-".join(map(str, log.append(numbered(1))))
    for asked in (f"{place}?subscription=a", f"{place}?route={uid}"):
        (match,) = get(api, asked).json()["matches"]
        assert (match["subscription"], match["matched"]) == ("a", False)
    for absent in ("subscription=b", f"route={other}", "route=none"):
        assert api.request("GET", f"{place}?{absent}").status == 404


def test_answers_are_for_those_who_may_write(api, log):
    """Who may only read sees the attempt without what the sink said."""
    place = log.append(numbered(1))
    recorder = Recorder(0, lambda _uid: WAY_NAMES)
    answer = attempt(place, 500, b"inner words", 1)
    recorder.attempted(answer, Verdict(Decision.RETRY, "status"), log.clock.wall_ms())
    written(api.folder, recorder)
    target = f"/events/{'-'.join(map(str, place))}"
    shown = {}
    for verb in (Verb.READ, Verb.WRITE):
        grants = (Grant(may=(verb,), namespaces=("default",)),)
        identity = Identity(name="key:x", how=IdentityKind.KEY, grants=grants)
        who = IDENTITY_FIELD.decode(), encode_identity(identity).decode()
        (match,) = get(api, target, who).json()["matches"]
        shown[verb] = match["attempts"][0].get("answer")
    assert shown == {Verb.READ: None, Verb.WRITE: "inner words"}


def test_a_namespace_leaves_room_for_searches_of_others(api, log):
    """Those that wait are bounded for each, and namespaces take turns."""
    log.append(numbered(1))
    going_on = threading.Event()

    def slowly(_position: Position) -> None:
        going_on.wait(30)

    events = Events(api.places(api.folder), api.store, api.routes, slowly)
    mine, other = (EventQuery(namespace=name, limit=1) for name in ("default", "shop"))

    async def ask() -> None:
        asked = [asyncio.create_task(events.find(mine)) for _ in range(16)]
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="Too many searches"):
            await events.find(mine)
        theirs = asyncio.create_task(events.find(other))
        await asyncio.sleep(0)
        assert not theirs.done()
        done = []
        for each in (*asked, theirs):
            each.add_done_callback(done.append)
        going_on.set()
        await asyncio.gather(*asked)
        assert done.index(theirs) <= 2 * THREADS
        assert (await theirs)[0].items == []
        assert len((await events.find(mine))[0].items) == 1

    try:
        asyncio.run(ask())
    finally:
        going_on.set()
        events.close()


def test_changes_of_routes_are_read_as_they_come(api, monkeypatch):
    """Every few seconds while nobody asks, and a server that stops ends it."""
    monkeypatch.setattr("distributary.subscriptions.events._service.FOLLOWED_EVERY_S", 0.0)
    events = Events(api.places(api.folder), api.store, api.routes)

    async def follow() -> None:
        following = asyncio.create_task(events.keep_prepared())
        for _ in range(2):
            await asyncio.to_thread(api.routes.followed.acquire)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert following.cancelled()

    try:
        asyncio.run(follow())
    finally:
        events.close()


def test_the_newest_attempts_of_a_subscription(api, log):
    """However many events of others came since; with the answer for who may write alone."""
    assert api.put("orders").status == 201
    uid = api.store.find("orders").uid
    first = log.append(numbered(1))
    now_ms = log.clock.wall_ms()
    recorder = Recorder(0, lambda _uid: WAY_NAMES)
    refused = attempt(first, 503, b"no room", 1, uid)
    recorder.attempted(refused, Verdict(Decision.RETRY, "status"), now_ms)
    for number in range(20):
        other = attempt(log.append(numbered(number)), 200, b"", 1, "another")
        recorder.attempted(other, DELIVERED, now_ms + 1)
    written(api.folder, recorder)
    (told,) = get(api, "/subscriptions/orders/attempts").json()
    assert (told["position"], told["attempt"]) == ("-".join(map(str, first)), 1)
    assert (told["status"], told["decision"], told["answer"]) == (503, "retry", "no room")
    assert (told["event"]["id"], told["outcome"]) == (refused.task.event.attributes["id"], None)
    assert len(get(api, "/subscriptions/orders/attempts?limit=1").json()) == 1
    assert api.request("GET", "/subscriptions/nobody/attempts").status == 404
    assert api.request("GET", "/subscriptions/orders/attempts?limit=0").status == 400
    assert api.request("GET", "/namespaces/shop/subscriptions/orders/attempts").status == 404
