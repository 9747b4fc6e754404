"""The URL of a PostgreSQL database, as SQLAlchemy wants it."""

from typing import Final
from urllib.parse import parse_qsl, unquote

import sqlalchemy as sa

from distributary.core.cluster import HOSTS_MAX, OPTIONS, UNUSED_OPTIONS, PostgresPlace
from distributary.core.errors import SettingsError
from distributary.core.uri_parts import split_uri

_PORT: Final = 5432


def is_postgres(url: sa.URL) -> bool:
    """Whether *url* names a PostgreSQL database."""
    return url.get_backend_name() == "postgresql"


def database_url(place: PostgresPlace) -> sa.URL:
    """Return the URL of the database at *place*, with the password, which it does not print.

    Raises:
        SettingsError: ``place.url`` is not as ``PostgresPlace`` says; every fault is named.
    """
    faults: list[str] = []
    parts = split_uri(place.url)
    if parts.scheme not in ("postgresql", "postgres"):
        faults.append("it begins with postgresql://")
    user, _, hosts = parts.netloc.rpartition("@")
    if ":" in user:
        faults.append("the password does not stand in it: give it apart")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(set(options) - OPTIONS - UNUSED_OPTIONS)
    if unknown:
        known = ", ".join(sorted(OPTIONS))
        faults.append(f"unknown options: {', '.join(unknown)} (there are {known})")
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        faults.append("it ends with the name of one database: /name")
    pairs = _hosts(hosts, faults)
    if faults:
        raise SettingsError(f"the store's URL cannot be used: {'; '.join(faults)}")
    return sa.URL.create(
        "postgresql+psycopg",
        username=unquote(user) or None,
        password=place.password or None,
        database=database,
        query={
            "host": ",".join(host for host, _ in pairs),
            "port": ",".join(port for _, port in pairs),
            **{name: value for name, value in options.items() if name in OPTIONS},
        },
    )


def _hosts(text: str, faults: list[str]) -> list[tuple[str, str]]:
    """Hosts and ports in *text*; adds what is wrong to *faults*."""
    pairs = []
    for one in text.split(","):
        host, colon, port = one.rpartition(":")
        if not colon or one.endswith("]"):  # the last colon of an IPv6 address in brackets
            host, port = one, str(_PORT)
        bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if bracketed else unquote(host)
        if not host or (":" in host and not bracketed) or any(map(str.isspace, host)):
            faults.append("it names a host before each port")
        if not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
            faults.append(f"a port is a number from 1 to 65535, not {port[:10]!r}")
        pairs.append((host, port))
    if len(pairs) > HOSTS_MAX:
        faults.append(f"it names at most {HOSTS_MAX} hosts")
    return pairs
