"""Schemas of settings that map names to scalars, bounded as HTTP header fields are."""

from typing import Any, Final

from distributary.resource.schema import Schema

ENTRIES_MAX: Final = 100
"""Custom header fields, user properties or link properties of one subscription. Common HTTP
servers refuse a request with more than 100 header fields."""

ENTRIES_BYTES_MAX: Final = 8 * 1024
"""Largest sum of all names and texts, bytes of UTF-8; common HTTP servers allow 8 KiB."""


def bounded_map(text: str, *, names: Schema, values: Schema, **more: Any) -> Schema:
    """Schema of a map from *names* to *values*, empty by default; *text* describes its entries."""
    return {
        "type": "object",
        "propertyNames": names,
        "additionalProperties": values,
        "maxProperties": ENTRIES_MAX,
        "default": {},
        "description": (
            f"{text} At most {ENTRIES_BYTES_MAX} bytes together. Shown to every reader of"
            " the subscription, except"
            " [secret ones](../how-to/sink-credentials.md#headers-and-properties)."
        ),
        "x-bytes": ENTRIES_BYTES_MAX,
        **more,
    }
