"""The one table of what can be wrong with a subscription's document.

Each row is a document, or what is changed in a good one, with every fault that it has: path and
code. A row that the published schema accepts all the same is marked; all others the schema refuses.
Tests hold the table against the parser, the schema, HTTP and AMQP.
"""

import dataclasses
import re
from typing import Final

from kit.subscription_faults._brokers import (
    BROKER_SETTINGS,
    CERTIFICATE,
    CERTIFICATES,
    DEAD_BROKERS,
    GOOD,
)
from kit.subscription_faults._case import Case, Mark, changed
from kit.subscription_faults._credentials import (
    ACCESS,
    BESIDE_CREDENTIALS,
    CREDENTIALS,
    PLAIN,
    REFRESH,
)
from kit.subscription_faults._filters import BOTH_FILTERS, FILTERS, deep
from kit.subscription_faults._members import (
    CONFIG,
    DEAD_LETTERS,
    DELIVERIES,
    HTTP_SETTINGS,
    MEMBERS,
)
from kit.subscription_faults._sinks import ADDRESSES, BROKERS, SINKS

__all__ = [
    "ACCESS",
    "BEYOND",
    "CASES",
    "CERTIFICATE",
    "GOOD",
    "PLAIN",
    "REFRESH",
    "SENT",
    "TABLE",
    "Case",
    "Mark",
    "changed",
    "deep",
    "place_of",
]

_GROUPS: Final[dict[str, list[Case]]] = {
    "members": MEMBERS,
    "config": CONFIG,
    "settings of HTTP": HTTP_SETTINGS,
    "delivery": DELIVERIES,
    "dead letter sink": DEAD_LETTERS,
    "dead letter sink of another protocol": DEAD_BROKERS,
    "sink": SINKS,
    "broker": BROKERS,
    "address": ADDRESSES,
    "settings of brokers": BROKER_SETTINGS,
    "certificates": CERTIFICATES,
    "credential": CREDENTIALS,
    "beside a credential": BESIDE_CREDENTIALS,
    "both filters": BOTH_FILTERS,
    **FILTERS,
}

TABLE: Final = {
    group: [dataclasses.replace(case, name=f"{group}: {case.name}") for case in cases]
    for group, cases in _GROUPS.items()
}
"""Group -> its cases."""

CASES: Final = [case for cases in TABLE.values() for case in cases]

_MAPS: Final = ("headers", "userproperties", "linkproperties")
_FILTERS: Final = ("filter", "filters")


def place_of(path: str) -> str:
    """The member that a path leads to, whatever stands around it.

    A filter's or a map's for what is below it, the same for both spellings of a member.
    """
    names = [name.lower() for name in re.findall(r"[A-Za-z]+", re.sub(r"\[.*?\]", "", path))]
    if names[:1] and names[0] in _FILTERS:
        return "sql" if names[-1] == "sql" else "filters"
    return next((name for name in names if name in _MAPS), names[-1] if names else "")


SENT: Final = [case for case in CASES if not case.marks & {Mark.PYTHON, Mark.PUBLIC, Mark.REPLACE}]
"""What a client can create where local sinks are allowed."""

BEYOND: Final = frozenset(
    (code, place_of(path)) for case in CASES if case.beyond for path, code in case.faults
)
"""Code and place of each fault that the schema cannot tell."""
