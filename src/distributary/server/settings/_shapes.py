"""Parsers of settings: sizes, durations, addresses and the like, from text or TOML."""

import enum
import ipaddress
import math
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Never
from urllib.parse import urlsplit

from distributary.core.protocol import protocols
from distributary.resource.durations import read_duration_s

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
_SIZE_UNITS = {"": 1, "b": 1, "k": KIB, "kib": KIB, "m": MIB, "mib": MIB, "g": GIB}
_SIZE_UNITS |= {"gib": GIB, "t": 1024 * GIB, "tib": 1024 * GIB}
_NAT64_BITS = frozenset((32, 40, 48, 56, 64, 96))  # RFC 6052, section 2.2
_DIGITS = re.compile(r"[0-9]{1,18}")
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True, slots=True)
class SettingShape:
    """The valid values of a setting: a description for people, and a parser of raw values.

    Attributes:
        expects: The description.
        parse: The parser; raises ``ValueError``.
        quoted: Whether an error repeats an unusable value; not where people put passwords.
    """

    expects: str
    parse: Callable[[Any], Any]
    quoted: bool = True


class Reload(enum.Enum):
    """Whether running processes apply a setting at SIGHUP; the value is for people."""

    NO = ""
    """It describes what is opened or started once: ports, folders, Spark."""
    AT_ONCE = "yes"
    SINKS = "yes; deliveries within two minutes"
    """It restricts where events may be sent."""
    TLS = "yes, but TLS begins and ends with a restart"
    NODES = "where nodes share the log"
    """A log that nodes share can have more partitions at any time."""


def setting(shape: SettingShape, default: Any, about: str, reload: Reload = Reload.NO) -> Any:
    """A field of ``Settings``; *about* is one sentence for ``--help`` and the reference page."""
    metadata = {"shape": shape, "about": about, "reload": reload}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def _refuse() -> Never:
    """Reject a value; the caller adds the setting's name and what it expects."""
    raise ValueError


def whole(low: int, high: int) -> SettingShape:
    def parse(raw: Any) -> int:
        if isinstance(raw, bool) or not isinstance(raw, (int, str)):
            _refuse()
        if isinstance(raw, str) and not _DIGITS.fullmatch(raw):
            _refuse()
        number = int(raw)
        return number if low <= number <= high else _refuse()

    return SettingShape(f"a whole number from {low:,} to {high:,}", parse)


def _quantity(raw: Any, units: Mapping[str, float]) -> float:
    """The number in *raw*: itself, or digits with one of *units* (``64 MiB``, ``5m``)."""
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        _refuse()
    if not isinstance(raw, str):
        return raw
    found = _QUANTITY.fullmatch(raw)
    unit = units.get(found[2].lower()) if found else None
    return float(found[1]) * unit if found and unit else _refuse()


def size(low: int, high: int) -> SettingShape:
    def parse(raw: Any) -> int:
        size = _quantity(raw, _SIZE_UNITS)
        return int(size) if math.isfinite(size) and low <= size <= high else _refuse()

    return SettingShape(f"a size such as 64 MiB, from {size_text(low)} to {size_text(high)}", parse)


def fraction() -> SettingShape:
    def parse(raw: Any) -> float:
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            _refuse()
        number = float(raw)
        return number if math.isfinite(number) and 0.0 <= number <= 1.0 else _refuse()

    return SettingShape("a number from 0 to 1, such as 0.01", parse)


def duration(low_s: float, high_s: float) -> SettingShape:
    def parse(raw: Any) -> float:
        if not isinstance(raw, (int, float, str)):
            _refuse()
        seconds = read_duration_s(raw)
        return seconds if low_s <= seconds <= high_s else _refuse()

    low, high = duration_text(low_s), duration_text(high_s)
    return SettingShape(f"a duration such as 30s, 5m, 7d or PT30S, from {low} to {high}", parse)


def duration_text(seconds: float) -> str:
    """Formats *seconds* in the largest unit of which they are a whole number."""
    for unit, scale in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= scale and seconds % scale == 0:
            return f"{seconds / scale:g}{unit}"
    return f"{seconds:g}s"


def size_text(size: int) -> str:
    for unit, scale in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= scale and size % scale == 0:
            return f"{size // scale} {unit}"
    return f"{size} B"


def text(expects: str, pattern: str) -> SettingShape:
    compiled = re.compile(pattern)

    def parse(raw: Any) -> str:
        return raw if isinstance(raw, str) and compiled.fullmatch(raw) else _refuse()

    return SettingShape(expects, parse)


def command(expects: str) -> SettingShape:
    """A command line in the quoting of a shell, which is not used to run it."""

    def parse(raw: Any) -> str:
        if not isinstance(raw, str) or "\0" in raw:
            _refuse()
        return raw if shlex.split(raw) else _refuse()  # ValueError: an open quote

    return SettingShape(expects, parse)


def base_url(expects: str) -> SettingShape:
    compiled = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")

    def parse(raw: Any) -> str:
        if not isinstance(raw, str) or not compiled.fullmatch(raw):
            _refuse()
        # Raises too: a ValueError, for brackets that hold no address and ports that are none.
        return _refuse() if urlsplit(raw).port == 0 else raw

    return SettingShape(expects, parse)


SWITCH = "true or false"
"""Values of a setting that is on or off: on the command line, its flag alone."""


def switch() -> SettingShape:
    def parse(raw: Any) -> bool:
        if isinstance(raw, bool):
            return raw
        if raw not in ("true", "false"):
            _refuse()
        return bool(raw == "true")

    return SettingShape(SWITCH, parse)


def one_of(*names: str) -> SettingShape:
    def parse(raw: Any) -> str:
        return raw if isinstance(raw, str) and raw in names else _refuse()

    return SettingShape("one of " + ", ".join(names), parse)


def path(expects: str) -> SettingShape:
    def parse(raw: Any) -> Path:
        if not isinstance(raw, (str, Path)) or not str(raw) or "\0" in str(raw):
            _refuse()
        return Path(raw).expanduser()

    return SettingShape(expects, parse)


_FOLDER_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+|file:/[^/].*", re.ASCII)
_PATTERN_CHARACTERS = frozenset("*?[]{}\\")
"""Spark reads a path with one of them as a pattern."""


def parse_history(raw: Any) -> str:
    """Empty, ``off``, a path, or the URL of a folder, which holds no password."""
    if not isinstance(raw, (str, Path)):
        _refuse()
    place = str(raw).strip()
    if not place.isprintable() or _PATTERN_CHARACTERS & set(place):
        _refuse()
    if ":/" in place:
        url = urlsplit(place)
        usable = _FOLDER_URL.fullmatch(place) and not url.query and not url.fragment
        if not usable or ":" in url.netloc.rpartition("@")[0]:
            _refuse()
        if url.scheme == "file" and (url.netloc or not url.path.strip("/")):
            _refuse()
    return place.rstrip("/") or place


def names(raw: Any) -> list[str]:
    """The strings of an array, or of a comma-separated text."""
    found = [part.strip() for part in raw.split(",")] if isinstance(raw, str) else raw
    if not isinstance(found, (list, tuple)) or not all(isinstance(name, str) for name in found):
        _refuse()
    return [name for name in found if name]


def parse_networks(raw: Any) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(name)) for name in names(raw))


def parse_proxies(raw: Any) -> tuple[str, ...]:
    """Networks, and ``unix``: whoever connects to ``listen_unix``."""
    return tuple(name if name == "unix" else str(ipaddress.ip_network(name)) for name in names(raw))


_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")


def is_host_name(name: str) -> bool:
    """Whether *name* is a host name of ASCII letters, in lower case, without a port."""
    return _HOST_NAME.fullmatch(name) is not None


def parse_host_names(raw: Any) -> tuple[str, ...]:
    plain = tuple(name.lower().removesuffix(".") for name in names(raw))
    return plain if all(map(is_host_name, plain)) else _refuse()


def host_name() -> SettingShape:
    def parse(raw: Any) -> str:
        name = raw.lower().removesuffix(".") if isinstance(raw, str) else ""
        return name if is_host_name(name) else _refuse()

    return SettingShape("a DNS name such as events.example.com", parse)


def parse_nat64(raw: Any) -> tuple[str, ...]:
    texts = parse_networks(raw)
    prefixes = [ipaddress.IPv6Network(text) for text in texts]
    return texts if all(each.prefixlen in _NAT64_BITS for each in prefixes) else _refuse()


def parse_protocols(raw: Any) -> tuple[str, ...]:
    names = [part.strip() for part in raw.split(",")] if isinstance(raw, str) else raw
    if not isinstance(names, (list, tuple)) or not set(names) <= set(protocols()):
        _refuse()
    return tuple(sorted(names))


def parse_table(raw: Any) -> dict[str, str]:
    if isinstance(raw, str):
        pairs = [part.partition("=") for part in raw.split(",") if part.strip()]
        if not all(separator for _, separator, _ in pairs):
            _refuse()
        raw = {key.strip(): value.strip() for key, _, value in pairs}
    if not isinstance(raw, Mapping) or not all(isinstance(key, str) and key for key in raw):
        _refuse()
    return {key: _table_value(value) for key, value in raw.items()}


def _table_value(raw: Any) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"  # as Spark spells it; str() would give "True"
    return str(raw) if isinstance(raw, (str, int, float)) else _refuse()
