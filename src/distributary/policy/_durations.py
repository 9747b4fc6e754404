"""ISO 8601 durations, as the DeliverySpec writes them (``PT0.2S``), and seconds."""

import re
from decimal import Decimal
from typing import Final

DURATION_S_MAX: Final = 10 * 366 * 86_400
"""Ten years, seconds. Nothing here waits longer, and sums of such waits stay exact in a float."""

_TEXT_CHARS_MAX: Final = 64
"""Ten years to the nanosecond take 30 characters."""

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
            years or months, whose length is not fixed. The message says which, for people.

    Source:
        ISO 8601 through the DeliverySpec's ``backoffDelay`` (Knative control plane).
    """
    if not text:
        raise ValueError("a duration cannot be empty; expected ISO 8601 such as PT0.2S or PT5M")
    if len(text) > _TEXT_CHARS_MAX:
        raise ValueError(f"a duration has at most {_TEXT_CHARS_MAX} characters")
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
