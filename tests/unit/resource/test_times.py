"""RFC 3339 as resources write it."""

import pytest

from distributary.resource.times import format_time, parse_time_ms


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.5Z", -500),
        ("2026-01-31T12:00:00.1239Z", 1_769_860_800_123),
        ("2026-01-31T12:00:00.000000001-00:30", 1_769_862_600_000),
        ("2026-01-31T12:00:00." + "9" * 30 + "Z", 1_769_860_800_999),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ("9999-12-31T23:59:60Z", 253_402_300_799_999),
        ("9999-12-31T23:59:59-01:00", 253_402_300_799_999),
        ("0001-01-01T00:00:00+01:00", -62_135_596_800_000),
    ],
)
def test_a_time_is_its_milliseconds(text, time_ms):
    """Offsets count, fractions are cut down, a leap second is the one after it."""
    assert parse_time_ms(text) == time_ms
    assert parse_time_ms(format_time(time_ms)) == time_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:61Z",
        "0000-01-01T00:00:00Z",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+01:60",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00Z\n",
        "\u0662026-01-31T12:00:00Z",
        "1" * 100_000,
    ],
)
def test_what_is_no_time_is_a_value_error(text):
    """The message is for people, and does not repeat what was sent."""
    with pytest.raises(ValueError, match=r"expected a time|no such date|an offset") as caught:
        parse_time_ms(text)
    assert len(str(caught.value)) < 200
