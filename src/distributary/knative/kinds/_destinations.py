"""Validation of destinations and references."""

import ipaddress
import re
import ssl
from typing import Any, Final
from urllib.parse import urljoin

from distributary.knative.apiserver.machinery import Cause
from distributary.knative.apiserver.machinery.names import (
    bad_value,
    label_faults,
    required,
    subdomain_faults,
    too_long,
)
from distributary.knative.kinds._causes import of_fault
from distributary.resource.faults import Faults
from distributary.resource.sinks import METADATA_NETWORKS, SinkRule
from distributary.resource.uri import check_http_sink, check_reference

CA_CERTS_CHARS_MAX: Final = 64 * 1024
"""Longest ``CACerts``, characters: some thirty certificates; a destination needs one or two."""

AUDIENCE_CHARS_MAX: Final = 1_024
"""Longest ``audience``, characters. Each token has it, and a header field has 8 KiB; so has the
status of each Trigger whose Broker names it with a dead letter sink."""

_API_VERSION: Final = re.compile(r"(?:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[a-z][a-z0-9]{0,62}")
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ALL: Final = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
ANYWHERE: Final = SinkRule(local_allowed=True, allowed=(*_ALL, *METADATA_NETWORKS))
"""Allows every address: the operator's rule is applied when the destination is resolved."""

_ANY_BASE: Final = "http://name.namespace.svc/"
"""Placeholder for the URL of a reference, which is unknown here."""


def check_destination(causes: list[Cause], path: str, value: dict[str, Any]) -> None:
    """Add faults of the ``duckv1.Destination`` *value*; None marks a part already reported."""
    if "ref" not in value and "uri" not in value:
        causes.append(required(path, "expected at least one of ref, uri"))
    if value.get("ref") is not None:
        check_kreference(causes, f"{path}.ref", value["ref"])
    if value.get("uri") is not None:
        faults = Faults()
        _check_uri(faults, f"{path}.uri", value["uri"], relative="ref" in value)
        causes.extend(map(of_fault, faults.found))
    if value.get("CACerts"):
        _check_ca_certs(causes, f"{path}.CACerts", value["CACerts"])
    if len(value.get("audience") or "") > AUDIENCE_CHARS_MAX:
        why = f"may not be more than {AUDIENCE_CHARS_MAX} characters"
        causes.append(too_long(f"{path}.audience", why))


def check_kreference(causes: list[Cause], path: str, value: dict[str, Any]) -> None:
    """Add faults of the ``KReference`` *value*; missing members are reported already."""
    version, kind = value.get("apiVersion"), value.get("kind")
    if version and not _API_VERSION.fullmatch(version):
        why = "must be group/version, or v1 for the core group"
        causes.append(bad_value(f"{path}.apiVersion", version, why))
    if kind and not _KIND.fullmatch(kind):
        causes.append(bad_value(f"{path}.kind", kind, "must be letters and digits, as in Service"))
    if value.get("name"):
        check_name(causes, f"{path}.name", value["name"], subdomain=True)
    if value.get("namespace"):
        check_name(causes, f"{path}.namespace", value["namespace"])


def check_name(causes: list[Cause], path: str, name: str, *, subdomain: bool = False) -> None:
    """Add faults of *name* as a DNS label, or as a DNS subdomain."""
    faults = subdomain_faults(name) if subdomain else label_faults(name)
    causes.extend(bad_value(path, name, why) for why in faults)


def _check_uri(faults: Faults, path: str, value: str, *, relative: bool) -> None:
    """Check a URI: absolute, or with *relative* resolvable against any http URL."""
    if not relative or _ABSOLUTE.match(value):
        check_http_sink(faults, path, value, ANYWHERE)
        return
    if check_reference(faults, path, value) is None:
        return
    try:
        whole = urljoin(_ANY_BASE, value)
    except ValueError as error:  # an unclosed bracket in the authority
        faults.add(path, "uri", str(error))
        return
    check_http_sink(faults, path, whole, ANYWHERE)


def _check_ca_certs(causes: list[Cause], path: str, value: str) -> None:
    """Add a fault if *value* has no certificates that the connector can load."""
    if len(value) > CA_CERTS_CHARS_MAX:
        causes.append(too_long(path, f"may not be more than {CA_CERTS_CHARS_MAX} characters"))
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=value)
    except (ssl.SSLError, TypeError):  # the latter: characters beyond ASCII
        why = "must be one or more X.509 certificates in PEM"
        causes.append(Cause(path, "FieldValueInvalid", f"Invalid value: {why}"))
