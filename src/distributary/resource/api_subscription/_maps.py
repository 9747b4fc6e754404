"""Settings that are maps of names to texts and other scalars, bounded as header fields are."""

from collections.abc import Mapping
from typing import Any, Final

from distributary.resource._faults import Faults

ENTRIES_MAX: Final = 100
"""Custom header fields, user properties or link properties of one subscription. Common HTTP
servers refuse a request with more than 100 header fields."""

ENTRIES_BYTES_MAX: Final = 8 * 1024
"""All of them together, names and texts in UTF-8; common HTTP servers allow 8 KiB for all."""


def bounded_map(faults: Faults, path: str, value: object, what: str) -> Mapping[str, Any] | None:
    """*value* where it is an object that is not too large; else None and a fault.

    Args:
        faults: Takes what is wrong.
        path: Where *value* stands.
        value: Any JSON value.
        what: What its entries are, for people (``headers``).
    """
    entries = faults.object_at(path, value)
    if entries is None:
        return None
    if len(entries) > ENTRIES_MAX:
        faults.add(path, "too-many", f"at most {ENTRIES_MAX} {what}")
        return None
    if sum(_size(name) + _size(each) for name, each in entries.items()) > ENTRIES_BYTES_MAX:
        faults.add(path, "too-long", f"at most {ENTRIES_BYTES_MAX} bytes of {what}")
        return None
    return entries


def _size(value: object) -> int:
    # A lone surrogate is refused elsewhere; here it only must not raise.
    return len(value.encode(errors="surrogatepass")) if isinstance(value, str) else 0
