"""Secrets that the operator keeps in files, for credentials that name them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A table ``[[secrets]]``. Holds no secret, only where it is.

    Attributes:
        namespace: Whose subscriptions may name it.
        name: Unique in the namespace.
        file: Absolute path of the file that holds it.
        sinks: Origins of sinks that it may go to (``https://host:port``); it goes to no other.
        cacerts_file: Absolute path of a file of certificates: subscriptions may trust *sinks* by
            them, besides the system's; None: by the system's alone.
    """

    namespace: str
    name: str
    file: str
    sinks: tuple[str, ...]
    cacerts_file: str | None = None
