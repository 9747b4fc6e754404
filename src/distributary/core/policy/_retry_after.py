"""Parses the ``Retry-After`` header, which may be hostile."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

RETRY_AFTER_S_MAX: Final = 31_536_000.0
"""A year. Longer values are shortened to it; the policy's ceiling is lower anyway."""

_VALUE_CHARS_MAX: Final = 64
"""The longest HTTP-date has 33 characters; longer text is ignored."""

_SECONDS = re.compile(r"[0-9]+")
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)
_MONTH: Final = f"(?P<month>{'|'.join(_MONTHS)})"
_CLOCK: Final = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES: Final = (
    # The three forms of RFC 9110 section 5.6.7: IMF-fixdate, RFC 850, asctime.
    re.compile(rf"[A-Z][a-z]{{2}}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_CLOCK} GMT"),
    re.compile(
        rf"[A-Z][a-z]{{5,8}}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_CLOCK} GMT"
    ),
    re.compile(rf"[A-Z][a-z]{{2}} {_MONTH} (?P<day>[ 0-9][0-9]) {_CLOCK} (?P<year>[0-9]{{4}})"),
)
_SHORT_YEAR_AHEAD_MAX: Final = 50
"""A two-digit year that seems more than 50 years ahead means the past (RFC 9110, 5.6.7)."""


def retry_after_s(value: str | None, now_wall_ms: int) -> float | None:
    """Return the seconds to wait from now by a ``Retry-After`` header.

    Never raises, for any value.

    Args:
        value: The header as received; None: absent.
        now_wall_ms: The wall clock, milliseconds since 1970; an HTTP-date is counted from it.

    Returns:
        ``0.0 <= wait <= RETRY_AFTER_S_MAX``; 0.0 for a date in the past; None if the header is
        absent or is neither whole seconds nor an HTTP-date (negative, fractional, text): the caller
        then uses its own backoff.

    Source:
        RFC 9110 sections 10.2.3 and 5.6.7.
    """
    if value is None or len(value) > _VALUE_CHARS_MAX:
        return None
    text = value.strip(" \t")
    if _SECONDS.fullmatch(text):
        return min(float(text), RETRY_AFTER_S_MAX)
    when = _http_date(text, now_wall_ms)
    if when is None:
        return None
    wait_s = when.timestamp() - now_wall_ms / 1000
    return min(max(wait_s, 0.0), RETRY_AFTER_S_MAX)


def _http_date(text: str, now_wall_ms: int) -> datetime | None:
    match = next((m for m in (form.fullmatch(text) for form in _DATES) if m), None)
    if match is None:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        year = _full_year(year, now_wall_ms)
    second = int(match["second"])
    leap_s = 1 if second == 60 else 0  # a leap second is legal in the text, not in datetime
    try:
        moment = datetime(
            year,
            _MONTHS.index(match["month"]) + 1,
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            second - leap_s,
            tzinfo=UTC,
        )
        return moment + timedelta(seconds=leap_s)
    except (ValueError, OverflowError):  # 31 February, 25 o'clock, the year 0 or the last one
        return None


def _full_year(year: int, now_wall_ms: int) -> int:
    """Return the latest year with these last two digits that is not too far ahead."""
    now_year = 1970 + int(now_wall_ms // 31_556_952_000)  # mean Gregorian year: right to a day
    latest = now_year + _SHORT_YEAR_AHEAD_MAX
    return latest - (latest - year) % 100
