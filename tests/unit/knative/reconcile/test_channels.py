"""Channels and messaging Subscriptions."""

import asyncio

import pytest

from distributary.core.errors import StoreError
from distributary.knative.reconcile import _pass

CHANNEL = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "c"}


def subscribe(world, name="s", **spec):
    """Apply a Subscription of the Channel ``c``."""
    return world.apply("Subscription", name, {"channel": CHANNEL, **spec})


def lists(world, *names, ready=None):
    """Both lists of the Channel, once they have these *names*, and these are *ready* or not."""

    async def written():
        async with asyncio.timeout(60):
            while True:
                found = world.get("Channel", "c")
                spec = found["spec"].get("subscribers", [])
                status = found["status"].get("subscribers", [])
                stands = [entry["ready"] for entry in status]
                if {entry["name"] for entry in spec} == {*names} and ready in {None, *stands}:
                    return spec, status
                await asyncio.sleep(0.01)

    return world.runner.run(written())


def test_a_subscription_listens_at_its_channel(world):
    """To everything, and its replies go where it says."""
    channel = world.apply("Channel", "c")
    url = "http://events.example:8080/channels/default/c"
    assert channel["status"]["address"] == {"name": "http", "url": url}
    none = ("True", "DeadLetterSinkNotConfigured")
    assert world.condition(channel, "DeadLetterSinkResolved") == none
    made = subscribe(world, subscriber=world.to(), reply=world.at("Broker", "default"))
    assert world.ready(made) == "True"
    assert made["status"]["physicalSubscription"] == {
        "subscriberUri": "http://127.0.0.1:9/in",
        "replyUri": "http://events.example:8080/brokers/default/default",
    }
    record = world.standing()[made["metadata"]["uid"]]
    assert (record.address, record.filters) == (channel["metadata"]["uid"], ())
    settings = world.settings(made)
    assert (settings.wants_reply, settings.reply_kept) == (True, False)
    assert settings.reply.own


def test_an_in_memory_channel_is_the_channel_of_that_name(world):
    """References that were written for Knative's own, to subscribe at and to send to."""
    channel = world.apply("Channel", "c")
    alias = {**CHANNEL, "kind": "InMemoryChannel"}
    made = world.apply(
        "Subscription", "s", {"channel": alias, "subscriber": world.to(), "reply": {"ref": alias}}
    )
    assert world.ready(made) == "True"
    assert world.standing()[made["metadata"]["uid"]].address == channel["metadata"]["uid"]
    assert world.settings(made).reply.uri == channel["status"]["address"]["url"]


def test_a_missing_channel_is_told(world):
    """Not ready, and the reason says so."""
    made = subscribe(world, subscriber=world.to())
    assert world.condition(made, "Ready") == ("False", "ChannelDoesNotExist")
    assert world.records() == []
    world.apply("Channel", "c")
    assert world.ready(world.get("Subscription", "s")) == "True"


def test_without_a_subscriber_events_go_to_the_reply(world):
    """And no reply is asked for (decision 18)."""
    world.apply("Channel", "c")
    made = subscribe(world, reply=world.to())
    settings = world.settings(made)
    assert settings.sink.uri == "http://127.0.0.1:9/in"
    assert (settings.wants_reply, settings.reply) == (False, None)
    assert made["status"]["physicalSubscription"] == {"replyUri": "http://127.0.0.1:9/in"}


def test_a_reply_that_goes_holds_deliveries_up(world):
    """Rather than that a reply is lost: attempts fail and are made again."""
    world.apply("Channel", "c")
    world.service("r")
    made = subscribe(world, subscriber=world.to(), reply=world.at("Service", "r"))
    before = world.settings(made)
    world.delete("Service", "r")
    gone = world.get("Subscription", "s")
    assert world.condition(gone, "ReferencesResolved") == ("False", "NotFound")
    assert gone["status"]["physicalSubscription"]["replyUri"] == ""
    settings = world.settings(made)
    assert settings.reply == before.reply
    assert settings.unusable is not None


@pytest.mark.slow
def test_a_channel_lists_its_subscriptions(world):
    """Uid, generation, resolved URIs and delivery; and whether each is ready."""
    world.apply("Channel", "c", {"delivery": {"retry": 2}})
    a = subscribe(world, "a", subscriber=world.to())
    world.service("d")
    b = subscribe(
        world,
        "b",
        subscriber=world.to(),
        delivery={"retry": 5, "deadLetterSink": world.at("Service", "d")},
    )
    spec, status = lists(world, "a", "b")
    assert spec == [
        {
            "name": "a",
            "uid": a["metadata"]["uid"],
            "generation": 1,
            "subscriberUri": "http://127.0.0.1:9/in",
            "delivery": {"retry": 2},
        },
        {
            "name": "b",
            "uid": b["metadata"]["uid"],
            "generation": 1,
            "subscriberUri": "http://127.0.0.1:9/in",
            "delivery": {"retry": 5, "deadLetterSink": {"uri": "http://d.default.svc/"}},
        },
    ]
    assert [entry["ready"] for entry in status] == ["True", "True"]
    assert world.get("Channel", "c")["metadata"]["generation"] == 1

    world.delete("Subscription", "a")
    spec, status = lists(world, "b")
    assert [entry["uid"] for entry in spec] == [b["metadata"]["uid"]]
    world.delete("Service", "d")
    _, status = lists(world, "b", ready="False")
    assert status[0]["ready"] == "False"
    assert "not found" in status[0]["message"]
    world.delete("Subscription", "b")
    assert lists(world) == ([], [])


@pytest.mark.slow
def test_many_subscriptions_make_few_writes_of_their_channel(world):
    """One for each would be a quadratic number of bytes."""
    world.apply("Channel", "c")
    written = []
    world.objects.on_change(lambda change: change.stored.key.name == "c" and written.append(change))

    async def apply_all():
        kind = world.kinds["Subscription"]
        for first in range(0, 60, 6):
            await asyncio.gather(
                *(
                    world.objects.create(
                        kind,
                        "default",
                        {
                            "metadata": {"name": f"s{number}"},
                            "spec": {"channel": CHANNEL, "subscriber": world.to()},
                        },
                    )
                    for number in range(first, first + 6)
                )
            )

    world.runner.run(apply_all())
    world.settle()
    lists(world, *(f"s{number}" for number in range(60)))
    assert len(written) < 15


def test_a_deleted_channel_leaves_its_routes(world):
    """As a Broker does: what was accepted is delivered; a new one of its name is another."""
    old = world.apply("Channel", "c")
    made = subscribe(world, subscriber=world.to())
    world.delete("Channel", "c")
    assert world.condition(world.get("Subscription", "s"), "ChannelReady") == (
        "False",
        "ChannelDoesNotExist",
    )
    assert world.standing()[made["metadata"]["uid"]].address == old["metadata"]["uid"]
    new = world.apply("Channel", "c")
    assert world.standing()[made["metadata"]["uid"]].address == new["metadata"]["uid"]
    lists(world, "s")


@pytest.mark.slow
def test_lists_that_cannot_be_written_are_not_tried_without_a_pause(world, monkeypatch):
    """A store that is full for hours fills no log."""
    world.apply("Channel", "c")
    subscribe(world, subscriber=world.to())
    tries = []

    async def fail(edits, _write):
        tries.append(edits)
        raise StoreError("full")

    monkeypatch.setattr(_pass, "_LISTS_AGAIN_S", 2.0)
    with monkeypatch.context() as failing:
        failing.setattr(world.objects, "edit_all", fail)
        world.runner.run(asyncio.sleep(0.25))
    assert len(tries) == 1
    lists(world, "s")
