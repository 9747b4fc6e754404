"""What a target's answer means: only a header consents, in the form of the specification."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.subscriptions.consent import Allowed, Withheld, read_answer, read_rate

ORIGIN = "events.example.com"
RATE_MAX = 1_000_000_000


def fields(**values):
    """Header fields."""
    return [(name.replace("_", "-").encode(), value) for name, value in values.items()]


def answer(status=200, **values):
    """What an answer with these fields means."""
    return read_answer(status, fields(**values), ORIGIN)


@pytest.mark.parametrize(
    ("status", "origin", "rate", "allowed"),
    [
        (200, b"events.example.com", b"120", 120),
        (204, b"*", b"*", None),
        (200, b"EVENTS.Example.COM.", b"1", 1),
        (200, b"*", b"007", 7),
        (200, b"*", b"9" * 5000, RATE_MAX),
        (405, b"events.example.com", b"10", 10),
    ],
    ids=["by name", "of all", "in capitals", "leading zeros", "huge", "with another status"],
)
def test_the_header_consents(status, origin, rate, allowed):
    """http-webhook 4.2: by name or by asterisk; the status does not matter."""
    found = answer(status, webhook_allowed_origin=origin, webhook_allowed_rate=rate)
    assert found == Allowed(allowed)


def test_consent_without_a_rate_sets_none():
    """The header for the rate SHOULD be there; without it there is no limit to keep."""
    assert answer(webhook_allowed_origin=b"*") == Allowed(None)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 401, 403, 404, 405, 500, 503])
def test_no_status_consents(status):
    """Servers that know nothing of web hooks answer OPTIONS, many with 200."""
    found = answer(status, allow=b"POST", access_control_allow_origin=b"*")
    assert isinstance(found, Withheld)
    assert found.silent


@pytest.mark.parametrize(
    "origin",
    [
        b"",
        b"other.example.com",
        b"example.com",
        b"*.example.com",
        b"https://events.example.com",
        b"events.example.com, other.example.com",
        b"events.example.com:443",
        b"**",
        b"\xff\xfe",
    ],
)
def test_another_origin_is_not_ours(origin):
    """Exactly our name, or an asterisk alone; a wrong name is a refusal, not silence."""
    found = answer(webhook_allowed_origin=origin, webhook_allowed_rate=b"*")
    assert isinstance(found, Withheld)
    assert not found.silent
    assert origin.decode("latin-1") not in found.reason or not origin


@pytest.mark.parametrize("rate", [b"0", b"000", b"-1", b"+5", b"1.5", b"1e3", b"many", b"", b"5 6"])
def test_a_rate_that_is_none_consents_to_nothing(rate):
    """A whole number above 0, or an asterisk."""
    found = answer(webhook_allowed_origin=b"*", webhook_allowed_rate=rate)
    assert isinstance(found, Withheld)
    assert "WebHook-Allowed-Rate" in found.reason


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_consents_to_nothing(status):
    """Another resource would have to be asked, and redirects are not followed."""
    assert isinstance(answer(status, webhook_allowed_origin=b"*"), Withheld)


def test_a_target_that_is_gone_refuses():
    """410, whatever else it says."""
    found = answer(410, webhook_allowed_origin=b"*")
    assert isinstance(found, Withheld)
    assert not found.silent


def test_two_different_origins_consent_to_nothing():
    """A proxy has added one: whose it is cannot be known."""
    twice = [(b"webhook-allowed-origin", b"*"), (b"webhook-allowed-origin", b"other.example.com")]
    assert isinstance(read_answer(200, twice, ORIGIN), Withheld)
    assert read_answer(200, twice[:1] * 2, ORIGIN) == Allowed(None)


def test_the_lowest_of_several_rates_counts():
    """So does a number beside an asterisk."""
    assert read_rate([b"90", b"*", b"30"]) == 30


@given(
    st.integers(100, 999),
    st.lists(
        st.tuples(
            st.sampled_from([b"webhook-allowed-origin", b"webhook-allowed-rate", b"allow"]),
            st.binary(max_size=40),
        )
    ),
)
def test_any_bytes_give_an_answer(status, given_fields):
    """Nothing raises, and whoever did not write our name or an asterisk has not consented."""
    found = read_answer(status, given_fields, ORIGIN)
    names = {value.lower().rstrip(b".") for name, value in given_fields if name.endswith(b"origin")}
    if not names & {b"*", ORIGIN.encode()}:
        assert isinstance(found, Withheld)
