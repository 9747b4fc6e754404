"""Resolves destinations to URIs, and records the objects that the result depends on.

An ``ObjectView`` serves one plan of one object. It records every object read, found or not: exactly
the objects whose changes can change the result.

Source:
    Knative Eventing, "Destination Resolution"; decision 25 (``v1/Service``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit

import msgspec

from distributary.core.errors import StoreError
from distributary.core.tenant import NO_ADDRESSES
from distributary.knative.apiserver.machinery import Key, Kind
from distributary.knative.apiserver.objects import Stored, own_address
from distributary.knative.kinds import (
    BROKER,
    CHANNEL,
    CHANNEL_KINDS,
    KINDS,
    SERVICE,
    SERVICE_ADDRESS,
)
from distributary.knative.kinds.specs import DuckDestination, KReference
from distributary.knative.reconcile._site import Site
from distributary.knative.reconcile._trust import BUNDLES
from distributary.resource import KeptSecret, Vault
from distributary.routes.settings import RouteEndpoint

_PORTS: Final = {"http": 80, "https": 443}

_KINDS: Final = {(kind.api_version, kind.kind): kind for kind in KINDS} | {
    (CHANNEL.api_version, name): CHANNEL for name in CHANNEL_KINDS
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """A destination that events can be sent to.

    Attributes:
        endpoint: Where.
        audience: OIDC audience that the destination itself names, for the status.
    """

    endpoint: RouteEndpoint
    audience: str | None = None


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A destination that cannot be resolved now.

    Attributes:
        reason: One word for programs.
        message: For people.
    """

    reason: str
    message: str


BLOCKED_ADDRESS: Final = "BlockedAddress"
"""Reason of a destination that the operator's settings forbid; they may change."""

_NOT_ABSOLUTE: Final = Unresolved(
    "NotAbsolute", "the URI does not come to an absolute http or https URL"
)

Resolution = Resolved | Unresolved


@dataclass(frozen=True, slots=True)
class _Base:
    """URI of a referenced object, and where to connect for it."""

    uri: str
    dial: str | None = None


class ObjectView:
    """A recording view of all objects, for one plan of one object.

    Args:
        find: The object with a key; None: there is none.
        announced: Whether the ingest process knows the Broker or Channel with a uid.
        site: This server.
        trusted: PEM of further certificates trusted for every https destination.
        own_addresses: For ``own_address``.
        vault: Opens the values of Secrets; None: there are none.

    Attributes:
        asked: Every object that was read.
    """

    def __init__(
        self,
        find: Callable[[Key], Stored | None],
        announced: Callable[[str], bool],
        site: Site,
        trusted: Callable[[], str] = str,
        own_addresses: Mapping[str, str] = NO_ADDRESSES,
        *,
        vault: Vault | None = None,
    ) -> None:
        self._vault = vault
        self._own_addresses = own_addresses
        self._trusted = trusted
        self._find = find
        self._announced = announced
        self.site = site
        self.asked: set[Key] = set()

    def find(self, key: Key) -> Stored | None:
        """The object with this key; None: there is none."""
        self.asked.add(key)
        return self._find(key)

    def opened(self, secret: Stored) -> KeptSecret:
        """The values of the Secret *secret*.

        Raises:
            StoreError: They cannot be opened here.
        """
        if self._vault is None:
            raise StoreError("this server keeps no secrets")
        return self._vault.open_kept(secret.uid, secret.sealed)

    def address(self, stored: Stored) -> str:
        """Where the routes of this Broker or Channel listen."""
        return own_address(stored, self._own_addresses)

    def announced(self, stored: Stored) -> bool:
        """Whether the ingest process accepts events for this Broker or Channel."""
        self.asked.add(stored.key)
        return self._announced(stored.uid)

    def resolve(self, destination: DuckDestination) -> Resolution:
        """Resolve *destination*.

        An address never depends on another reference, so there are no cycles.
        """
        scheme = "http" if destination.ca_certs is None else "https"
        base = _Base("") if destination.ref is None else self._follow(destination.ref, scheme)
        if isinstance(base, Unresolved):
            return base
        try:
            uri = base.uri if destination.uri is None else urljoin(base.uri, destination.uri)
            endpoint = self._endpoint(uri, base, destination.ca_certs)
        except ValueError:  # an invalid port or bracketed address
            endpoint = _NOT_ABSOLUTE
        if isinstance(endpoint, Unresolved):
            return endpoint
        if destination.audience is not None and not endpoint.own:
            endpoint = msgspec.structs.replace(endpoint, audience=destination.audience)
        return Resolved(endpoint, destination.audience)

    def _endpoint(self, uri: str, base: _Base, ca_certs: str | None) -> RouteEndpoint | Unresolved:
        parts = urlsplit(uri)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return _NOT_ABSOLUTE
        at_base = base.dial is not None and parts.netloc == urlsplit(base.uri).netloc
        dial = base.dial if at_base else None
        if self.site.owns(uri, dial):
            return RouteEndpoint(uri, dial=self.site.dial, own=True, ca_certs=ca_certs)
        host = _host(dial) if dial else parts.hostname
        port = (int(dial.rpartition(":")[2]) if dial else parts.port) or _PORTS[parts.scheme]
        sinks = self.site.sinks
        refusal = (
            sinks.own_refusal(host, port, takes_events=False)
            or sinks.refusal(host)
            or sinks.port_refusal(host, port)
        )
        if refusal is not None:
            return Unresolved(BLOCKED_ADDRESS, refusal)
        bundles = None
        if parts.scheme == "https":
            self.asked.add(BUNDLES)
            bundles = self._trusted() or None
        return RouteEndpoint(uri, dial=dial, ca_certs=ca_certs, bundles=bundles)

    def named(self, ref: KReference) -> Stored | Unresolved:
        """The object that *ref* names."""
        kind = _KINDS.get((ref.api_version, ref.kind))
        if kind is None or not kind.namespaced:  # a Namespace: which there are is not for tenants
            message = f'there is no kind "{ref.kind}" in "{ref.api_version}" here'
            return Unresolved("KindNotFound", message)
        stored = self.find(Key(kind.resource, ref.namespace, ref.name))
        if stored is None:
            return Unresolved("NotFound", not_found(kind, ref.namespace, ref.name))
        return stored

    def _follow(self, ref: KReference, scheme: str) -> _Base | Unresolved:
        stored = self.named(ref)
        if isinstance(stored, Unresolved):
            return stored
        kind = _KINDS[ref.api_version, ref.kind]
        if kind is SERVICE:
            return _service(stored, scheme)
        if kind not in (BROKER, CHANNEL):
            return Unresolved("NotAddressable", f"a {kind.kind} has no address to send events to")
        if not self.announced(stored):
            message = f'the {kind.kind} "{ref.name}" has no address yet'
            return Unresolved("NotAddressable", message)
        return _Base(self.site.url(stored.key))


def not_found(kind: Kind, namespace: str, name: str) -> str:
    """Message about a missing object."""
    return f'{kind.resource} "{name}" not found in the namespace "{namespace}"'


def _service(stored: Stored, scheme: str) -> _Base:
    """The cluster-internal URI of a Service, and the address to connect to instead, if known.

    The annotation takes precedence: it is meant for this server. A Service with certificates is
    reached over TLS, as in Knative (decision 25, ``v1/Service``).
    """
    uri = f"{scheme}://{stored.key.name}.{stored.key.namespace}.svc/"
    dial = stored.content["metadata"].get("annotations", {}).get(SERVICE_ADDRESS)
    spec = stored.content.get("spec", {})
    if dial is None and spec.get("externalName"):
        ports = spec.get("ports") or [{"port": _PORTS[scheme]}]
        dial = f"{spec['externalName']}:{ports[0]['port']}"
    return _Base(uri, dial)


def _host(dial: str) -> str:
    return dial.rpartition(":")[0].strip("[]")
