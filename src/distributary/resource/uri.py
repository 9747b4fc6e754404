"""URIs in resources: a ``source``, and the sink of a delivery by each protocol."""

import ipaddress
import re
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from distributary.core.protocol import Protocol, protocols, schemes
from distributary.resource.faults import Faults
from distributary.resource.sinks import SinkRule

URI_CHARS_MAX: Final = 4096
"""Longest URI. Signed callback URLs have about 2,000 characters; common servers refuse a request
line beyond 8 KiB."""

_URI_CHARS = r"A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%"
_OUTSIDE_URI = re.compile(rf"[^{_URI_CHARS}]")
# A source is compared, not dialled: real events have characters of RFC 3987 in theirs.
_OUTSIDE_REFERENCE = re.compile(rf"[^{_URI_CHARS}\u00a0-\U0010fffd]")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SINK = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)"
    r"(?P<query>\?[^#]*)?(?P<fragment>#.*)?"
)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(.*))?")
_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
_NAME = re.compile(rf"(?=.{{1,253}}\.?$){_LABEL}(\.{_LABEL})*\.?")
_NUMBER_LABEL = re.compile(r"(?i:[0-9]+|0x[0-9a-f]*)")

_ANY_ADDRESS = SinkRule.of(local_allowed=True, allowed=("0.0.0.0/0", "::/0"))


class SinkUri(NamedTuple):
    """A validated sink URI.

    Attributes:
        text: The URI as written.
        scheme: In lower case.
        place: The broker's place that its path names; None: none.
        protocol: Delivery protocol that it is for.
    """

    text: str
    scheme: str
    place: str | None
    protocol: Protocol

    def agrees_with(self, place: str) -> bool:
        """Whether its path names *place*, or no place.

        Addresses of some AMQP brokers begin with a slash, as the path of a URI does.
        """
        slashed = place.removeprefix("/") if self.protocol.place_encoded else place
        return self.place is None or self.place in {place, slashed}

    @property
    def tls_possible(self) -> bool:
        """Whether a connection to it may use TLS."""
        scheme = self.protocol.schemes[self.scheme]
        return scheme.tls or scheme.upgraded


def check_reference(faults: Faults, path: str, value: object) -> str | None:
    """Check that *value* is a URI reference that is not empty (RFC 3986, section 4.1).

    Returns:
        The text unchanged (a ``source`` is compared as written); None with faults noted.
    """
    text = faults.text_at(path, value, URI_CHARS_MAX)
    why = "" if text is None else why_no_reference(text)
    if why:
        faults.add(path, "uri", why)
        return None
    return text


def check_http_sink(faults: Faults, path: str, value: object, rule: SinkRule) -> str | None:
    """Check *value* as an HTTP sink that *rule* allows; as ``check_sink``."""
    sink = check_sink(faults, path, value, "HTTP", rule)
    return None if sink is None else sink.text


def check_sink(
    faults: Faults, path: str, value: object, protocol: str, rule: SinkRule
) -> SinkUri | None:
    """Check that *value* is a sink URI of *protocol* that *rule* allows.

    Absolute, with a scheme of the protocol and no more hosts than it allows, a port from 1 to
    65535 if any; no user information (a secret in a URI ends up in logs), no fragment (never
    sent); a path and a query only where the scheme uses them. The place that a path names is not
    judged here.

    Returns:
        The URI; None with faults noted. No message repeats the URI: a client may have put a
        secret into it.
    """
    text = faults.text_at(path, value, URI_CHARS_MAX)
    if text is None:
        return None
    if why := _malformed(text, _OUTSIDE_URI):
        faults.add(path, "uri", why)
        return None
    parts = _SINK.fullmatch(text)
    scheme = "" if parts is None else parts["scheme"].lower()
    row = protocols()[protocol]
    if parts is None or scheme not in row.schemes:
        faults.add(path, "uri", _expected(row, scheme))
        return None
    count_before = len(faults.found)
    if parts["fragment"] is not None:
        faults.add(path, "uri", "the URI of a sink has no fragment: it is never sent")
    judge = _Judge(rule, row.schemes[scheme].port, _takes_events(text, rule))
    _check_hosts(faults, path, parts["authority"], judge, row.hosts_max)
    _check_rest(faults, path, scheme, parts["path"], parts["query"])
    if len(faults.found) != count_before:
        return None
    return SinkUri(text, scheme, place_in(protocol, text), row)


def broker_uri(text: str, protocol: str) -> SinkUri:
    """Check *text* as a URI to read events from by *protocol*, by the rules of ``check_sink``.

    Does not judge addresses: the connector does, at each connection.

    Raises:
        ResourceError: With every fault, at ``$``.
    """
    faults = Faults()
    found = check_sink(faults, "$", text, protocol, _ANY_ADDRESS)
    faults.refuse()
    assert found is not None
    return found


def place_in(protocol: str, uri: str) -> str | None:
    """The broker's place that the path of the sink *uri* names; None: none.

    The path without its first slash, decoded where the protocol percent-encodes it.
    """
    parts = _SINK.fullmatch(uri)
    row = protocols()[protocol]
    scheme = None if parts is None else row.schemes.get(parts["scheme"].lower())
    if parts is None or scheme is None or scheme.path != "place":
        return None
    name = parts["path"][1:]
    if row.place_encoded:
        # Bytes that are not UTF-8 become lone surrogates, which no place has.
        name = unquote_to_bytes(name).decode(errors="surrogateescape")
    return name or None


def why_no_reference(text: str) -> str:
    """Why *text* is not a URI reference, for people; empty where it is one."""
    return _malformed(text, _OUTSIDE_REFERENCE)


def _malformed(text: str, outside: re.Pattern[str]) -> str:
    found = outside.search(text)
    if found is not None:
        hint = "; write it percent-encoded (in a host name: as punycode)"
        return f"the character U+{ord(found[0]):04X} cannot stand in a URI{hint}"
    if _BAD_PERCENT.search(text):
        return "a percent sign in a URI is followed by two hexadecimal digits"
    return ""


def _check_rest(faults: Faults, path: str, scheme: str, rest: str, query: str | None) -> None:
    meaning = schemes()[scheme].path
    if meaning == "request":
        return
    if query is not None:
        faults.add(path, "uri", f"the URI of a sink with the scheme {scheme} has no query")
    if meaning == "nothing" and rest not in {"", "/"}:
        message = f"a path means nothing with the scheme {scheme}: the settings name the place"
        faults.add(path, "uri", message)


def _expected(protocol: Protocol, scheme: str) -> str:
    """What a URI of *protocol* has to be, and whose it would be by its *scheme*."""
    known = " or ".join(protocol.schemes)
    text = f"expected an absolute URI with the scheme {known}"
    others = [row.name for row in protocols().values() if scheme in row.schemes]
    if not others:
        return text
    return f"{text}; this one is of the protocol {' or '.join(others)}"


class _Judge(NamedTuple):
    """Judges the hosts of one URI.

    Attributes:
        rule: The operator's.
        port: Default where the URI names none.
        takes_events: The URI is one of this server's event paths.
    """

    rule: SinkRule
    port: int
    takes_events: bool

    def refusal(self, host: str, port: str | None) -> str | None:
        """Why *host* and *port* are refused; None: allowed."""
        number = self.port if port is None else int(port)
        own = self.rule.own_refusal(host, number, takes_events=self.takes_events)
        if own is not None or self.takes_events:
            return own
        return self.rule.refusal(host) or self.rule.port_refusal(host, number)


def _takes_events(text: str, rule: SinkRule) -> bool:
    try:
        return rule.own.takes_events(text)
    except ValueError:
        return False  # no port, or no address in the brackets: reported elsewhere


def _check_hosts(faults: Faults, path: str, authority: str, judge: _Judge, hosts_max: int) -> None:
    if "@" in authority:
        faults.add(path, "uri", "user information is not allowed in the URI of a sink")
        authority = authority.rpartition("@")[2]
    if hosts_max == 0:
        if authority:
            faults.add(path, "uri", "the URI of a sink of this protocol names no host")
        return
    hosts = authority.split(",") if hosts_max > 1 else [authority]
    if len(hosts) > hosts_max:
        faults.add(path, "uri", f"at most {hosts_max} hosts")
        return
    for each in hosts:
        _check_authority(faults, path, each, judge)


def _check_authority(faults: Faults, path: str, authority: str, judge: _Judge) -> None:
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        faults.add(path, "uri", "expected a host, and a port after a colon if any")
        return
    port = parts[2]
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        faults.add(path, "uri", "the port of a sink lies between 1 and 65535")
        port = None
    host = _checked_host(faults, path, parts[1])
    refusal = judge.refusal(host, port) if host is not None else None
    if refusal is not None:
        faults.add(path, "blocked-address", refusal)


def _checked_host(faults: Faults, path: str, host: str) -> str | None:
    """The host without brackets; None, with a fault noted, where it is invalid.

    A last label that is a number must belong to a plain IPv4 address: resolvers also read
    ``127.1``, ``0x7f.1`` and ``2130706433`` as 127.0.0.1.
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
