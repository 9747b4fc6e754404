"""Durations: the spellings that flags, settings and resources accept, in seconds and ISO 8601.

Flags, settings and the Subscriptions API accept ``30s``, ``500ms``, ``14d``, ``PT30S`` and ``30``.
Where a specification requires ISO 8601 (the DeliverySpec of Knative's kinds), nothing else is
accepted. Output is ISO 8601.

Called by ``server.settings``, ``resource``, ``subscriptions`` and ``cli``. Imports nothing of ours.
"""

import math
import re
from decimal import Decimal
from typing import Final

DURATION_S_MAX: Final = 10 * 366 * 86_400
"""Ten years, seconds: beyond any wait here, and sums of such waits stay exact in a float."""

TEXT_CHARS_MAX: Final = 64
"""Ten years to the nanosecond take 30 characters."""

PLAIN_UNITS: Final = ("ms", "s", "m", "h", "d")
"""Units after a number; without one it counts seconds."""

_PLAIN_UNIT_S: Final = {
    "": Decimal(1),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3_600),
    "d": Decimal(86_400),
}
_PLAIN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_NUMBER: Final = r"[0-9]+(?:[.,][0-9]+)?"
_DURATION = re.compile(
    rf"P(?:(?P<weeks>{_NUMBER})W"
    rf"|(?:(?P<days>{_NUMBER})D)?(?P<clock>T"
    rf"(?:(?P<hours>{_NUMBER})H)?"
    rf"(?:(?P<minutes>{_NUMBER})M)?"
    rf"(?:(?P<seconds>{_NUMBER})S)?)?)"
)
_UNIT_S: Final = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_CALENDAR = re.compile(rf"P(?:{_NUMBER}Y|{_NUMBER}M)")
_NANOSECOND: Final = Decimal("1e-9")


def parse_duration_s(text: str) -> float:
    """Seconds in an ISO 8601 duration such as ``PT0.2S``, ``PT1H30M``, ``P1D`` or ``P2W``.

    A day is 86,400 s and a week 7 days. Only the last component may have a fraction, with a
    point or a comma.

    Returns:
        ``0.0 <= seconds <= DURATION_S_MAX``.

    Raises:
        ValueError: It is not such a duration, is negative, is longer than ten years, or counts
            years or months, whose length is not fixed. The message, for people, says which.

    Source:
        ISO 8601 through the DeliverySpec's ``backoffDelay`` (Knative control plane).
    """
    if not text:
        raise ValueError("a duration cannot be empty; expected ISO 8601 such as PT0.2S or PT5M")
    if len(text) > TEXT_CHARS_MAX:
        raise ValueError(f"a duration has at most {TEXT_CHARS_MAX} characters")
    if text.startswith("-") or "P-" in text or "T-" in text:
        raise ValueError(f"a duration cannot be negative: {text!r}")
    if _CALENDAR.match(text):
        raise ValueError(f"years and months have no fixed length; use days, hours...: {text!r}")
    match = _DURATION.fullmatch(text)
    parts = _parts(match) if match else []
    if match is None or not parts or match["clock"] == "T":
        raise ValueError(f"not an ISO 8601 duration such as PT0.2S or PT5M: {text!r}")
    if any("." in number for _, number in parts[:-1]):
        raise ValueError(f"only the last component of a duration may have a fraction: {text!r}")
    seconds = sum((_UNIT_S[unit] * Decimal(number) for unit, number in parts), Decimal(0))
    if seconds > DURATION_S_MAX:
        raise ValueError(f"a duration is at most ten years: {text!r}")
    return float(seconds)


def _parts(match: re.Match[str]) -> list[tuple[str, str]]:
    return [(unit, match[unit].replace(",", ".")) for unit in _UNIT_S if match[unit] is not None]


def format_duration(seconds: float) -> str:
    """*seconds* as an ISO 8601 duration, to the nanosecond: ``0.2`` is ``PT0.2S``.

    ``parse_duration_s`` reads back the same number where it has at most nine decimals.

    Args:
        seconds: ``0.0 <= seconds <= DURATION_S_MAX``.

    Raises:
        ValueError: *seconds* is out of that range or not a number.
    """
    if not 0 <= seconds <= DURATION_S_MAX:
        raise ValueError(f"a duration lies between 0 and {DURATION_S_MAX} seconds, not {seconds!r}")
    rest = Decimal(repr(float(seconds))).quantize(_NANOSECOND)
    whole, fraction = divmod(rest, 1)
    minutes, whole_s = divmod(int(whole), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    last = f"{whole_s + fraction:f}".rstrip("0").rstrip(".") if fraction else str(whole_s)
    date = f"{days}D" if days else ""
    clock = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M")) if n)
    if last != "0":
        clock += f"{last}S"
    if not date and not clock:
        return "PT0S"
    return f"P{date}{'T' if clock else ''}{clock}"


def read_duration_s(value: str | float) -> float:
    """Seconds in a duration of any spelling: ``30s``, ``500ms``, ``14d``, ``PT30S``, ``30``, 30.

    Returns:
        ``0.0 <= seconds <= DURATION_S_MAX``.

    Raises:
        ValueError: It is not a duration. The message lists the spellings, for people.
    """
    if isinstance(value, str) and value.strip()[:1] in {"P", "-"}:
        return parse_duration_s(value.strip())
    seconds = _plain_s(value)
    if seconds is None:
        raise ValueError(
            f"expected a duration such as 30s, 500ms, 14d or PT30S; got {_shown(value)}"
        )
    if seconds > DURATION_S_MAX:
        raise ValueError(f"a duration is at most ten years: {_shown(value)}")
    return float(seconds)


def _shown(value: str | float) -> str:
    """*value* for a message; a number may have more digits than Python prints."""
    if isinstance(value, int) and abs(value) > DURATION_S_MAX:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[: TEXT_CHARS_MAX + 2]


def _plain_s(value: str | float) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):  # of any size: neither a float nor its digits can hold them all
        return Decimal(min(value, DURATION_S_MAX + 1)) if value >= 0 else None
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) and value >= 0 else None
    found = _PLAIN.fullmatch(value.strip()[: TEXT_CHARS_MAX + 1])
    unit_s = _PLAIN_UNIT_S.get(found[2].lower()) if found else None
    return None if found is None or unit_s is None else Decimal(found[1]) * unit_s


def iso_duration(value: str | float) -> str:
    """Return *value*, of any spelling, as ISO 8601; ISO 8601 is returned unchanged.

    Raises:
        ValueError: It is not a duration.
    """
    if isinstance(value, str) and value.startswith("P"):
        parse_duration_s(value)
        return value
    return format_duration(read_duration_s(value))
