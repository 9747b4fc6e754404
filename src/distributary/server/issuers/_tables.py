"""Parses the tables ``[[issuers]]`` of the configuration file; names every fault with its path."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from distributary.access.issuers import LEEWAY_S_DEFAULT, ClaimRule, Issuer
from distributary.access.jwks import ALGORITHMS
from distributary.access.tables import TableReading, Tables
from distributary.access.wildcards import PATTERN_CHARS_MAX
from distributary.core.tenant import LABEL
from distributary.resource import certificates_in, is_loopback
from distributary.resource.durations import read_duration_s

ISSUERS_MAX: Final = 16
"""Most issuers: each is asked for its keys every few minutes, and holds up to 100 of them."""

RULES_MAX: Final = 256
"""Most tables ``[[issuers.grants]]`` of one issuer: all are looked at for each new token."""

AUDIENCES_MAX: Final = 16
"""Most audiences of one issuer: names of one server."""

PATTERNS_MAX: Final = 64
"""Most patterns of one subject or claim, and most claims of one rule."""

CLAIM_DEPTH_MAX: Final = 8
"""Deepest nesting of an expected claim: those of Keycloak nest three deep."""

LEEWAY_S_MAX: Final = 300.0
"""Largest leeway, seconds: a token that has expired must not be of use for long."""

REFRESH_S_DEFAULT: Final = 600.0
"""Default interval between two fetches of an issuer's keys, seconds. Issuers publish a new key an
hour to weeks before they sign with it."""

REFRESH_S_MIN: Final = 30.0
"""Shortest interval, seconds: as for a fetch that an unknown key asks for."""

REFRESH_S_MAX: Final = 86_400.0
"""Longest interval, seconds: a withdrawn key must not count for longer."""

CERTIFICATES_BYTES_MAX: Final = 1024 * 1024
"""Largest file of certificates: a system's whole trust store has 200 to 300 KiB."""

URL_CHARS_MAX: Final = 1_024
"""Longest URL of an issuer and of its keys, characters."""

_URL: Final = re.compile(r"https?://[!$%&'()*+,./0-9:;=?@A-Z\[\]_a-z~-]+")
_URL_EXPECTED: Final = "an https URL (http on loopback alone) without user and fragment"
_SUBJECT_EXPECTED: Final = "a pattern such as system:serviceaccount:shop:*, or a list of them"
_CLAIMS_EXPECTED: Final = (
    "a table of claims: each a pattern, a number, true, false, a list of them, or a table again"
)


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """An issuer as the operator configured it.

    Attributes:
        issuer: What receivers need to know.
        refresh_s: Interval between two fetches of its keys, seconds.
        ca_certs: PEM of certificates trusted besides the system's; None: none.
        networks: Networks in which its addresses may lie although they are private.
    """

    issuer: Issuer
    refresh_s: float = REFRESH_S_DEFAULT
    ca_certs: str | None = None
    networks: tuple[str, ...] = ()


def is_allowed_url(url: str) -> bool:
    """Whether *url* may be fetched: ``https``, or ``http`` on loopback; no user."""
    if len(url) > URL_CHARS_MAX or not _URL.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is none; brackets around no address
        return False
    if not host or port == 0 or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or host == "localhost" or is_loopback(host)


def read_issuers(tables: Tables) -> tuple[tuple[IssuerSettings, ...], list[str]]:
    """The issuers in ``[[issuers]]``, and a line for each fault. No line repeats a value.

    Reads the files of certificates that the tables name.
    """
    faults: list[str] = []
    found: list[IssuerSettings] = []
    seen: set[str] = set()
    if len(tables) > ISSUERS_MAX:
        faults.append(f"issuers (configuration file): there are at most {ISSUERS_MAX}")
        tables = ()
    for index, table in enumerate(tables):
        reading = TableReading(table, f"issuers[{index}]", faults)
        one = _issuer(reading, faults, f"issuers[{index}]")
        for member, value in (("name", one.issuer.name), ("url", one.issuer.url)):
            if value and f"{member}:{value}" in seen:
                reading.fault(member, "another issuer has the same")
            seen.add(f"{member}:{value}")
        found.append(one)
    return (() if faults else tuple(found)), faults


def _issuer(reading: TableReading, faults: list[str], path: str) -> IssuerSettings:
    name = reading.text("name", LABEL, "a DNS label: a-z, 0-9 and -, at most 63 characters")
    audiences = _patterns(reading, "audiences", "a list of names of this server", AUDIENCES_MAX)
    if audiences is None:
        reading.fault("audiences", "is required: tokens for other servers must not count here")
    algorithms: tuple[str, ...] = ("RS256",)
    if reading.raw("algorithms") is not None:
        algorithms = reading.texts(
            "algorithms", re.compile("|".join(ALGORITHMS)), f"algorithms ({', '.join(ALGORITHMS)})"
        )
    issuer = Issuer(
        name=name,
        url=_issuer_url(reading),
        audiences=audiences or (),
        jwks_uri=None if reading.raw("jwks_uri") is None else _url(reading, "jwks_uri"),
        algorithms=algorithms,
        grants=_rules(reading, faults, path),
        leeway_s=_seconds(reading, "leeway", LEEWAY_S_DEFAULT, 0, LEEWAY_S_MAX),
    )
    settings = IssuerSettings(
        issuer,
        _seconds(reading, "refresh", REFRESH_S_DEFAULT, REFRESH_S_MIN, REFRESH_S_MAX),
        _certificates(reading),
        _networks(reading),
    )
    reading.refuse_unknown()
    return settings


def _rules(issuer: TableReading, faults: list[str], path: str) -> tuple[ClaimRule, ...]:
    tables = issuer.raw("grants")
    if tables is None:
        tables = ()
    is_list = isinstance(tables, (list, tuple)) and all(isinstance(one, dict) for one in tables)
    if not is_list or len(tables) > RULES_MAX:
        issuer.fault("grants", f"expected at most {RULES_MAX} tables, each [[issuers.grants]]")
        return ()
    return tuple(
        _rule(TableReading(table, f"{path}.grants[{index}]", faults))
        for index, table in enumerate(tables)
    )


def _rule(reading: TableReading) -> ClaimRule:
    subjects = _patterns(reading, "sub", _SUBJECT_EXPECTED)
    claims = reading.raw("claims")
    if claims is not None and not (isinstance(claims, Mapping) and _is_expectation(claims)):
        reading.fault("claims", f"expected {_CLAIMS_EXPECTED}")
        claims = None
    elif subjects is None and not claims:
        reading.fault("sub", 'is required where there are no claims; "*" means every token')
    path = _patterns(reading, "namespaces_claim", "the name of a claim, or a list: its path")
    grant = reading.grant(namespaces_needed=path is None)
    rule = ClaimRule(
        may=grant.may,
        subjects=subjects or (),
        claims=dict(claims or {}),
        namespaces=grant.namespaces,
        namespaces_claim=path or (),
        names=grant.names,
    )
    reading.refuse_unknown()
    return rule


def _patterns(
    reading: TableReading, member: str, expected: str, count_max: int = PATTERNS_MAX
) -> tuple[str, ...] | None:
    """The text or list of texts *member*, not empty; None where it is missing or faulty."""
    found = reading.raw(member)
    if found is None:
        return None
    texts = [found] if isinstance(found, str) else found
    if (
        isinstance(texts, (list, tuple))
        and 0 < len(texts) <= count_max
        and all(isinstance(text, str) and 0 < len(text) <= PATTERN_CHARS_MAX for text in texts)
    ):
        return tuple(texts)
    reading.fault(member, f"expected {expected}")
    return ()


def _is_expectation(value: Any, depth: int = 0) -> bool:
    if isinstance(value, Mapping):
        return (
            depth < CLAIM_DEPTH_MAX
            and 0 < len(value) <= PATTERNS_MAX
            and all(_is_expectation(inner, depth + 1) for inner in value.values())
        )
    if isinstance(value, (list, tuple)):
        return 0 < len(value) <= PATTERNS_MAX and all(map(_is_leaf, value))
    return _is_leaf(value)


def _is_leaf(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= PATTERN_CHARS_MAX
    return isinstance(value, (bool, int, float))


def _url(reading: TableReading, member: str) -> str | None:
    found = reading.raw(member)
    if isinstance(found, str) and is_allowed_url(found):
        return found
    reading.fault(member, f"expected {_URL_EXPECTED}")
    return None


def _issuer_url(reading: TableReading) -> str:
    url = _url(reading, "url") or ""
    if "?" in url:
        reading.fault("url", "an issuer has no query (OpenID Connect Discovery, section 2)")
    return url


def _seconds(
    reading: TableReading, member: str, default: float, low_s: float, high_s: float
) -> float:
    found = reading.raw(member)
    if found is None:
        return default
    if isinstance(found, (str, int, float)) and not isinstance(found, bool):
        try:
            seconds = read_duration_s(found)
        except ValueError:
            seconds = -1.0
        if low_s <= seconds <= high_s:
            return seconds
    reading.fault(member, f"expected a duration from {low_s:g} s to {high_s:g} s, such as 30s")
    return default


def _networks(reading: TableReading) -> tuple[str, ...]:
    found = _patterns(reading, "networks", "a list of networks such as 10.0.0.0/8") or ()
    try:
        return tuple(str(ipaddress.ip_network(text)) for text in found)
    except ValueError:
        reading.fault("networks", "expected a list of networks such as 10.0.0.0/8")
        return ()


def _certificates(reading: TableReading) -> str | None:
    named = reading.raw("cacerts_file")
    if named is None:
        return None
    found = None
    if isinstance(named, str) and named:
        try:
            with Path(named).expanduser().open("rb") as file:
                raw = file.read(CERTIFICATES_BYTES_MAX + 1)
            found = certificates_in(raw.decode()) if len(raw) <= CERTIFICATES_BYTES_MAX else None
        except (OSError, ValueError, RuntimeError) as error:  # a NUL; a ~ of no user
            why = error.strerror if isinstance(error, OSError) else "not a file of UTF-8 text"
            reading.fault("cacerts_file", f"the certificates cannot be read: {why}")
            return None
    if found is None:
        reading.fault("cacerts_file", "expected the path of a file of certificates in PEM")
    return found
