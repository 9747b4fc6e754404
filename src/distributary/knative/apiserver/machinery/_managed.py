"""``metadata.managedFields``: is it what we can read?"""

from typing import Any, Final

_OPERATIONS: Final = ("Apply", "Update")


def is_managed(entries: Any) -> bool:
    """Whether *entries* is a list of ``ManagedFieldsEntry`` that is not empty."""
    return isinstance(entries, list) and bool(entries) and all(map(_is_entry, entries))


def is_reset(entries: Any) -> bool:
    """Whether a client clears the list so: one entry that is empty."""
    return bool(entries == [{}])


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("manager", ""), str)
        and entry.get("operation") in _OPERATIONS
        and isinstance(entry.get("subresource", ""), str)
        and entry.get("fieldsType", "FieldsV1") == "FieldsV1"
        and isinstance(entry.get("fieldsV1", {}), dict)
    )
