"""Points in time as resources write them: RFC 3339 with an offset."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]"
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
"""The first and the last millisecond of the years 1 to 9999 in UTC: others cannot be told."""
_LEAP_SECOND: Final = 60
_HOUR_MAX: Final = 23
_MINUTE_MAX: Final = 59


def parse_time_ms(text: str) -> int:
    """The point in time of *text*, milliseconds since 1970 (negative before), rounded down.

    An offset can move it out of the years 1 to 9999 in UTC: the nearest one in them counts.

    Raises:
        ValueError: *text* is no such time. The message is for people and does not repeat it.

    Source:
        RFC 3339, section 5.6. A leap second counts as the second after it.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("expected a time such as 2026-01-31T12:00:00Z (RFC 3339, with its offset)")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    fraction, sign, hours, minutes = match.groups()[6:]
    leap = second == _LEAP_SECOND
    try:
        offset = _offset(sign, hours, minutes)
        read = datetime(year, month, day, hour, minute, second - leap, tzinfo=offset)
        since = read - _EPOCH
    except (ValueError, OverflowError) as error:
        raise ValueError("there is no such date or time") from error
    seconds = since.days * 86_400 + since.seconds + leap
    wall_ms = seconds * 1000 + int((fraction or "").ljust(3, "0")[:3])
    return _tellable_ms(wall_ms)


def moment(wall_ms: int) -> datetime:
    """The point in time *wall_ms*, milliseconds since 1970, in UTC, or the nearest one there is."""
    return _EPOCH + timedelta(milliseconds=_tellable_ms(wall_ms))


def _tellable_ms(wall_ms: int) -> int:
    return min(max(wall_ms, _FIRST_MS), _LAST_MS)


def format_time(wall_ms: int) -> str:
    """The point in time *wall_ms*, milliseconds since 1970, as RFC 3339 in UTC.

    Whole seconds are written without a fraction. ``parse_time_ms`` reads back the same number, of
    the years 1 to 9999.
    """
    precision = "milliseconds" if wall_ms % 1000 else "seconds"
    return moment(wall_ms).isoformat(timespec=precision).replace("+00:00", "Z")


def _offset(sign: str | None, hours: str | None, minutes: str | None) -> timezone:
    if sign is None or hours is None or minutes is None:
        return UTC
    if int(hours) > _HOUR_MAX or int(minutes) > _MINUTE_MAX:
        raise ValueError("an offset lies between -23:59 and +23:59")
    ahead = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(ahead if sign == "+" else -ahead)
