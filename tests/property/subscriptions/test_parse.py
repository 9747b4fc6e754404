"""Any JSON gives a spec or a ResourceError; what is good comes back as it went in."""

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from distributary.core.errors import ResourceError
from distributary.core.filter import check
from distributary.core.protocol import protocols
from distributary.resource import ResourceRules, SinkRule, decode_json
from distributary.resource.faults import FAULTS_MAX
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.resource import ApiSubscriptionSpec

RULES = ResourceRules(SinkRule(local_allowed=True), check)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
)

MEMBERS = [
    "id", "source", "types", "config", "filters", "filter", "sink", "protocol",
    "protocolsettings", "sinkCredential",
]  # fmt: skip
SETTINGS = [
    *sorted({name for row in protocols().values() for name in row.settings}),
    *api_subscription.SHARED_SETTINGS,
    "x",
]
DELIVERY = [
    "retry", "backoffPolicy", "backoffDelay", "backoffMax", "timeout", "rateLimit",
    "deadLetterSink", "format", "x",
]  # fmt: skip
words = st.sampled_from(
    [
        *("POST", "linear", "structured", "PT1S", "http://e.com/", "http://127.0.0.1", "exact"),
        *("mqtt://h", "amqp://h/%ff", "kafka://h,g/t", "nats://h", "all"),
        *protocols(),
    ]
)


def objects(names: list[str], values: st.SearchStrategy) -> st.SearchStrategy:
    """Objects with some of *names*."""
    return st.dictionaries(st.sampled_from(names), values, max_size=len(names))


dead_letters = words | objects(["sink", "protocol", "protocolsettings"], words | anything)
deliveries = objects(DELIVERY, words | anything | dead_letters)
near_settings = objects(SETTINGS, words | anything | deliveries)
near_filters = st.lists(
    objects(["exact", "all", "not", "dialect", "filters"], anything), max_size=3
)
near_configs = objects(
    [*api_subscription.CONFIG_KEYS, "x"],
    st.sampled_from(["earliest", "2100-01-01T00:00:00Z", 5]) | anything,
)
near_misses = objects(MEMBERS, words | anything | near_settings | near_filters | near_configs).map(
    lambda members: {"sink": "http://e.com/", "protocol": "HTTP", **members}
)


def parse(body: object) -> ApiSubscriptionSpec | ResourceError:
    """What comes of *body*; any other exception fails the test."""
    try:
        return api_subscription.parse(body, RULES)
    except ResourceError as error:
        return error


@given(anything | near_misses)
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.slow
def test_any_json_gives_a_spec_or_faults(body):
    """Nothing else comes out, and what is accepted is complete and stable."""
    outcome = parse(body)
    if isinstance(outcome, ResourceError):
        assert 1 <= len(outcome.faults) <= FAULTS_MAX + 1
        assert all(fault.path.startswith("$") and fault.code for fault in outcome.faults)
    else:
        assert parse(outcome.to_json()) == outcome
        assert api_subscription.restore(outcome.realized) == outcome


names = st.from_regex(r"x-[a-z0-9]{1,12}", fullmatch=True)
good_settings = st.fixed_dictionaries(
    {},
    optional={
        "headers": st.dictionaries(names, st.from_regex(r"[a-zA-Z0-9]{0,9}", fullmatch=True)),
        "method": st.sampled_from(["POST", "PUT", "PATCH"]),
        "format": st.sampled_from(["binary", "structured"]),
        "delivery": st.fixed_dictionaries(
            {},
            optional={
                "retry": st.integers(0, 1000),
                "backoffPolicy": st.sampled_from(["linear", "exponential"]),
                "backoffDelay": st.integers(0, 299).map("PT{}S".format),
                "timeout": st.integers(1, 600).map("PT{}S".format),
                "rateLimit": st.floats(0.001, 1e6) | st.integers(1, 1000),
                "deadLetterSink": st.just("https://e.com/dead")
                | st.just({"sink": "https://e.com/dead"}),
            },
        ),
    },
)
good = st.fixed_dictionaries(
    {"sink": st.just("https://e.com/sink"), "protocol": st.just("HTTP")},
    optional={
        "source": st.from_regex(r"/[a-z0-9/]{0,20}", fullmatch=True),
        "types": st.lists(st.text("abc.", min_size=1, max_size=20), min_size=1, max_size=9),
        "filters": st.lists(
            st.builds(
                lambda dialect, value: {dialect: {"type": value}},
                st.sampled_from(["exact", "prefix", "suffix"]),
                st.text("abc.", min_size=1),
            ),
            max_size=5,
        ),
        "protocolsettings": good_settings,
    },
)


def contains(whole: object, part: object) -> bool:
    """Whether *whole* says everything that *part* says."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and contains(whole[name], part[name]) for name in part)
    return whole == part


@given(good)
@settings(max_examples=100)
@pytest.mark.slow
def test_a_realized_object_says_everything_that_was_proposed(body):
    """Defaults are added; nothing is changed or lost."""
    assert contains(api_subscription.parse(body, RULES).to_json(), body)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@example(b"[" * 5000)
@settings(max_examples=200)
@pytest.mark.slow
def test_any_bytes_give_json_or_faults(body):
    """The decoder's promise."""
    faults = ()
    try:
        decode_json(body)
    except ResourceError as error:
        faults = error.faults
    assert len(faults) <= 1


@given(anything)
@settings(max_examples=100)
@pytest.mark.slow
def test_json_comes_back_as_it_went_in(value):
    """Strictness costs no value."""
    try:
        text = msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):  # surrogates; integers beyond the encoder
        return
    try:
        decoded = decode_json(text)
    except ResourceError:
        pytest.fail(f"refused {text!r}")
    assert decoded == value
