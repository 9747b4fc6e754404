"""Limits of the store, and what is left after a write that failed."""

import asyncio
import contextlib
import itertools
import sqlite3
import threading
from collections import Counter

import msgspec
import pytest

from distributary.core import filter as filter_room
from distributary.core.errors import StoreError
from distributary.core.quotas import Quotas, QuotaTable
from distributary.knative.apiserver.machinery import Key, StatusError
from distributary.knative.apiserver.machinery.limits import OBJECT_BYTES_MAX
from distributary.knative.apiserver.objects import Write, _usage
from distributary.knative.kinds import (
    BROKER,
    CONFIG_MAP,
    EVENT_POLICY,
    POLICIES_MAX,
    SUBSCRIPTION,
    TRIGGER,
)


def key(kind, name, namespace="default") -> Key:
    """Key of an object."""
    return Key(kind.resource, namespace, name)


def with_spec(**spec):
    """A change that sets the spec."""
    return lambda content: {**content, "spec": spec}


def test_objects_are_limited_in_number(make_world):
    """The server's own writes are not."""
    world = make_world(objects_max=4)
    world.trigger("a")
    world.trigger("b")
    error = world.refused(world.objects.create(TRIGGER, "default", {"metadata": {"name": "c"}}))
    assert error.reason == "Forbidden"
    assert "exceeded quota" in str(error)
    world.delete(key(TRIGGER, "a"))
    world.trigger("c")


def test_objects_are_limited_in_bytes(make_world):
    """What grows is refused, what shrinks is not."""
    world = make_world(bytes_max=5_000)
    made = world.trigger("a", text="x" * 3_000)
    error = world.refused(world.objects.edit(made.key, with_spec(text="x" * 5_000)))
    assert "exceeded quota" in str(error)
    world.edit(made.key, with_spec(text=""))
    world.trigger("b", text="x" * 3_000)


def test_triggers_and_subscriptions_count_as_subscriptions_of_their_namespace(make_world):
    """Together with those of the Subscriptions API, in one batch too, and after a restart."""
    table = QuotaTable(named={"shop": Quotas(subscriptions=3)})
    world = make_world(quotas=lambda: table)
    with contextlib.closing(sqlite3.connect(world.url.database)) as store, store:
        store.execute(
            "INSERT INTO api_subscription (uid, id, revision, spec_json, created_ms, updated_ms,"
            " etag, state, seq, namespace) VALUES ('u', 's', 1, '{}', 0, 0, 'e', 'live', 1, 'shop')"
        )

    async def three():
        names = ({"metadata": {"name": name}} for name in "abc")
        made = (world.objects.create(TRIGGER, "shop", content) for content in names)
        return await asyncio.gather(*made, return_exceptions=True)

    made = world.run(three())
    assert [isinstance(one, StatusError) for one in made] == [False, False, True]
    assert made[2].reason == "Forbidden"
    assert "requested: subscriptions=1, used: subscriptions=3, limited: subscriptions=3" in str(
        made[2]
    )
    world.trigger("c", namespace="till")
    world.make(CONFIG_MAP, "c", "shop")
    world.restart()
    content = {"metadata": {"name": "s"}}
    assert world.refused(world.objects.create(SUBSCRIPTION, "shop", content)).reason == "Forbidden"
    world.delete(key(TRIGGER, "a", "shop"))
    world.make(SUBSCRIPTION, "s", "shop")


def test_policies_of_a_namespace_are_limited_in_number(make_world):
    """Whatever its quotas; changes and other namespaces are free, and what is deleted frees one."""
    world = make_world()
    for number in range(POLICIES_MAX):
        made = world.make(EVENT_POLICY, f"p{number}", "shop")
    error = world.refused(world.objects.create(EVENT_POLICY, "shop", {"metadata": {"name": "x"}}))
    assert error.reason == "Forbidden"
    assert "used: eventpolicies=100, limited: eventpolicies=100" in str(error)
    world.edit(made.key, with_spec(**{"from": [{"sub": "*"}]}))
    world.make(EVENT_POLICY, "x", "bank")
    world.delete(made.key)
    world.make(EVENT_POLICY, "x", "shop")


def test_filters_of_the_policies_of_a_namespace_are_limited_together(make_world):
    """In comparisons: what grows is refused, what shrinks is not; after a restart too."""

    def filters(count: int) -> dict:
        parts = [{"exact": {"type": f"t{number}"}} for number in range(count)]
        return {"filters": [{"any": parts}, {"cesql": "source = 'a'"}]}

    world = make_world()
    for number in range(5):
        made = world.make(EVENT_POLICY, f"p{number}", "shop")
        world.edit(made.key, with_spec(**filters(399)))
    world.restart()
    content = {"metadata": {"name": "x"}, "spec": filters(1)}
    error = world.refused(world.objects.create(EVENT_POLICY, "shop", content))
    assert error.reason == "Forbidden"
    told = "requested: eventpolicies.comparisons=2, used: eventpolicies.comparisons=2000, limited"
    assert told in str(error)
    error = world.refused(world.objects.edit(made.key, with_spec(**filters(400))))
    assert "requested: eventpolicies.comparisons=1," in str(error)
    world.edit(made.key, with_spec(**filters(399), **{"from": [{"sub": "*"}]}))
    world.edit(made.key, with_spec(**filters(397)))
    assert world.run(world.objects.create(EVENT_POLICY, "shop", content))


def test_policies_of_a_namespace_are_limited_in_bytes_together(make_world, monkeypatch):
    """Filters, subjects and targets, whatever they cost an event; a status does not count.

    What an older version took goes on, and may shrink, but not grow.
    """
    long = {"filters": [{"cesql": f"type <> '{'x' * 60_000}'"}]}
    subjects = {"from": [{"sub": f"key:{number:06}*"} for number in range(3_000)]}
    world = make_world()
    for name in ("a", "b"):
        made = world.make(EVENT_POLICY, name, "shop")
        world.edit(made.key, with_spec(**long))
        world.edit(made.key, with_spec(**long, **subjects))
    status = {"status": {"from": [{"sub": "x" * 100_000}]}}
    world.edit(made.key, lambda old: {**old, **status}, Write(subresource="status"))
    world.restart()
    content = {"metadata": {"name": "x"}, "spec": long}
    error = world.refused(world.objects.create(EVENT_POLICY, "shop", content))
    assert error.reason == "Forbidden"
    used = 2 * len(msgspec.json.encode(long | subjects))
    told = f"requested: eventpolicies.bytes={len(msgspec.json.encode(long))}, used: "
    assert f"{told}eventpolicies.bytes={used}, limited: eventpolicies.bytes=262144" in str(error)
    assert world.make(EVENT_POLICY, "x", "bank")
    monkeypatch.setattr(_usage, "POLICY_BYTES_MAX", 10_000)
    more = {"from": [*subjects["from"], {"sub": "key:more"}]}
    error = world.refused(world.objects.edit(made.key, with_spec(**long, **more)))
    assert "exceeded quota" in str(error)
    world.edit(made.key, lambda old: {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}})
    world.edit(made.key, with_spec(**long))
    world.edit(made.key, with_spec())


def test_the_cost_of_a_policy_is_reckoned_when_its_spec_changes(make_world, monkeypatch):
    """However many there are, and however often their statuses change."""
    world = make_world()
    policies = [world.make(EVENT_POLICY, f"p{number}", f"n{number}") for number in range(300)]
    for each in policies:
        world.edit(each.key, with_spec(filters=[{"exact": {"type": each.key.namespace}}]))
    compiled, plain = [], filter_room.compile
    monkeypatch.setattr(filter_room, "compile", lambda of: compiled.append(of) or plain(of))
    for each in policies:
        status = {"status": {"from": [{"sub": "x"}]}}
        world.edit(each.key, lambda old, new=status: {**old, **new}, Write(subresource="status"))
    assert compiled == []
    world.edit(each.key, with_spec(filters=[{"exact": {"type": "u"}}]))
    assert compiled == [({"exact": {"type": "u"}},)]


def test_objects_of_a_namespace_are_limited_in_bytes(make_world):
    """What grows is refused, what shrinks is not; the server's own writes are not."""
    table = QuotaTable(others=Quotas(stored_bytes=5_000))
    world = make_world(quotas=lambda: table)
    made = world.trigger("a", namespace="shop", text="x" * 3_000)
    error = world.refused(world.objects.edit(made.key, with_spec(text="x" * 5_000)))
    assert "limited: stored_bytes=5000" in str(error)
    world.trigger("a", namespace="till", text="x" * 3_000)
    world.edit(made.key, with_spec(text="x" * 6_000), Write(by_server=True))
    world.edit(made.key, with_spec(text=""))
    world.trigger("b", namespace="shop", text="x" * 3_000)


def test_an_object_is_limited_in_bytes(world):
    """413 names the limit."""
    content = {"metadata": {"name": "c"}, "data": {"x": "x" * OBJECT_BYTES_MAX}}
    error = world.refused(world.objects.create(CONFIG_MAP, "default", content))
    assert error.reason == "RequestEntityTooLarge"


def test_text_that_is_not_unicode_is_refused(world):
    """A lone surrogate cannot be written."""
    content = {"metadata": {"name": "c"}, "data": {"x": "\ud800"}}
    error = world.refused(world.objects.create(CONFIG_MAP, "default", content))
    assert error.reason == "BadRequest"


def test_contents_are_nobody_elses(world):
    """What a caller does to its argument later changes nothing."""
    spec = {"list": [1]}
    made = world.trigger("t", **spec)
    spec["list"].append(2)
    assert made.content["spec"] == {"list": [1]}


def test_writes_are_refused_before_the_start_and_after_the_end(make_world):
    """ServiceUnavailable, and nothing is stored."""
    world = make_world()
    world.run(world.objects.close())
    error = world.refused(world.objects.create(TRIGGER, "default", {"metadata": {"name": "t"}}))
    assert error.reason == "ServiceUnavailable"


def test_a_failed_commit_stores_nothing(world, monkeypatch):
    """The caller hears it; the next write goes on with the same version."""

    def fail(*_):
        raise StoreError("disk")

    with monkeypatch.context() as patch:
        patch.setattr(world.objects._rows, "write", fail)
        with pytest.raises(StoreError):
            world.trigger("t")
    assert world.objects.get(key(TRIGGER, "t")) is None
    assert world.trigger("u").version == 3


def test_a_commit_that_failed_after_all_was_stored_is_found_again(world, monkeypatch):
    """Memory follows the store; listeners hear it, watches begin anew."""
    rows = world.objects._rows
    write = rows.write

    def fail_late(*arguments):
        write(*arguments)
        raise StoreError("fsync")

    world.trigger("gone")
    world.trigger("changed")
    watch = world.objects.watch(TRIGGER, None, world.objects.version)
    world.told.clear()

    async def all_at_once():
        await asyncio.gather(
            world.objects.create(TRIGGER, "default", {"metadata": {"name": "new"}}),
            world.objects.delete(key(TRIGGER, "gone")),
            world.objects.edit(key(TRIGGER, "changed"), with_spec(a=1)),
        )

    with monkeypatch.context() as patch:
        patch.setattr(rows, "write", fail_late)
        with pytest.raises(StoreError):
            world.run(all_at_once())
    world.trigger("next")
    assert world.names(TRIGGER) == [("default", name) for name in ("changed", "new", "next")]
    heard = {(change.type, change.stored.key.name) for change in world.told}
    assert heard == {
        ("ADDED", "new"), ("DELETED", "gone"), ("MODIFIED", "changed"), ("ADDED", "next"),
    }  # fmt: skip
    assert world.refused(watch.changes(0)).reason == "Expired"


def test_a_batch_is_whole_in_the_store(world):
    """Counter, objects and addresses are of one transaction."""
    world.make(BROKER, "b", "new")
    with contextlib.closing(sqlite3.connect(world.url.database)) as connection, connection:
        assert connection.execute("SELECT version, address_version FROM object_counter").fetchall(
        ) == [(4, 2)]  # fmt: skip
        assert connection.execute("SELECT count(*) FROM object").fetchall() == [(4,)]
        assert connection.execute("SELECT count(*) FROM address").fetchall() == [(2,)]


def test_too_many_waiting_writes_are_told_to_come_again(world, monkeypatch):
    """429 with a time; the server's own find room."""
    monkeypatch.setattr("distributary.knative.apiserver.objects._writer.WAITING_MAX", 3)

    async def race():
        def create(name, write):
            return world.objects.create(TRIGGER, name, {"metadata": {"name": name}}, write)

        writes = [create(f"t{number}", Write()) for number in range(4)]
        return await asyncio.gather(
            *writes, create("own", Write(by_server=True)), return_exceptions=True
        )

    *made, refused, own = world.run(race())
    assert [each.key.name for each in made] == ["t0", "t1", "t2"]
    assert (refused.reason, refused.retry_after_s) == ("TooManyRequests", 1)
    assert str(refused) == "too many writes are waiting; please try again later"
    assert own.key.name == "own"


def test_writes_of_one_namespace_leave_room_for_others(world, monkeypatch):
    """Half of all that may wait, and a quarter once half of them wait; then it is as before."""
    monkeypatch.setattr("distributary.knative.apiserver.objects._writer.WAITING_MAX", 8)

    names = (f"t{number}" for number in itertools.count())

    async def race(*writers):
        """How many writes of each namespace are made of those that come at once."""
        writes = [
            world.objects.create(TRIGGER, namespace, {"metadata": {"name": next(names)}})
            for namespace, count in writers
            for _ in range(count)
        ]
        done = await asyncio.gather(*writes, return_exceptions=True)
        made = Counter(each.key.namespace for each in done if not isinstance(each, StatusError))
        return [made[namespace] for namespace, _ in writers]

    assert world.run(race(("many", 8), ("few", 2), ("some", 3))) == [4, 2, 2]
    assert world.run(race(("few", 8), ("many", 3))) == [4, 2]


def test_writes_of_large_objects_delay_no_other_namespace(world, monkeypatch):
    """They count for more: few share a transaction, then it is the turn of others."""
    batches, write = [], world.objects._rows.write

    def noted(changes, *rest):
        batches.append([change.stored.key.namespace for change in changes])
        write(changes, *rest)

    large = world.make(CONFIG_MAP, "large", "many", data={"x": "x" * 500_000}).key
    small = world.make(CONFIG_MAP, "small", "few", data={"x": ""}).key
    monkeypatch.setattr(world.objects._rows, "write", noted)

    def label(key, number):
        def change(content):
            labels = {"n": str(number)}
            return {**content, "metadata": {**content["metadata"], "labels": labels}}

        return world.objects.edit(key, change)

    async def race():
        writes = [label(large, number) for number in range(12)]
        writes += [label(small, number) for number in range(3)]
        await asyncio.gather(*writes)

    world.run(race())
    assert [batch.count("many") for batch in batches] == [2] * 6
    assert [batch.count("few") for batch in batches[:2]] == [2, 1]


def test_what_a_client_sends_counts_for_its_place_in_line(world, monkeypatch):
    """Large bodies as large objects; a delete as one request."""
    monkeypatch.setattr("distributary.knative.apiserver.objects._writer.WAITING_MAX", 64)
    made = world.make(CONFIG_MAP, "a", data={"x": "x" * 500_000})

    def create(name):
        content = {"metadata": {"name": name}}
        return world.objects.create(CONFIG_MAP, name, content, Write(body_bytes=100_000))

    async def race():
        writes = create("one"), create("two"), create("three"), world.objects.delete(made.key)
        return await asyncio.gather(*writes, return_exceptions=True)

    one, two, three, gone = world.run(race())
    assert (one.key.name, two.key.name, gone.key.name) == ("one", "two", "a")
    assert three.reason == "TooManyRequests"


def test_the_share_of_a_namespace_counts_the_write_that_comes(world, monkeypatch):
    """Several large ones leave room to others; a first one finds its place, whatever it counts."""
    monkeypatch.setattr("distributary.knative.apiserver.objects._writer.WAITING_MAX", 64)

    async def race(*writes):
        made = await asyncio.gather(
            *(
                world.objects.create(
                    CONFIG_MAP, namespace, {"metadata": {"name": name}}, Write(body_bytes=size)
                )
                for namespace, name, size in writes
            ),
            return_exceptions=True,
        )
        return [str(each) if isinstance(each, StatusError) else "made" for each in made]

    large = world.run(race(("many", "a", 100_000), ("many", "b", 100_000), ("few", "a", 100_000)))
    refusal = "too many writes of the namespace many are waiting; please try again later"
    assert large == ["made", refusal, "made"]
    assert world.run(race(("many", "c", 200_000), ("few", "c", 1))) == ["made", "made"]


def test_a_caller_that_went_away_before_its_batch_writes_nothing(world, monkeypatch):
    """A request that is cancelled while it waits is let go."""
    rows = world.objects._rows
    write, begun, go_on = rows.write, threading.Event(), threading.Event()

    def slow(*arguments):
        begun.set()
        assert go_on.wait(60)
        write(*arguments)

    def create(name):
        content = {"metadata": {"name": name}}
        return asyncio.ensure_future(world.objects.create(TRIGGER, "default", content))

    async def cancel():
        first = create("first")
        assert await asyncio.to_thread(begun.wait, 10)
        second, third = create("second"), create("third")
        await asyncio.sleep(0)
        second.cancel()
        go_on.set()
        await asyncio.gather(first, third)

    monkeypatch.setattr(rows, "write", slow)
    world.run(cancel())
    assert world.names(TRIGGER) == [("default", "first"), ("default", "third")]


def test_a_damaged_object_is_named_at_the_start(world):
    """With what to do; an object that cannot be read must not be served as if it were not there."""
    world.trigger("t", broker="default")
    with contextlib.closing(sqlite3.connect(world.url.database)) as connection, connection:
        connection.execute("UPDATE object SET content_json = '{' WHERE name = 't'")
    with pytest.raises(StoreError, match=r"triggers.eventing.knative.dev default/t is damaged"):
        world.restart()


def test_a_full_server_takes_the_deletes_that_make_room(make_world):
    """Marking an object as ending makes it larger; its finalizer would keep it for ever."""
    world = make_world(bytes_max=2_000)
    made = world.make(BROKER, "b", metadata={"finalizers": ["example.com/wait"]})
    filling = world.make(CONFIG_MAP, "c").key
    refused = None
    for length in range(2_000):  # byte by byte, until there is no room for another one

        def longer(content, text="x" * length):
            return {**content, "data": {"text": text}}

        try:
            world.edit(filling, longer)
        except StatusError as error:
            refused = error.reason
            break
    assert refused == "Forbidden"
    assert "deletionTimestamp" in world.delete(made.key).content["metadata"]
