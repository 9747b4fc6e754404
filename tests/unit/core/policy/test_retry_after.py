"""The Retry-After header."""

import pytest

from distributary.core.policy import RETRY_AFTER_S_MAX, retry_after_s

NOW_MS = 784_111_777_000  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 120\t", 120.0),
        ("007", 7.0),
        ("31536000", RETRY_AFTER_S_MAX),
        ("31536001", RETRY_AFTER_S_MAX),
        ("9" * 64, RETRY_AFTER_S_MAX),
    ],
)
def test_whole_seconds_are_read_and_capped(value, wait_s):
    """RFC 9110 10.2.3 delay-seconds; a year is the most."""
    assert retry_after_s(value, NOW_MS) == wait_s


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Sunday, 06-Nov-94 08:49:47 GMT", 10.0),
        ("Sun Nov  6 08:50:37 1994", 60.0),
        ("Sun Nov 16 08:49:37 1994", 864_000.0),
        ("Sun, 06 Nov 1994 08:49:36 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Sat, 01 Jan 0001 00:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_S_MAX),
        ("Sat, 31 Dec 1994 23:59:60 GMT", 4_806_623.0),
        ("Friday, 31-Dec-93 23:59:59 GMT", 0.0),
        ("Saturday, 01-Jan-44 00:00:00 GMT", RETRY_AFTER_S_MAX),
        ("Sunday, 01-Jan-45 00:00:00 GMT", 0.0),
    ],
)
def test_dates_are_counted_from_now(value, wait_s):
    """All three forms of RFC 9110 5.6.7; the past means at once; two-digit years by its rule."""
    assert retry_after_s(value, NOW_MS) == wait_s


def test_a_short_year_may_lie_in_the_next_century():
    """In December 1999 the year 00 is a month away, not a century ago."""
    last_minute_ms = 946_684_740_000  # 1999-12-31T23:59:00Z
    assert retry_after_s("Saturday, 01-Jan-00 00:00:00 GMT", last_minute_ms) == 60.0


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        " ",
        "-1",
        "+5",
        "1.5",
        "1e9",
        "0x10",
        "abc",
        "\u0661\u0662",
        "1 2",
        "9" * 65,
        "9" * 100_000,
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 +0100",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Fri, 31 Dec 9999 23:59:60 GMT",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "1994-11-06T08:49:37Z",
    ],
    ids=lambda value: repr(value)[:40],
)
def test_anything_else_is_nothing(value):
    """The caller then waits by its own backoff."""
    assert retry_after_s(value, NOW_MS) is None
