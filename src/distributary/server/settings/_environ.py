"""Variables of the environment that are settings."""

from collections.abc import Mapping
from typing import Final

from distributary.core.environment import (
    CLIENT_VARIABLES,
    CREDENTIAL_KEY_VARIABLE,
    ENV_PREFIX,
    OWN_VARIABLES,
)

_OTHERS: Final = CLIENT_VARIABLES | OWN_VARIABLES | {"DISTRIBUTARY_CONFIG", CREDENTIAL_KEY_VARIABLE}
"""Variables that are no settings of ``serve``: those of the client commands, file name, keys,
passwords."""


def variable_of(name: str) -> str:
    """The variable of the setting *name*."""
    return ENV_PREFIX + name.upper()


def said_by(environ: Mapping[str, str]) -> dict[str, str]:
    """What *environ* says, by setting; whether there is such a setting is asked later."""
    return {
        variable[len(ENV_PREFIX) :].lower(): raw
        for variable, raw in sorted(environ.items())
        if variable.startswith(ENV_PREFIX) and variable not in _OTHERS
    }
