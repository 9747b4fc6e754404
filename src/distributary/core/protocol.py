"""Delivery protocols: their descriptors, and the registry of those installed.

A package adds a protocol with an entry point of the group ``distributary.protocols`` whose object
is ``PROTOCOLS``, a tuple of ``Protocol``. The folders under ``distributary.protocols`` export the
same and are found where they lie. Called by all code that knows protocols only by name.
"""

import functools
import importlib
import importlib.metadata
import itertools
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from distributary.core.errors import ProtocolUnavailableError

ENTRY_POINTS: Final = "distributary.protocols"
"""Group of the entry points, and the package whose folders are this project's own protocols."""

EventFormat: TypeAlias = Literal["binary", "structured"]
"""A content mode; structured means JSON."""

Check: TypeAlias = Callable[[Any], str | None]
"""Returns what was expected instead of a value; None: the value is valid."""

Reference: TypeAlias = str
"""``package.module:name``, imported on first use. Client libraries cost 5 to 40 MB and tenths of a
second each, and most processes need one or none."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a protocol reads events: tables ``[[sources]]``.

    Attributes:
        consumer: Function ``(SourceSpec, Connector, Clock) -> Consumer``.
        place: Key of the place to read.
        check: Checks that place.
        options: Key -> check of its value.
    """

    consumer: Reference
    place: str
    check: Check
    options: Mapping[str, Check] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SettingFlag:
    """A flag of ``distributary subscribe`` for one setting; every setting has another way too.

    Attributes:
        setting: A text among ``Protocol.settings``. Protocols that share a flag share the setting.
        help: Its help text.
    """

    setting: str
    help: str


@dataclass(frozen=True, slots=True)
class Scheme:
    """A scheme of sink URIs.

    Attributes:
        port: Default where the URI has none.
        tls: Connections begin with a TLS handshake.
        with_tls: The scheme for the same over TLS; None: there is none.
        upgraded: Connections begin without TLS, and upgrade where the far side demands it.
        path: What a path means: a request target with a query; a place (an address, a topic);
            nothing.
    """

    port: int
    tls: bool = False
    with_tls: str | None = None
    upgraded: bool = False
    path: Literal["request", "place", "nothing"] = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Descriptor of a delivery protocol: all that other packages know of it.

    Attributes:
        name: In capitals: ``protocol`` of a subscription and of a source.
        title: As people write it.
        schemes: Schemes of its sink URIs; the first is shown first.
        hosts_max: Most hosts in such a URI; 0: it has none.
        place_path: Pattern of a path that names a place, with its slash; None: any path.
        place_encoded: Such a path is percent-encoded, and a place may begin with a slash in
            addition to the path's own.
        dials_itself: Its client dials addresses from the far side before they can be checked.
        sink: Function ``(Connector, Clock, loop, Reach) -> deliver.Transport``. Protocols that name
            the same one share a transport; the destination has the protocol's name.
        answers: Tuple of ``policy.AcknowledgementRule``: what each answer means, with a row
            ``other`` for the rest; None: its transport gives replies with a status.
        settings: Member of ``protocolsettings`` of this protocol -> its JSON Schema, with the
            default if there is one, in the order of realized objects.
        restore: Makes the typed settings of realized ones: a frozen dataclass derived from
            ``SinkSettings``, or from ``BrokerSettings`` if the sink is a place at a broker.
        required: Its required settings.
        placed: Setting that the path of a sink URI can replace; the typed settings have an
            attribute of this name, and realized objects always have it.
        masked: Setting that is a map whose entries may be secret; the typed settings have an
            attribute of this name.
        formats: Content modes of its CloudEvents binding; the first is the default.
        example: An example subscription for the API description; None: none is shown.
        flags: Flag of ``subscribe`` -> its setting.
        reading: How it reads events; None: it does not.
        absent: Why this installation lacks it, for people; None: it works.
    """

    name: str
    title: str
    schemes: Mapping[str, Scheme]
    hosts_max: int = 1
    place_path: str | None = None
    place_encoded: bool = False
    dials_itself: bool = False
    sink: Reference
    answers: Reference | None = None
    settings: Mapping[str, dict[str, Any]]
    restore: Callable[[Mapping[str, Any]], Any]
    required: tuple[str, ...] = ()
    placed: str | None = None
    masked: str | None = None
    formats: tuple[EventFormat, ...] = ("binary", "structured")
    example: Mapping[str, Any] | None = None
    flags: Mapping[str, SettingFlag] = field(default_factory=dict)
    reading: Reading | None = None
    absent: str | None = None


class _Claim(NamedTuple):
    """The declaration of one entry point, or of one folder.

    Attributes:
        package: Name of the package; empty: this project's own.
        entry: The entry point, as in the package's metadata; or the name of the folder.
        protocols: The declared protocols.
    """

    package: str
    entry: str
    protocols: tuple[Protocol, ...]


class _Found(NamedTuple):
    protocols: Mapping[str, Protocol]
    packages: Mapping[str, str]
    refused: tuple[ProtocolUnavailableError, ...]


@functools.cache
def _found() -> _Found:
    own = importlib.import_module(ENTRY_POINTS)
    claims = [
        _Claim("", folder.name, load(f"{ENTRY_POINTS}.{folder.name}:PROTOCOLS"))
        for folder in sorted(pkgutil.iter_modules(own.__path__))
        if folder.ispkg
    ]
    refused: list[ProtocolUnavailableError] = []
    entries = importlib.metadata.entry_points(group=ENTRY_POINTS)
    for package, name, value in sorted(
        {(_package(each), each.name, each.value) for each in entries}
    ):
        if value.startswith(f"{ENTRY_POINTS}."):
            continue  # metadata of an older version, which named the folders
        try:
            claims.append(_Claim(package, f"{name} = {value}", _declared(value)))
        except Exception as error:  # noqa: BLE001 - the code of others, as it is imported
            reason = f"{type(error).__name__}: {error}"
            refused.append(ProtocolUnavailableError(package, f"{name} = {value}", reason))
    found: dict[str, Protocol] = {}
    packages: dict[str, str] = {}
    for claim in claims:
        clash = _clash(claim, claims)
        if clash is None:
            found |= {protocol.name: protocol for protocol in claim.protocols}
            packages |= {protocol.name: claim.package for protocol in claim.protocols}
        else:
            refused.append(ProtocolUnavailableError(claim.package, claim.entry, clash))
    return _Found(MappingProxyType(dict(sorted(found.items()))), packages, tuple(refused))


def _package(entry: importlib.metadata.EntryPoint) -> str:
    return "of no name" if entry.dist is None else entry.dist.name


def _declared(value: Reference) -> tuple[Protocol, ...]:
    declared = load(value)
    if not isinstance(declared, tuple) or not all(isinstance(each, Protocol) for each in declared):
        raise TypeError("expected a tuple of Protocol")
    return declared


def _clash(claim: _Claim, claims: Sequence[_Claim]) -> str | None:
    """Why *claim* conflicts with another; None: it does not. This project's own always win."""
    others = [other for other in claims if claim.package and other is not claim]
    for other, mine in itertools.product(others, claim.protocols):
        whose = f"the package {other.package}" if other.package else "distributary itself"
        for theirs in other.protocols:
            if theirs.name == mine.name:
                return f"{whose} declares the protocol {mine.name}, too"
            for scheme, meaning in mine.schemes.items():
                if theirs.schemes.get(scheme, meaning) != meaning:
                    return f"the scheme {scheme} means something else in {whose}"
    return None


def protocols() -> Mapping[str, Protocol]:
    """Return every usable protocol by its name, in the order of the names.

    The folders of this package count even if the metadata of the installation lack them: an
    editable install keeps the metadata of the day it was made.
    """
    return _found().protocols


def package(name: str) -> str:
    """The package that declares the protocol *name*; empty: this project's own."""
    return _found().packages[name]


def refused() -> tuple[ProtocolUnavailableError, ...]:
    """Return the declarations of other packages that cannot be used; the others work.

    A package cannot be imported or declares no protocols; or two use one name, or one scheme with
    different meanings: then neither of them is used.
    """
    return _found().refused


@functools.cache
def schemes() -> Mapping[str, Scheme]:
    """Return every scheme of sink URIs; it means the same in each protocol that has it."""
    return MappingProxyType(
        {name: scheme for each in protocols().values() for name, scheme in each.schemes.items()}
    )


def load(reference: Reference) -> Any:
    """Import the object that *reference* names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
