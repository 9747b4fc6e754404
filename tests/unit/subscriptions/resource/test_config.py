"""``config``: what each key means."""

import dataclasses

import pytest

from distributary.core.errors import ResourceError
from distributary.core.event import Event, record, validate
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.resource import (
    CONFIG_KEYS,
    ConfigSpec,
    restore,
    timer_source,
    timer_type,
)

WHOLE = {
    "interval": 2.5,
    "data": {"a": [1, None]},
    "type": "wake",
    "start": "2020-01-01T00:00:00Z",
    "expires": "2100-01-01T00:00:00Z",
    "maxevents": 7,
    "broker": "orders",
    "lifecycle": True,
}


def test_every_key_has_its_meaning(parse):
    """What was proposed is what the spec says, and what is answered."""
    spec = parse(config=WHOLE)
    assert spec.config == ConfigSpec(
        interval_s=2.5,
        timer_data=b'{"a":[1,null]}',
        timer_type="wake",
        begin_ms=1_577_836_800_000,
        expires_ms=4_102_444_800_000,
        events_max=7,
        broker="orders",
        lifecycle=True,
    )
    assert spec.to_json()["config"] == WHOLE


def test_the_store_gives_back_the_same(parse):
    """``restore`` reads what ``parse`` wrote."""
    spec = parse(config=WHOLE)
    assert restore(spec.realized).config == spec.config


def test_the_table_names_every_key():
    """What is advertised is what is taken."""
    assert set(CONFIG_KEYS) == set(WHOLE)


@pytest.mark.parametrize("config", [{}, {"start": "latest"}])
def test_without_a_wish_nothing_comes_due(parse, config):
    """Defaults are not written in; ``latest`` is what happens anyway."""
    spec = parse(config=config)
    assert spec.config == ConfigSpec()
    assert spec.to_json()["config"] == config


@pytest.mark.parametrize(
    ("start", "begin_ms"),
    [("earliest", 0), ("1960-01-01T00:00:00Z", 0), ("1970-01-01T00:00:00.007Z", 7)],
)
def test_a_start_is_a_time(parse, start, begin_ms):
    """0 stands for the oldest that is kept; nothing is older than 1970."""
    assert parse(config={"start": start}).config.begin_ms == begin_ms


@pytest.mark.parametrize("data", [None, False, 0, "", [], {"deep": [[]]}])
def test_any_json_is_data_of_a_timer(parse, data):
    """Null is a value like others; absent is another thing."""
    assert parse(config={"interval": 1, "data": data}).config.timer_data is not None
    assert parse(config={"interval": 1}).config.timer_data is None


def test_the_end_is_judged_by_the_clock_of_the_rules(rules):
    """Its own millisecond is too late."""
    body = {
        "sink": "http://127.0.0.1/",
        "protocol": "HTTP",
        "config": {"expires": "1970-01-01T00:00:01Z"},
    }
    early, late = (
        dataclasses.replace(rules, wall_ms=lambda now_ms=now_ms: now_ms) for now_ms in (999, 1000)
    )
    assert api_subscription.parse(body, early).config.expires_ms == 1000
    with pytest.raises(ResourceError, match="in the future"):
        api_subscription.parse(body, late)


@pytest.mark.parametrize("members", [{"types": ["a\u0007"]}, {"source": "/x\ufdd0"}])
def test_a_source_and_a_type_that_no_event_has_are_constraints(parse, members):
    """They select nothing; only a timer, which makes events of them, needs others."""
    parse(**members)


@pytest.mark.parametrize(
    ("types", "chosen", "expected"),
    [
        (("a", "b"), "c", "a"),
        ((), "c", "c"),
        ((), None, "dev.distributary.timer"),
    ],
)
def test_the_type_of_a_timer_event(types, chosen, expected):
    """Decision 11: the first of the types, else the key, else the default."""
    assert timer_type(types, chosen) == expected


def test_the_source_of_a_timer_event():
    """Decision 11: the subscription's, else its path; either makes an event."""
    assert timer_source("urn:x", "a") == "urn:x"
    source = timer_source(None, "A-z.0_9")
    assert source == "/subscriptions/A-z.0_9"
    event = Event({"specversion": "1.0", "id": "1", "source": source, "type": "t"}, None)
    assert validate(record.decode(record.encode([event]))[0].attributes) == []
