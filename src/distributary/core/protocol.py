"""Delivery protocols: what each of them says of itself, and which there are.

A package adds a protocol with an entry point of the group ``distributary.protocols`` whose object
is ``PROTOCOLS``, a tuple of ``Protocol``. The folders under ``distributary.protocols`` are declared
so too. Called by whatever knows protocols by their names alone.
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
"""Group of the entry points; and the package whose folders are this project's own protocols."""

EventFormat: TypeAlias = Literal["binary", "structured"]
"""A content mode; structured means JSON."""

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


@dataclass(frozen=True, slots=True)
class SettingFlag:
    """A flag of ``distributary subscribe`` that says a setting; all settings can be said otherwise.

    Attributes:
        setting: A text among ``Protocol.settings``. Protocols that share a flag share the setting.
        help: What it says, for people.
    """

    setting: str
    help: str


@dataclass(frozen=True, slots=True)
class Scheme:
    """A scheme of sink URIs.

    Attributes:
        port: Where the URI names none.
        tls: Connections begin with a TLS handshake.
        with_tls: The scheme that speaks the same inside TLS; None: there is none.
        upgraded: Connections begin without TLS, and go on with it where the far side demands it.
        path: What a path means: something to ask for at the far side, with a query; a place (an
            address, a topic) there; nothing.
    """

    port: int
    tls: bool = False
    with_tls: str | None = None
    upgraded: bool = False
    path: Literal["request", "place", "nothing"] = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A delivery protocol: all that others know of it.

    Attributes:
        name: In capitals: ``protocol`` of a subscription and of a source.
        title: As people write it.
        schemes: Schemes of its sink URIs; the first is shown first.
        hosts_max: Most hosts that such a URI names; 0: it names none.
        place_path: Pattern of a path that names a place, with its slash; None: any path.
        place_encoded: Such a path is percent-encoded, and a place may begin with the slash that
            every path has.
        dials_itself: Its client dials what the far side names before that can be checked.
        sink: Function ``(Connector, Clock, loop, Reach) -> deliver.Transport``. Protocols that name
            the same one share a transport; the destination says which of them it is.
        answers: Tuple of ``policy.AcknowledgementRule``: what each answer means, with a row
            ``other`` for the rest; None: its transport gives replies with a status.
        settings: Member of ``protocolsettings`` that is its own -> its JSON Schema, with the
            default where there is one, in the order of realized objects.
        restore: Makes the typed settings of realized ones: a frozen dataclass, for HTTP
            ``HttpSettings``, else one with the property ``place`` (``BrokerSettings``).
        required: Settings that it cannot do without.
        placed: Setting that the path of a sink URI can stand for; the typed settings have an
            attribute of this name, and realized objects have it in any case.
        masked: Setting that is a map whose entries may be secret; the typed settings have an
            attribute of this name.
        formats: Content modes of its CloudEvents binding; the first is the default.
        example: A proposal of a subscription, for the API description; None: none is shown.
        flags: Flag of ``subscribe`` -> the setting that it says.
        reading: How events are read; None: they are not.
        absent: Why this installation cannot speak it, for people; None: it can.
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
    """What one entry point declares.

    Attributes:
        package: Name of the package; empty: this project's own.
        entry: The entry point, as its metadata say it.
        protocols: What stands there.
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
            continue  # a folder; metadata may name one that is there no more
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
    """Why *claim* cannot stand beside another; None: it can. This project's own always stand."""
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
    """Every protocol that can be used, by its name, in the order of the names.

    The folders of this package count even where the metadata of the installation do not name them:
    an editable install keeps those of the day on which it was made.
    """
    return _found().protocols


def package(name: str) -> str:
    """The package that declares the protocol *name*; empty: this project's own."""
    return _found().packages[name]


def refused() -> tuple[ProtocolUnavailableError, ...]:
    """The declarations of other packages that cannot be used; all else goes on without them.

    One cannot be imported or declares no protocols; or two give one name, or one scheme two
    meanings: then neither is given the deliveries of the other.
    """
    return _found().refused


@functools.cache
def schemes() -> Mapping[str, Scheme]:
    """Every scheme of sink URIs; it means the same in each protocol that has it."""
    return MappingProxyType(
        {name: scheme for each in protocols().values() for name, scheme in each.schemes.items()}
    )


def load(reference: Reference) -> Any:
    """The object that *reference* names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
