"""What a case is, and how a row of the table becomes one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

SETTINGS: Final = "$.protocolsettings"
DELIVERY: Final = f"{SETTINGS}.delivery"


class Mark(Enum):
    """What a row says beside its faults."""

    BEYOND = "the schema accepts it: only the parser can tell"
    CREATE = "of a create; an update, which may keep secrets, has other faults or none"
    REPLACE = "of an update; a create has other faults as well"
    PUBLIC = "good where local sinks are allowed"
    PYTHON = "no JSON text of it is read"


class Says(str):
    """What the message of each fault holds."""

    __slots__ = ()


Fault: TypeAlias = tuple[str, str]
"""Path and code."""

Row: TypeAlias = tuple[Any, ...]
"""A document, or what is changed in a good one; then faults, marks and ``Says``."""

Rows: TypeAlias = Mapping[str, Row]


@dataclass(frozen=True, slots=True)
class Case:
    """A document with what is wrong with it.

    Attributes:
        name: Its group and its row's name.
        body: The whole document.
        faults: Path and code of every fault, in the order in which they are found.
        marks: See ``Mark``.
        says: What the message of each fault holds.
    """

    name: str
    body: Any
    faults: tuple[Fault, ...]
    marks: frozenset[Mark]
    says: tuple[str, ...]

    @property
    def beyond(self) -> bool:
        """Only the parser can tell: the schema accepts it."""
        return Mark.BEYOND in self.marks

    @property
    def codes(self) -> frozenset[str]:
        """Of its faults."""
        return frozenset(code for _, code in self.faults)

    def holds(self, *, kept: bool, local: bool) -> bool:
        """Whether it is faulty there.

        Args:
            kept: It replaces a subscription, so secrets may be left out.
            local: Local sinks are allowed.
        """
        create_alone = kept and Mark.CREATE in self.marks
        replace_alone = not kept and Mark.REPLACE in self.marks
        return not (create_alone or replace_alone or (local and Mark.PUBLIC in self.marks))


def changed(good: Mapping[str, Any], **members: Any) -> dict[str, Any]:
    """*good* with some members changed; ``...`` leaves one out."""
    return {name: value for name, value in {**good, **members}.items() if value is not ...}


def http(**members: Any) -> dict[str, Any]:
    """A good HTTP proposal with some members changed."""
    return changed({"sink": "https://example.com/sink", "protocol": "HTTP"}, **members)


def case(name: str, body: object, row: Iterable[object], at: str = "") -> Case:
    """The case of a row.

    Args:
        name: Its name.
        body: The whole document.
        row: Faults, marks and ``Says``.
        at: What stands before the path of each fault.
    """
    said = list(row)
    return Case(
        name,
        body,
        tuple((at + each[0], each[1]) for each in said if isinstance(each, tuple)),
        frozenset(each for each in said if isinstance(each, Mark)),
        tuple(each for each in said if isinstance(each, Says)),
    )


def of_http(rows: Rows) -> list[Case]:
    """Cases of rows that change members of a good HTTP proposal."""
    return [case(name, http(**row[0]), row[1:]) for name, row in rows.items()]
