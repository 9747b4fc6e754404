"""Identities in the configuration file: the tables ``[[keys]]`` and ``[[certificates]]``.

A key in the file is for a start, before the store has one. The file holds its hash, no secret.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from distributary.access import spelling
from distributary.access.identity import ALL_NAMESPACES, Grant, Verb
from distributary.access.keys import KeyRecord
from distributary.access.presented import CertificateRecord

Tables = Sequence[Mapping[str, Any]]

TABLES_MAX: Final = 1_000
"""Most tables of one kind: more identities belong in the store."""

_NAME: Final = re.compile(spelling.KEY_NAME)
_NAMESPACE: Final = re.compile(spelling.NAMESPACE)
_TARGET: Final = re.compile(spelling.TARGET)
_ID: Final = re.compile(spelling.KEY_ID)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PATTERN: Final = re.compile(r"(?:uri|dns|email|cn):[^*]+\*?")


class TableReading:
    """Reads one table; collects its faults, each beginning with its place.

    Args:
        table: The table.
        path: Its place, such as ``keys[0]``.
        faults: Where faults are added.
    """

    def __init__(self, table: Mapping[str, Any], path: str, faults: list[str]) -> None:
        self._table = table
        self._path = path
        self._faults = faults
        self._asked: set[str] = set()

    def fault(self, member: str, message: str) -> None:
        """Add a fault of *member*."""
        self._faults.append(f"{self._path}.{member} (configuration file): {message}")

    def text(self, member: str, pattern: re.Pattern[str], expected: str) -> str:
        """The text *member*, which must be there."""
        self._asked.add(member)
        found = self._table.get(member)
        if isinstance(found, str) and pattern.fullmatch(found):
            return found
        self.fault(member, f"expected {expected}")
        return ""

    def texts(
        self, member: str, pattern: re.Pattern[str], expected: str, *, needed: bool = True
    ) -> tuple[str, ...]:
        """The list of texts *member*; empty where it may be missing, and is."""
        self._asked.add(member)
        found = self._table.get(member, () if not needed else None)
        if (
            isinstance(found, (list, tuple))
            and (found or not needed)
            and len(found) <= TABLES_MAX
            and all(isinstance(one, str) and pattern.fullmatch(one) for one in found)
        ):
            return tuple(dict.fromkeys(found))
        self.fault(member, f"expected a list of {expected}")
        return ()

    def raw(self, member: str) -> Any:
        """The value of *member* as it is; None where it is missing."""
        self._asked.add(member)
        return self._table.get(member)

    def time_ms(self, member: str) -> int | None:
        """The time *member* as wall-clock milliseconds; None where it is missing."""
        self._asked.add(member)
        found = self._table.get(member)
        if isinstance(found, str):
            try:
                found = datetime.fromisoformat(found)
            except ValueError:
                found = ""
        if found is None:
            return None
        if isinstance(found, datetime) and found.tzinfo is not None:
            return int(found.astimezone(UTC).timestamp() * 1000)
        self.fault(member, "expected a time with its offset, such as 2027-01-31T00:00:00Z")
        return None

    def grant(self, *, namespaces_needed: bool = True) -> Grant:
        """The members ``may``, ``namespaces`` and ``names``."""
        may = self.texts("may", re.compile("|".join(Verb)), f"verbs ({', '.join(Verb)})")
        namespaces = self.texts(
            "namespaces",
            re.compile(rf"{_NAMESPACE.pattern}|\*"),
            f"names of namespaces, or {ALL_NAMESPACES} for all",
            needed=namespaces_needed,
        )
        names = self.texts(
            "names", _TARGET, "Brokers and Channels such as brokers/default", needed=False
        )
        return Grant(may=tuple(map(Verb, may)), namespaces=namespaces, names=names)

    def refuse_unknown(self) -> None:
        """Add a fault for each member that was not asked for."""
        for member in self._table:
            if member not in self._asked:
                self.fault(member, f"there is none; known are {', '.join(sorted(self._asked))}")


def read_keys(tables: Tables) -> tuple[tuple[KeyRecord, ...], list[str]]:
    """The keys in ``[[keys]]``, and a line for each fault. No line repeats a value."""
    faults: list[str] = []
    found: list[KeyRecord] = []
    seen: set[str] = set()
    for index, table in enumerate(_bounded(tables, "keys", faults)):
        reading = TableReading(table, f"keys[{index}]", faults)
        record = KeyRecord(
            id=reading.text("id", _ID, "the id of a key, between dk_ and the next underscore"),
            name=reading.text("name", _NAME, spelling.KEY_NAME_EXPECTED),
            sha256=reading.text("sha256", _SHA256, "64 hexadecimal digits"),
            grants=(reading.grant(),),
            until_ms=reading.time_ms("expires"),
        )
        reading.refuse_unknown()
        for member, value in (("id", record.id), ("name", record.name)):
            if value and f"{member}:{value}" in seen:
                reading.fault(member, "another key has the same")
            seen.add(f"{member}:{value}")
        found.append(record)
    return (() if faults else tuple(found)), faults


def read_certificates(tables: Tables) -> tuple[tuple[CertificateRecord, ...], list[str]]:
    """Whose certificates are accepted, by ``[[certificates]]``, and a line for each fault."""
    faults: list[str] = []
    found: list[CertificateRecord] = []
    for index, table in enumerate(_bounded(tables, "certificates", faults)):
        reading = TableReading(table, f"certificates[{index}]", faults)
        pattern = reading.text(
            "name", _PATTERN, "a name such as uri:spiffe://shop/till, dns:till.shop or cn:till"
        )
        found.append(CertificateRecord(pattern=pattern, grants=(reading.grant(),)))
        reading.refuse_unknown()
    return (() if faults else tuple(found)), faults


def _bounded(tables: Tables, kind: str, faults: list[str]) -> Tables:
    if len(tables) <= TABLES_MAX:
        return tables
    faults.append(f"{kind} (configuration file): there are at most {TABLES_MAX}")
    return ()


def key_table(record: KeyRecord) -> str:
    """*record* as a table for the configuration file."""
    lines = ["[[keys]]", f'name = "{record.name}"', f'id = "{record.id}"']
    lines.append(f'sha256 = "{record.sha256}"')
    for grant in record.grants[:1]:
        lines.append(f"may = {_list(grant.may)}")
        lines.append(f"namespaces = {_list(grant.namespaces)}")
        if grant.names:
            lines.append(f"names = {_list(grant.names)}")
    if record.until_ms is not None:
        until = datetime.fromtimestamp(record.until_ms / 1000, UTC)
        lines.append(f"expires = {until.isoformat(timespec='seconds').replace('+00:00', 'Z')}")
    return "\n".join(lines) + "\n"


def _list(values: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"
