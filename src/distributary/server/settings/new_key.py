"""Makes an API key for the configuration file, without a server."""

import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from distributary.access import make_key
from distributary.access.tables import key_table, read_keys
from distributary.core.errors import SettingsError


class ConfiguredKey(NamedTuple):
    """A key, and its table.

    Attributes:
        text: The whole key, for whoever is to hold it.
        table: Text for the configuration file, with the hash.
    """

    text: str
    table: str

    def __repr__(self) -> str:
        """Without the key."""
        return "ConfiguredKey(***)"


def make_configured_key(members: Mapping[str, Any]) -> ConfiguredKey:
    """Make a key with these *members* of its table: ``name``, ``may``, ``namespaces`` and so on.

    Raises:
        SettingsError: They are unusable; a line for each fault.
    """
    made = make_key(secrets.token_bytes)
    records, faults = read_keys([{**members, "id": made.id, "sha256": made.sha256}])
    if faults:
        told = (
            each.removeprefix("keys[0].").replace(" (configuration file)", "") for each in faults
        )
        raise SettingsError("\n".join(("This key cannot be made:", *told)))
    return ConfiguredKey(made.text, key_table(records[0]))
