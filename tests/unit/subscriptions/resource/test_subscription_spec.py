"""A good proposal becomes a complete object."""

import pytest

from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.protocols.http.settings import HttpSettings
from distributary.resource import ResourceRules, SinkRule
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.resource import ApiSubscriptionSpec

DEFAULTS = {
    "retry": 10,
    "backoffPolicy": "exponential",
    "backoffDelay": "PT0.2S",
    "backoffMax": "PT5M",
    "timeout": "PT30S",
}


def test_the_realized_object_shows_every_default(parse):
    """Decision 21: what was not said is filled in and shown."""
    assert parse().to_json() == {
        "filters": [],
        "sink": "https://example.com/sink",
        "protocol": "HTTP",
        "protocolsettings": {
            "headers": {},
            "method": "POST",
            "format": "binary",
            "delivery": DEFAULTS,
        },
    }


def test_typed_values_follow_the_realized_object(parse):
    """What the pipeline reads is what the client is shown, in seconds."""
    spec = parse(
        source="/s",
        types=["a", "b"],
        filters=[{"exact": {"subject": "x"}}],
        protocolsettings={
            "headers": {"X-One": "1"},
            "method": "PUT",
            "format": "structured",
            "delivery": {
                "retry": 0,
                "backoffPolicy": "linear",
                "backoffDelay": "PT1S",
                "backoffMax": "PT1M",
                "timeout": "PT2.5S",
                "rateLimit": 12.5,
            },
        },
    )
    assert (spec.source, spec.types) == ("/s", ("a", "b"))
    assert spec.filters == ({"exact": {"subject": "x"}},)
    assert spec.settings == HttpSettings("PUT", (("X-One", "1"),))
    assert (spec.format, spec.ca_certs) == ("structured", None)
    assert spec.policy == DeliveryPolicy(
        retry=0,
        backoff_policy=BackoffPolicy.LINEAR,
        backoff_delay_s=1.0,
        backoff_max_s=60.0,
        timeout_s=2.5,
        rate_limit_per_s=12.5,
    )
    assert spec.dead_letter is None


def test_a_dead_letter_uri_shares_protocol_method_and_format(parse):
    """The short form means the same settings but for headers, and letters end there."""
    spec = parse(
        protocolsettings={
            "headers": {"X-One": "1"},
            "method": "PUT",
            "format": "structured",
            "delivery": {"retry": 3, "deadLetterSink": "https://example.org/dead"},
        }
    )
    dead_letter = spec.dead_letter
    assert dead_letter is not None
    assert dead_letter.sink == "https://example.org/dead"
    assert dead_letter.settings == HttpSettings("PUT", ())
    assert dead_letter.format == "structured"
    assert dead_letter.policy == spec.policy
    shown = spec.to_json()["protocolsettings"]["delivery"]["deadLetterSink"]
    assert shown == "https://example.org/dead"


@pytest.mark.parametrize(
    ("protocol", "sink", "settings", "member"),
    [
        ("HTTP", "http://127.0.0.1/", {"headers": {"X-One": "1"}}, "headers"),
        (
            "MQTT5",
            "mqtt://127.0.0.1/",
            {"topicname": "t", "userproperties": {"a": "1"}},
            "userproperties",
        ),
        (
            "AMQP",
            "amqp://127.0.0.1/",
            {"address": "q", "linkproperties": {"a": 1}},
            "linkproperties",
        ),
    ],
)
def test_a_dead_letter_uri_has_custom_headers_at_the_same_party_alone(
    parse, protocol, sink, settings, member
):
    """They may be keys: another address does not get them (decision 21)."""
    for target, own in ((sink, True), (sink.replace(".1/", ".1:1/"), False)):
        wanted = settings | {"delivery": {"deadLetterSink": target}}
        spec = parse(protocol=protocol, sink=sink, protocolsettings=wanted)
        assert spec.dead_letter is not None
        there = getattr(spec.dead_letter.settings, member)
        assert there == (getattr(spec.settings, member) if own else ())


def test_a_dead_letter_object_has_settings_of_its_own(parse):
    """The long form starts from the defaults, not from the subscription's settings."""
    spec = parse(
        protocolsettings={
            "delivery": {
                "retry": 3,
                "deadLetterSink": {
                    "sink": "https://example.com/dead",
                    "protocol": "HTTP",
                    "protocolsettings": {"method": "PATCH"},
                },
            }
        }
    )
    dead_letter = spec.dead_letter
    assert dead_letter is not None
    assert dead_letter.settings == HttpSettings("PATCH", ())
    assert dead_letter.policy.retry == 10
    shown = spec.to_json()["protocolsettings"]["delivery"]["deadLetterSink"]
    assert shown["protocolsettings"]["delivery"] == DEFAULTS


@pytest.mark.parametrize("where", ["settings", "delivery"])
@pytest.mark.parametrize(("said", "meant"), [("binary", "binary"), ("json", "structured")])
def test_format_is_read_where_either_world_writes_it(parse, where, said, meant):
    """Knative has it in its DeliverySpec and calls structured json; it is shown in one place."""
    settings = {"format": said} if where == "settings" else {"delivery": {"format": said}}
    spec = parse(protocolsettings=settings)
    assert spec.format == meant
    shown = spec.to_json()["protocolsettings"]
    assert shown["format"] == meant
    assert "format" not in shown["delivery"]


def test_a_long_delay_lifts_the_default_ceiling(parse):
    """A ceiling that nobody asked for does not turn a delay that was asked for into a fault."""
    spec = parse(protocolsettings={"delivery": {"backoffDelay": "PT10M"}})
    assert spec.policy.backoff_max_s == 600.0


def test_what_was_realized_parses_to_itself(parse, rules):
    """A client may send back what it read."""
    spec = parse(
        source="/s",
        types=["a"],
        config={},
        filters=[{"not": {"prefix": {"type": "x"}}}],
        protocolsettings={"delivery": {"deadLetterSink": {"sink": "http://127.0.0.1/d"}}},
    )
    assert api_subscription.parse(spec.to_json(), rules) == spec


def test_the_id_in_a_body_is_not_looked_at(parse):
    """Whatever stands there is the business of who creates or replaces."""
    assert "id" not in parse(id={"strange": 1}).to_json()


def test_restore_reads_what_parse_wrote(parse):
    """The store keeps the realized text and nothing else."""
    spec = parse(protocolsettings={"delivery": {"deadLetterSink": "http://127.0.0.1/d"}})
    assert api_subscription.restore(spec.realized) == spec


@pytest.mark.parametrize("damaged", [b"", b"[]", b"{}", b'{"sink":1}', b"\xff", b"null"])
def test_restore_refuses_what_parse_never_wrote(damaged):
    """Damage is a ValueError, never a strange spec."""
    with pytest.raises(ValueError, match=r".+"):
        api_subscription.restore(damaged)


def test_header_values_are_not_in_the_repr(parse):
    """A repr ends up in logs and tracebacks, and headers may hold tokens."""
    spec = parse(protocolsettings={"headers": {"Authorization": "Bearer canary"}})
    assert isinstance(spec, ApiSubscriptionSpec)
    assert "canary" not in repr(spec)


def test_to_json_gives_values_of_its_own(parse):
    """A caller that changes what it got changes nothing here."""
    spec = parse()
    spec.to_json()["sink"] = "changed"
    assert spec.to_json()["sink"] == "https://example.com/sink"


def test_rules_take_the_filter_check_as_an_argument():
    """This room knows no dialect: what the check says is what counts."""
    lenient = ResourceRules(SinkRule(local_allowed=True), lambda _filters, _path="": [])
    body = {"sink": "http://127.0.0.1/", "protocol": "HTTP", "filters": [{"new": {}}]}
    assert api_subscription.parse(body, lenient).filters == ({"new": {}},)
