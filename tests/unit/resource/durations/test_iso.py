"""ISO 8601 durations."""

import pytest

from distributary.resource.durations import DURATION_S_MAX, format_duration, parse_duration_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT0S", 0.0),
        ("PT0.2S", 0.2),
        ("PT0,2S", 0.2),
        ("PT5M", 300.0),
        ("PT30S", 30.0),
        ("P1D", 86_400.0),
        ("PT1H30M", 5_400.0),
        ("PT1.5H", 5_400.0),
        ("P2W", 1_209_600.0),
        ("P0.5W", 302_400.0),
        ("P1DT2H3M4.5S", 93_784.5),
        ("PT90061S", 90_061.0),
        ("P3660D", float(DURATION_S_MAX)),
        ("PT0.000000001S", 1e-9),
        ("PT" + "0" * 60 + "5S", 5.0),
    ],
)
def test_a_duration_is_read_as_seconds(text, seconds):
    """Weeks, days, hours, minutes, seconds; a fraction in the last of them."""
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("-PT5S", "negative"),
        ("PT-5S", "negative"),
        ("P-1D", "negative"),
        ("P1Y", "no fixed length"),
        ("P1M", "no fixed length"),
        ("P1Y2M3DT4H", "no fixed length"),
        ("P2MT4H", "no fixed length"),
        ("P3661D", "ten years"),
        ("P" + "9" * 40 + "D", "ten years"),
        ("PT1.5H30M", "last component"),
        ("P1.5DT0S", "last component"),
        ("PT" + "0" * 61 + "5S", "64 characters"),
        ("P", "not an ISO 8601"),
        ("PT", "not an ISO 8601"),
        ("P1DT", "not an ISO 8601"),
        ("P1WT1H", "not an ISO 8601"),
        ("P1W1D", "not an ISO 8601"),
        ("5", "not an ISO 8601"),
        ("5s", "not an ISO 8601"),
        ("pt5s", "not an ISO 8601"),
        ("PT5S ", "not an ISO 8601"),
        ("PT5S\n", "not an ISO 8601"),
        ("PT5", "not an ISO 8601"),
        ("PTS", "not an ISO 8601"),
        ("PT.5S", "not an ISO 8601"),
        ("PT5.S", "not an ISO 8601"),
        ("PT1S1M", "not an ISO 8601"),
        ("P1S", "not an ISO 8601"),
        ("PT1D", "not an ISO 8601"),
        ("PTinfS", "not an ISO 8601"),
        ("PT1e3S", "not an ISO 8601"),
        ("PT\u0661S", "not an ISO 8601"),
        ("P\x00D", "not an ISO 8601"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_anything_else_is_refused_with_the_reason(text, message):
    """The message names what is wrong, for whoever wrote the subscription."""
    with pytest.raises(ValueError, match=message):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "PT0S"),
        (0.2, "PT0.2S"),
        (1e-10, "PT0S"),
        (60, "PT1M"),
        (300.0, "PT5M"),
        (3_600, "PT1H"),
        (5_400, "PT1H30M"),
        (86_400, "P1D"),
        (86_460.25, "P1DT1M0.25S"),
        (90_061.5, "P1DT1H1M1.5S"),
        (DURATION_S_MAX, "P3660D"),
        (10, "PT10S"),
        (100 * 86_400, "P100D"),
    ],
)
def test_seconds_are_written_in_the_shortest_usual_form(seconds, text):
    """Days, hours, minutes and seconds; what is zero is left out."""
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    "seconds", [-1, -1e-12, DURATION_S_MAX + 1, float("nan"), float("inf"), float("-inf")]
)
def test_seconds_out_of_range_are_refused(seconds):
    """What could not be read back is not written."""
    with pytest.raises(ValueError, match="between 0"):
        format_duration(seconds)
