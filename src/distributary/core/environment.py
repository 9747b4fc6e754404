"""Names of environment variables that several parts of the server read."""

from typing import Final

ENV_PREFIX: Final = "DISTRIBUTARY_"
"""Prefix of every environment variable of ours; an unknown one is a fault, not ignored."""

CREDENTIAL_KEY_VARIABLE: Final = "DISTRIBUTARY_CREDENTIAL_KEY"
"""Keys that seal credentials, in Base64, separated by commas; the first one seals. Never a flag
(process lists show those), nor a value in ``Settings``: each process reads the variable itself."""
