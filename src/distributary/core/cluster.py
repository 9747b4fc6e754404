"""Where the log and the state lie that several machines share: Kafka and PostgreSQL.

Without a ``SharedPlaces`` a server has both in its data directory. A process hands the value to
another one whole, with its secrets: by an environment variable or an encrypted task, never by an
argument, a setting of Spark or a file.
"""

import re
from collections.abc import MutableMapping
from typing import Final

import msgspec

from distributary.core.environment import PLACES_VARIABLE

OPTIONS: Final = frozenset(
    {
        "channel_binding",
        "gssencmode",
        "passfile",
        "require_auth",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslrootcert",
    }
)
"""Options of libpq that the URL of a ``PostgresPlace`` may have: how to show who one is, and how to
see who answers. None holds a secret."""

UNUSED_OPTIONS: Final = frozenset(
    {
        "connect_timeout",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "target_session_attrs",
        "tcp_user_timeout",
    }
)
"""Options that a URL may have as well, and that change nothing: how long anything waits, and that
it is the server that takes writes, are not for each URL to say."""

SERVERS_MAX: Final = 64
"""Most addresses in the log's URL: they are to begin with, and the cluster tells the others."""

HOST: Final = r"(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
"""Pattern of a machine's name or address in a URL."""

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""How a server may show the log's brokers who it is."""

_ADDRESS: Final = re.compile(rf"({HOST}):([0-9]{{1,5}})")
_PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\.[A-Za-z0-9_-]{1,99}){0,3}")

HOSTS_MAX: Final = 16
"""Most hosts of one database: each is tried for some seconds until one takes writes."""


def log_servers(url: str) -> tuple[tuple[str, ...], str]:
    """Returns the brokers and the prefix in ``kafka://host:port,host:port/prefix``.

    Raises:
        ValueError: *url* is none such.
    """
    scheme, _, rest = url.partition("://")
    servers, _, prefix = rest.partition("/")
    addresses = servers.split(",")
    if scheme != "kafka" or not _PREFIX.fullmatch(prefix) or len(addresses) > SERVERS_MAX:
        raise ValueError
    for each in addresses:
        found = _ADDRESS.fullmatch(each)
        if found is None or not 0 < int(found[2]) <= 65535:
            raise ValueError
    return tuple(addresses), prefix


class KafkaPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A Kafka cluster that holds the log.

    Attributes:
        servers: ``host:port`` of brokers to begin with; at least one.
        prefix: What the names of the log's topics begin with.
        tls: Whether connections use TLS.
        ca_file: Certificates of authorities that brokers' are signed by; empty: the system's.
        certificate_file: Our certificate; empty: none is shown.
        key_file: Its private key.
        sasl_mechanism: ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``; empty: no SASL.
        user: Name for SASL.
        password: Password for SASL: a secret.
    """

    servers: tuple[str, ...]
    prefix: str
    tls: bool = False
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    sasl_mechanism: str = ""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"KafkaPlace({','.join(self.servers)}/{self.prefix})"


class PostgresPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A PostgreSQL database that holds the state.

    Attributes:
        url: ``postgresql://user@host:port,host:port/database?option=value`` without a password.
        password: Of the user: a secret; empty: as libpq finds one (``PGPASSFILE``), or none.
    """

    url: str
    password: str = ""

    def __repr__(self) -> str:
        return f"PostgresPlace({self.url})"


class SharedPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Both places. A server has both or neither: a log on one machine would bind all to it."""

    log: KafkaPlace
    store: PostgresPlace


def encode_places(places: SharedPlaces | None) -> dict[str, str]:
    """The variables by which a child process gets *places*; none where there are none."""
    return {} if places is None else {PLACES_VARIABLE: msgspec.json.encode(places).decode()}


def take_places(environ: MutableMapping[str, str]) -> SharedPlaces | None:
    """Take the places out of *environ*, so that no further process gets them; None: there are none.

    Raises:
        msgspec.MsgspecError: Another program wrote the variable.
    """
    text = environ.pop(PLACES_VARIABLE, None)
    return None if text is None else msgspec.json.decode(text, type=SharedPlaces)
