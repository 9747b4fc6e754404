"""Delivery protocols: what each of them says of itself, and which there are.

A package adds a protocol with an entry point of the group ``distributary.protocols`` whose object
is ``PROTOCOLS``, a tuple of ``Protocol``. The folders under ``distributary.protocols`` are declared
so too. Called by whatever knows protocols by their names alone.
"""

import functools
import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias

ENTRY_POINTS: Final = "distributary.protocols"
"""Group of the entry points; and the package whose folders are this project's own protocols."""

Check: TypeAlias = Callable[[Any], str | None]
"""Says what was expected instead of a value; None: it can be used."""

Reference: TypeAlias = str
"""``package.module:name``: imported when it is first needed. Client libraries cost 5 to 40 MB and
tenths of a second each, and most processes need one or none."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How events are read by a protocol: tables ``[[sources]]``.

    Attributes:
        consumer: Function ``(SourceSpec, Connector, Clock) -> Consumer``.
        place: Key of the place that is read.
        check: Checks that place.
        options: Key -> what checks its value.
    """

    consumer: Reference
    place: str
    check: Check
    options: Mapping[str, Check] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A delivery protocol.

    Attributes:
        name: In capitals: ``protocol`` of a subscription and of a source.
        title: As people write it.
        sink: Function ``(Connector, Clock, loop, Reach) -> deliver.Transport``. Protocols that name
            the same one share a transport; the destination says which of them it is.
        answers: Tuple of ``policy.AcknowledgementRule``: what each answer means, with a row
            ``other`` for the rest; None: its transport gives replies with a status.
        reading: How events are read; None: they are not.
        absent: Why this installation cannot speak it, for people; None: it can.
    """

    name: str
    title: str
    sink: Reference
    answers: Reference | None = None
    reading: Reading | None = None
    absent: str | None = None


@functools.cache
def protocols() -> Mapping[str, Protocol]:
    """Every protocol by its name, in the order of the names.

    The folders of this package count even where the metadata of the installation do not name them:
    an editable install keeps those of the day on which it was made.

    Raises:
        ImportError: A package that declares one cannot be imported.
        ValueError: Two packages declare the same name.
    """
    own = importlib.import_module(ENTRY_POINTS)
    values = {entry.value for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    values |= {
        f"{ENTRY_POINTS}.{folder.name}:PROTOCOLS"
        for folder in pkgutil.iter_modules(own.__path__)
        if folder.ispkg
    }
    found: dict[str, Protocol] = {}
    for value in sorted(values):
        for protocol in load(value):
            if protocol.name in found:
                raise ValueError(f"{value}: there is a delivery protocol {protocol.name} already")
            found[protocol.name] = protocol
    return MappingProxyType(dict(sorted(found.items())))


def load(reference: Reference) -> Any:
    """The object that *reference* names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
