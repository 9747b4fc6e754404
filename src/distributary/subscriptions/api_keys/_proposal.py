"""The proposal of an API key: its shape, and its faults."""

from typing import Any, Final, NamedTuple

from distributary.access import Grant, Verb, spelling
from distributary.resource import Faults, Schema, closed
from distributary.resource.schema import checked
from distributary.resource.times import parse_time_ms

ITEMS_MAX: Final = 100
"""Most namespaces, and most names, of one key: more is the work of several keys, or of ``*``."""

KEY_NAME: Final[Schema] = {
    "type": "string",
    "pattern": f"^{spelling.KEY_NAME}$",
    "x-expected": f"expected {spelling.KEY_NAME_EXPECTED}",
}
KEY_ID: Final[Schema] = {"type": "string", "pattern": f"^{spelling.KEY_ID}$"}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, "maxItems": ITEMS_MAX, **more}


GRANT: Final[dict[str, Schema]] = {
    "may": _list(
        {"enum": list(Verb)},
        minItems=1,
        description="write includes read; admin includes all others, and making keys.",
    ),
    "namespaces": _list(
        {
            "type": "string",
            "pattern": rf"^(?:{spelling.NAMESPACE}|\*)$",
            "x-expected": "expected the name of a namespace, or * for all",
        },
        minItems=1,
        description="Where; * is all, and what concerns all of them.",
    ),
    "names": _list(
        {
            "type": "string",
            "pattern": f"^{spelling.TARGET}$",
            "x-expected": "expected a Broker or Channel such as brokers/default",
        },
        description="Brokers and Channels that publish is limited to; empty: all.",
    ),
}
"""Members of what a key, or anybody, may do."""

PROPOSAL: Final[Schema] = closed(
    {
        "name": KEY_NAME | {"description": "Unique among valid keys."},
        **GRANT,
        "expires": {
            "type": "string",
            "format": "date-time",
            "description": "In the future; left out: never.",
        },
    },
    required=["name", "may", "namespaces"],
)


class KeyProposal(NamedTuple):
    """A key to be made.

    Attributes:
        name: Its name.
        grant: What it may do.
        until_ms: When it expires, wall clock, milliseconds; None: never.
    """

    name: str
    grant: Grant
    until_ms: int | None


def read_proposal(body: object, now_ms: int) -> KeyProposal:
    """Read a proposal from the JSON value *body*.

    Args:
        body: The value.
        now_ms: Wall clock, milliseconds.

    Raises:
        ResourceError: With every fault, each with its path.
    """
    faults = Faults()
    found = checked(faults, "$", PROPOSAL, body)
    until_ms = None
    if not faults.found and "expires" in found:
        until_ms = parse_time_ms(found["expires"])
        if until_ms <= now_ms:
            faults.add("$.expires", "value", "expected a time in the future")
    faults.refuse()
    grant = Grant(
        may=tuple(dict.fromkeys(map(Verb, found["may"]))),
        namespaces=tuple(dict.fromkeys(found["namespaces"])),
        names=tuple(dict.fromkeys(found.get("names", ()))),
    )
    return KeyProposal(found["name"], grant, until_ms)
