"""One duration, however it is spelled, wherever one is taken."""

import json

import pytest

from distributary.cli import _subscribe_flags
from distributary.cli._times import seconds
from distributary.core.errors import ResourceError, SettingsError
from distributary.core.filter import check
from distributary.resource import ResourceRules, SinkRule
from distributary.resource.durations import DURATION_S_MAX, iso_duration, read_duration_s
from distributary.server import settings
from distributary.subscriptions import resource as api_subscription

SPELLINGS = ["30s", "PT30S", "30", 30, 30.0, "0.5m", "30000ms", " 30 s "]
RULES = ResourceRules(SinkRule(local_allowed=True), check)


@pytest.mark.parametrize("value", SPELLINGS)
def test_every_spelling_is_read(value):
    """By itself, and as a setting from a flag, a variable or a file."""
    assert read_duration_s(value) == 30.0
    assert iso_duration(value) == "PT30S"
    assert settings.load({"drain_s": value}, {}, None).drain_s == 30.0
    assert settings.load({}, {"DISTRIBUTARY_DRAIN_S": str(value)}, None).drain_s == 30.0


@pytest.mark.parametrize(
    ("value", "expected_s"),
    [("14d", 14 * 86_400.0), ("500ms", 0.5), ("2h", 7_200.0), ("5M", 300.0), ("P1D", 86_400.0)],
)
def test_every_unit_is_known(value, expected_s):
    """From milliseconds to days."""
    assert read_duration_s(value) == expected_s
    assert seconds("--delay", value) == expected_s


@pytest.mark.parametrize(
    "value",
    ["", "soon", "s", "-1", "1x", "1 2", "1e3", "-PT1S", "P1M", True, -1, float("nan"), "9" * 99],
)
def test_what_is_no_duration_is_refused(value):
    """With the spellings that are taken, or what else is wrong."""
    with pytest.raises(ValueError, match=r"duration|length"):
        read_duration_s(value)


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_of_any_size_is_refused_as_others_are(digits, sign):
    """Bodies may hold integers that no float can, and more digits than Python writes."""
    with pytest.raises(ValueError, match="duration"):
        read_duration_s(sign * 10**digits)


def test_a_flag_says_its_name_and_what_it_takes():
    """Exit code 2 is for the caller."""
    with pytest.raises(SettingsError, match="--timeout: expected a duration such as 30s"):
        seconds("--timeout", "soon")
    with pytest.raises(SettingsError, match=r"--timeout: at least 0\.1s"):
        seconds("--timeout", "1ms", 0.1)


def test_ten_years_are_the_longest():
    """As with ISO 8601."""
    assert read_duration_s(DURATION_S_MAX) == DURATION_S_MAX
    with pytest.raises(ValueError, match="ten years"):
        read_duration_s("5000d")


def _realized(**delivery: object) -> dict[str, object]:
    proposal = {
        "sink": "http://127.0.0.1:9000",
        "protocol": "HTTP",
        "protocolsettings": {"delivery": delivery},
    }
    spec = api_subscription.parse(proposal, RULES)
    found: dict[str, object] = json.loads(spec.realized)["protocolsettings"]["delivery"]
    return found


@pytest.mark.parametrize("value", SPELLINGS)
def test_a_subscription_takes_every_spelling_and_shows_iso(value):
    """So what is answered is the same for all of them."""
    realized = _realized(timeout=value, backoffDelay=value, backoffMax=value)
    assert realized["timeout"] == realized["backoffDelay"] == realized["backoffMax"] == "PT30S"


def test_a_duration_in_iso_stays_as_it_was_written():
    """It is compared as text by those who wrote it."""
    assert _realized(timeout="PT60S")["timeout"] == "PT60S"


@pytest.mark.parametrize("value", ["soon", [30], True, -1])
def test_what_is_no_duration_is_one_fault_at_its_place(value):
    """And no other fault follows from it."""
    with pytest.raises(ResourceError) as caught:
        _realized(timeout=value)
    (fault,) = caught.value.faults
    assert fault.path == "$.protocolsettings.delivery.timeout"


def test_the_command_line_passes_a_timer_as_seconds():
    """The API says ``interval`` in seconds."""
    flags = {"sink": "http://127.0.0.1:9000", "interval": "1m"}
    assert _subscribe_flags.body_of(flags)["config"] == {"interval": 60.0}
