"""Tables ``[[namespaces]]``: quotas, and every fault with its place."""

import pytest

from distributary.core.errors import SettingsError
from distributary.server.settings import faults_of_tables, load, read_namespaces

MIB = 1024 * 1024


def test_a_table_names_its_namespace_or_all_others():
    """Sizes and rates as elsewhere in the file."""
    table, faults = read_namespaces(
        [
            {"name": "*", "subscriptions": 100},
            {"name": "shop", "stored_bytes": "1 MiB", "events_per_s": 50},
        ]
    )
    assert faults == []
    assert (table.of("shop").stored_bytes, table.of("shop").events_per_s) == (MIB, 50)
    assert (table.of("shop").subscriptions, table.of("till").subscriptions) == (0, 100)


@pytest.mark.parametrize(
    ("tables", "place"),
    [
        ([{"subscriptions": 1}], "namespaces[0].name"),
        ([{"name": "Shop"}], "namespaces[0].name"),
        ([{"name": "a"}, {"name": "a"}], "namespaces[1].name"),
        ([{"name": "a", "events_per_s": -1}], "namespaces[0].events_per_s"),
        ([{"name": "a", "events_per_s": "many"}], "namespaces[0].events_per_s"),
        ([{"name": "a", "stored_bytes": "1 parsec"}], "namespaces[0].stored_bytes"),
        ([{"name": "a", "sinks": 1}], "namespaces[0].sinks"),
        ([{"name": f"n{number}"} for number in range(1001)], "namespaces"),
    ],
)
def test_each_fault_has_its_place(tables, place):
    """So that people find it."""
    _, faults = read_namespaces(tables)
    assert len(faults) == 1
    assert faults[0].startswith(f"{place} (configuration file): ")


def test_faults_are_told_before_the_server_starts():
    """With those of the other settings."""
    with pytest.raises(SettingsError, match=r"namespaces\[0\]\.name"):
        load({}, {}, "[[namespaces]]\nname = '-'\n", faults_of_tables)
