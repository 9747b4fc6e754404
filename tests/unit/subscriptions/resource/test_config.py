"""``config``: what each key means, and every way to get it wrong."""

import dataclasses
import math

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


INVALID = {
    "misspelt": ({"intervall": 5}, "$.config.intervall", "unknown"),
    "unknown": ({"x": 5}, "$.config.x", "unknown"),
    "interval null": ({"interval": None}, "$.config.interval", "type"),
    "interval text": ({"interval": "5"}, "$.config.interval", "type"),
    "interval boolean": ({"interval": True}, "$.config.interval", "type"),
    "interval 0": ({"interval": 0}, "$.config.interval", "value"),
    "interval short": ({"interval": 0.999}, "$.config.interval", "value"),
    "interval long": ({"interval": 31_536_001}, "$.config.interval", "value"),
    "interval huge": ({"interval": 10**400}, "$.config.interval", "value"),
    "interval NaN": ({"interval": math.nan}, "$.config.interval", "value"),
    "interval infinite": ({"interval": math.inf}, "$.config.interval", "value"),
    "data alone": ({"data": 1}, "$.config.data", "not-applicable"),
    "type alone": ({"type": "x"}, "$.config.type", "not-applicable"),
    "type empty": ({"interval": 1, "type": ""}, "$.config.type", "empty"),
    "type number": ({"interval": 1, "type": 1}, "$.config.type", "type"),
    "type long": ({"interval": 1, "type": "x" * 1025}, "$.config.type", "too-long"),
    "type of no event": ({"interval": 1, "type": "a\nb"}, "$.config.type", "character"),
    "start null": ({"start": None}, "$.config.start", "type"),
    "start word": ({"start": "first"}, "$.config.start", "time"),
    "start array": ({"start": ["latest"]}, "$.config.start", "type"),
    "start without offset": ({"start": "2020-01-01T00:00:00"}, "$.config.start", "time"),
    "expires word": ({"expires": "earliest"}, "$.config.expires", "time"),
    "expires number": ({"expires": 4_102_444_800}, "$.config.expires", "type"),
    "expires past": ({"expires": "2020-01-01T00:00:00Z"}, "$.config.expires", "value"),
    "maxevents 0": ({"maxevents": 0}, "$.config.maxevents", "value"),
    "maxevents large": ({"maxevents": 10**9 + 1}, "$.config.maxevents", "value"),
    "maxevents boolean": ({"maxevents": True}, "$.config.maxevents", "type"),
    "maxevents fraction": ({"maxevents": 1.5}, "$.config.maxevents", "type"),
}


@pytest.mark.parametrize(("config", "path", "code"), INVALID.values(), ids=INVALID)
def test_one_mistake_is_one_fault_at_its_place(faults_of, config, path, code):
    """Nothing is guessed, nothing is passed over."""
    (fault,) = faults_of(config=config)
    assert fault == (path, code)


def test_all_mistakes_are_named_at_once(faults_of):
    """Who mends one does not find the next."""
    config = {"intervall": 1, "data": 1, "start": 5, "expires": "x", "maxevents": -1}
    assert [path for path, _ in faults_of(config=config, sink=5)] == [
        "$.config.intervall", "$.config.data", "$.config.start", "$.config.expires",
        "$.config.maxevents", "$.sink",
    ]  # fmt: skip


def test_a_misspelt_key_gets_a_hint(rules):
    """The nearest known name is named."""
    body = {"sink": "http://127.0.0.1/", "protocol": "HTTP", "config": {"maxEvents": 1}}
    with pytest.raises(ResourceError, match="did you mean maxevents"):
        api_subscription.parse(body, rules)


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


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"types": ["a\u0007"]}, "$.types[0]"),
        ({"source": "/x\ufdd0"}, "$.source"),
    ],
)
def test_a_timer_needs_a_source_and_a_type_that_events_can_have(faults_of, parse, members, path):
    """As a mere constraint they select nothing; no event can be made of them."""
    parse(**members)
    assert [found for found, _ in faults_of(config={"interval": 1}, **members)] == [path]


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
