"""Names of options that would hold a secret: options stand in plans, the UI and the catalog."""

from typing import Final

_SECRETS: Final = frozenset(
    {"token", "key", "apikey", "password", "secret", "logpassword", "storepassword"}
)


def looks_secret(name: str) -> bool:
    """Whether whoever gives an option *name* gives a secret."""
    return name.lower().replace("_", "") in _SECRETS
