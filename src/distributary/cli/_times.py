"""Times and durations on the command line: the same spellings in every command.

A duration is ``30s``, ``500ms``, ``5m``, ``14d``, ``PT30S`` or ``30`` (seconds). A time is
``now``, a time of RFC 3339, a day (``2026-01-31``, its begin in UTC), or a duration from now:
``-1h`` lies in the past, ``+1h`` in the future, and what ``1h`` means depends on the option.

Callers: the modules of the commands. Hides: the spellings.
"""

import re
import time
from typing import Final, Literal

from distributary.core.errors import SettingsError
from distributary.resource.durations import read_duration_s
from distributary.resource.times import format_time, parse_time_ms

Unsigned = Literal["before", "after"]
"""Where a duration without a sign lies: before now (``--since``), or after it (``--expires``)."""

MOMENT_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the last that RFC 3339 can write."""

_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SIGNS: Final = {"-": -1, "+": 1}


def seconds(flag: str, text: str, low_s: float = 0.0) -> float:
    """Return the duration given by *flag*, of any spelling: ``30s``, ``PT30S``, ``500ms``, ``30``.

    Raises:
        SettingsError: It is not a duration, or is shorter than *low_s* seconds.
    """
    try:
        found = read_duration_s(text)
    except ValueError as error:
        raise SettingsError(f"{flag}: {error}") from error
    if found < low_s:
        raise SettingsError(f"{flag}: at least {low_s:g}s; got {text!r}")
    return found


def moment_ms(
    flag: str, text: str, *, now_ms: int | None = None, unsigned: Unsigned = "before"
) -> int:
    """Return the point in time given by *flag*, of any spelling.

    Args:
        flag: Named in the error.
        text: The value.
        now_ms: The present, wall clock; None: the clock of this machine.
        unsigned: Where a duration without a sign lies.

    Returns:
        Milliseconds since 1970, ``0 <= moment <= MOMENT_MS_MAX``.

    Raises:
        SettingsError: It is not such a time.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    plain = text.strip()
    moment = _exact_ms(plain, now_ms)
    if moment is None:
        moment = _relative_ms(plain, now_ms, unsigned)
    if moment is None or not 0 <= moment <= MOMENT_MS_MAX:
        sign, other = ("-", "") if unsigned == "before" else ("", "-")
        raise SettingsError(
            f"{flag}: expected a time such as 2026-01-31T12:00:00Z, a day such as 2026-01-31, now,"
            f" or a duration from now such as {sign}1h or {other}30m; got {text!r}"
        )
    return moment


def moment(
    flag: str, text: str, *, now_ms: int | None = None, unsigned: Unsigned = "before"
) -> str:
    """Return the point in time given by *flag* as RFC 3339, for the server.

    A time of RFC 3339 is returned as it was written, with all of its digits.

    Raises:
        SettingsError: It is not a time; see ``moment_ms`` for it and for the arguments.
    """
    found = moment_ms(flag, text, now_ms=now_ms, unsigned=unsigned)
    try:
        parse_time_ms(text)
    except ValueError:
        return format_time(found)
    return text


def time_of(flag: str, text: str | None) -> str | None:
    """As ``moment``; None where *flag* is not given."""
    return None if text is None else moment(flag, text)


def _exact_ms(text: str, now_ms: int) -> int | None:
    """The time that *text* names without regard to the present, or the present; None: neither."""
    if text.lower() == "now":
        return now_ms
    try:
        return parse_time_ms(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text)
    except ValueError:
        return None


def _relative_ms(text: str, now_ms: int, unsigned: Unsigned) -> int | None:
    """The time that lies by the duration *text* from now; None: it is no duration."""
    sign = _SIGNS.get(text[:1])
    try:
        distance_s = read_duration_s(text if sign is None else text[1:])
    except ValueError:
        return None
    if sign is None:
        sign = -1 if unsigned == "before" else 1
    return now_ms + sign * round(distance_s * 1000)
