"""URIs as resources write them: a ``source``, and the sink of an HTTP delivery."""

import ipaddress
import re
from typing import Final

from distributary.resource._faults import Faults
from distributary.resource._sinks import SinkRule

URI_CHARS_MAX: Final = 4096
"""Longest URI. Signed callback URLs come to about 2,000 characters; common servers refuse a
request line beyond 8 KiB."""

_URI_CHARS = r"A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%"
_OUTSIDE_URI = re.compile(rf"[^{_URI_CHARS}]")
# A source is compared, not dialled: characters of RFC 3987 stand in sources of real events.
_OUTSIDE_REFERENCE = re.compile(rf"[^{_URI_CHARS}\u00a0-\U0010fffd]")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HTTP = re.compile(r"(?i:https?)://([^/?#]*)[^#]*(#?)")
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(.*))?")
_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
_NAME = re.compile(rf"(?=.{{1,253}}\.?$){_LABEL}(\.{_LABEL})*\.?")
_NUMBER_LABEL = re.compile(r"(?i:[0-9]+|0x[0-9a-f]*)")


def check_reference(faults: Faults, path: str, value: object) -> str | None:
    """*value* where it is a URI reference that is not empty (RFC 3986, section 4.1).

    Returns:
        The text as it stands (a ``source`` is compared as it stands); None with faults noted.
    """
    text = faults.text_at(path, value, URI_CHARS_MAX)
    if text is None or not _well_formed(faults, path, text, _OUTSIDE_REFERENCE):
        return None
    return text


def check_http_sink(faults: Faults, path: str, value: object, rule: SinkRule) -> str | None:
    """*value* where events can be sent to it by HTTP and *rule* allows it.

    Absolute, ``http`` or ``https``, a host, a port from 1 to 65535 if any; no user information
    (a secret in a URI ends up in logs), no fragment (HTTP never sends it).

    Returns:
        The URI as it stands; None with faults noted. No message repeats the URI: it may hold
        a secret where the client believed that it may.
    """
    text = faults.text_at(path, value, URI_CHARS_MAX)
    if text is None or not _well_formed(faults, path, text, _OUTSIDE_URI):
        return None
    parts = _HTTP.fullmatch(text)
    if parts is None:
        faults.add(path, "uri", "expected an absolute URI with the scheme http or https")
        return None
    count_before = len(faults.found)
    authority, fragment = parts[1], parts[2]
    if fragment:
        faults.add(path, "uri", "the URI of a sink has no fragment: HTTP never sends it")
    if "@" in authority:
        faults.add(path, "uri", "user information is not allowed in the URI of a sink")
        authority = authority.rpartition("@")[2]
    _check_authority(faults, path, authority, rule)
    return text if len(faults.found) == count_before else None


def _well_formed(faults: Faults, path: str, text: str, outside: re.Pattern[str]) -> bool:
    found = outside.search(text)
    if found is not None:
        hint = "; write it percent-encoded (in a host name: as punycode)"
        message = f"the character U+{ord(found[0]):04X} cannot stand in a URI{hint}"
        faults.add(path, "uri", message)
        return False
    if _BAD_PERCENT.search(text):
        faults.add(path, "uri", "a percent sign in a URI is followed by two hexadecimal digits")
        return False
    return True


def _check_authority(faults: Faults, path: str, authority: str, rule: SinkRule) -> None:
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        faults.add(path, "uri", "expected a host, and a port after a colon if any")
        return
    port = parts[2]
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        faults.add(path, "uri", "the port of a sink lies between 1 and 65535")
    host = _checked_host(faults, path, parts[1])
    refusal = rule.refusal(host) if host is not None else None
    if refusal is not None:
        faults.add(path, "blocked-address", refusal)


def _checked_host(faults: Faults, path: str, host: str) -> str | None:
    """The host without brackets, or None and a fault.

    A last label that is a number must belong to a plain IPv4 address: resolvers also take
    ``127.1``, ``0x7f.1`` and ``2130706433`` for 127.0.0.1, and nobody else means them.
    """
    if host.startswith("["):
        return _checked_ipv6(faults, path, host[1:-1])
    if not _NAME.fullmatch(host):
        message = "expected a host name or an IP address" if host else "a sink has a host"
        faults.add(path, "uri", message)
        return None
    if _NUMBER_LABEL.fullmatch(host.rstrip(".").rpartition(".")[2]):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            faults.add(path, "uri", "expected an IPv4 address as four decimal numbers")
            return None
    return host


def _checked_ipv6(faults: Faults, path: str, text: str) -> str | None:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        address = None
    if address is None or address.scope_id is not None:
        faults.add(path, "uri", "expected an IPv6 address without a zone in the brackets")
        return None
    return str(address)
