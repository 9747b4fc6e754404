"""Tables ``[[namespaces]]``: the quotas of tenants.

Called by the package and the processes. Hides the parsing of sizes and rates. ``name = "*"`` is
each namespace that no other table names.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from distributary.core.quotas import NO_QUOTAS, Quotas, QuotaTable
from distributary.core.tenant import NAME_EXPECTED, is_namespace
from distributary.server.settings._shapes import GIB, SettingShape, size, whole

OTHERS: Final = "*"

NAMESPACES_MAX: Final = 1_000
"""Most tables: each is compared with at every change of the settings."""

_RATE: Final = whole(0, 10_000_000)
_KEYS: Final[Mapping[str, SettingShape]] = {
    "subscriptions": whole(0, 200_000),
    "stored_bytes": size(0, 1024 * GIB),
    "timer_events_per_s": _RATE,
    "calls_per_s": _RATE,
    "events_per_s": _RATE,
    "event_bytes_per_s": size(0, 1024 * GIB),
    "dead_letter_bytes": size(0, 1024 * GIB),
    "pinned_log_bytes": size(0, 1024 * GIB),
}
"""Key of a table, which is also a field of ``Quotas`` -> its values."""


def read_namespaces(tables: Sequence[Mapping[str, Any]]) -> tuple[QuotaTable, list[str]]:
    """Reads the tables.

    Returns:
        The quotas, and a line for each fault; with a fault the quotas are not to be used.
    """
    faults: list[str] = []
    found: dict[str, Quotas] = {}
    if len(tables) > NAMESPACES_MAX:
        return QuotaTable(), [f"namespaces (configuration file): at most {NAMESPACES_MAX} tables"]
    for index, table in enumerate(tables):
        place = f"namespaces[{index}]"
        name = table.get("name")
        if not isinstance(name, str) or not (name == OTHERS or is_namespace(name)):
            faults.append(f"{place}.name (configuration file): {NAME_EXPECTED}, or is *")
            continue
        if name in found:
            faults.append(f"{place}.name (configuration file): {name} has a table already")
        found[name] = _quotas(place, table, faults)
    others = found.pop(OTHERS, NO_QUOTAS)
    return QuotaTable(others=others, named=found), faults


def _quotas(place: str, table: Mapping[str, Any], faults: list[str]) -> Quotas:
    values: dict[str, Any] = {}
    for key, raw in table.items():
        if key == "name":
            continue
        shape = _KEYS.get(key)
        if shape is None:
            known = ", ".join(("name", *_KEYS))
            faults.append(f"{place}.{key} (configuration file): unknown; known: {known}")
            continue
        try:
            values[key] = shape.parse(raw)
        except (ValueError, OverflowError):
            faults.append(f"{place}.{key} (configuration file): expected {shape.expects}")
    return Quotas(**values)
