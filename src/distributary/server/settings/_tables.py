"""Tables of the configuration file, such as ``[[sources]]``: whoever uses them validates them."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from distributary.access.tables import read_certificates, read_keys
from distributary.server.settings._namespaces import read_namespaces
from distributary.server.settings._secrets import read_secrets

Tables = Sequence[Mapping[str, Any]]
"""Tables of one name, in the order of the file."""


def faults_of_tables(tables: Mapping[str, Tables]) -> list[str]:
    """Returns a line for each fault of *tables*; reads the environment, for secrets."""
    faults = [*read_keys(tables["keys"])[1], *read_certificates(tables["certificates"])[1]]
    faults += read_namespaces(tables["namespaces"])[1]
    faults += read_secrets(tables["secrets"])[1]
    if tables["issuers"]:
        from distributary.server import issuers  # noqa: PLC0415 - PyJWT takes 50 ms likewise

        faults += issuers.read_issuers(tables["issuers"])[1]
    if tables["sources"]:
        # Loading the modules of sources takes a quarter of a second; most servers have no source.
        from distributary import sources  # noqa: PLC0415 - see above

        faults += sources.read_tables(tables["sources"], os.environ)[1]
    return faults


def tables_of(name: str, raw: Any, faults: list[str]) -> tuple[Mapping[str, Any], ...]:
    """Tables of the file; errors never quote their content: people put passwords anywhere."""
    if isinstance(raw, (list, tuple)) and all(isinstance(table, dict) for table in raw):
        return tuple(raw)
    faults.append(f"{name} (configuration file): expected tables, each begun with [[{name}]]")
    return ()
