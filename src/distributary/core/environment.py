"""Names of environment variables that several parts of the server read."""

from typing import Final

ENV_PREFIX: Final = "DISTRIBUTARY_"
"""Prefix of every environment variable of ours; an unknown one is a fault, not ignored."""

CREDENTIAL_KEY_VARIABLE: Final = "DISTRIBUTARY_CREDENTIAL_KEY"
"""Keys that seal credentials, in Base64, separated by commas; the first one seals. Never a flag
(process lists show those), nor a value in ``Settings``: each process reads the variable itself."""

LOG_PASSWORD_VARIABLE: Final = "DISTRIBUTARY_LOG_PASSWORD"  # noqa: S105 - a name
"""Password for the brokers of a log that several nodes share; no setting, and shown nowhere."""

STORE_PASSWORD_VARIABLE: Final = "DISTRIBUTARY_STORE_PASSWORD"  # noqa: S105 - a name
"""Password for the database that several nodes share; no setting, and shown nowhere."""

PLACES_VARIABLE: Final = "DISTRIBUTARY_SHARED_PLACES"
"""``core.cluster.SharedPlaces`` with both passwords, from ``serve`` to its processes, which take it
out of their environment."""

OWN_VARIABLES: Final = frozenset({LOG_PASSWORD_VARIABLE, STORE_PASSWORD_VARIABLE, PLACES_VARIABLE})
"""Variables that ``serve`` passes on to a process only where it needs them."""

CLIENT_VARIABLES: Final = frozenset(
    ENV_PREFIX + name
    for name in (
        "CA_FILE",
        "CLIENT_CERT_FILE",
        "CLIENT_KEY_FILE",
        "NAMESPACE",
        "TOKEN",
        "URL",
    )
)
"""Variables of the client commands, which are no settings of the server."""

SERVICE_CREDENTIALS_VARIABLE: Final = "CREDENTIALS_DIRECTORY"
"""Set by systemd (``LoadCredential=``): a folder that this service alone can enter. A file in it
may belong to root with mode 0440, where an access list lets the service's user read it."""
