"""What a gate knows: one file that the control process writes, and every receiver reads."""

from typing import Final

import msgspec

from distributary.access.issuers import IssuerRecord
from distributary.access.keys import KeyRecord
from distributary.access.policies import PolicyRecord
from distributary.access.presented import CertificateRecord

KEYS_MAX: Final = 10_000
"""Most valid keys: some megabytes in each receiver, and in the file at each change."""


class AccessSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides who a client is, and what it may do. Holds no secret.

    Attributes:
        number: Rises with each change.
        required: Whether a client must show who it is.
        keys: The valid API keys.
        stored: How many of them, the last ones, are of the store, so that others may revoke them.
        internal: Public key of the server's own tokens; empty: there are none.
        certificates: Whose TLS certificates are accepted.
        issuers: Whose tokens are accepted, with their public keys.
        policies: They narrow who may send what to some Brokers and Channels.
    """

    number: int = 0
    required: bool = False
    internal: str = ""
    keys: tuple[KeyRecord, ...] = ()
    certificates: tuple[CertificateRecord, ...] = ()
    issuers: tuple[IssuerRecord, ...] = ()
    policies: tuple[PolicyRecord, ...] = ()
    stored: int = 0

    def configured_alone(self) -> "AccessSnapshot":
        """The snapshot without the keys of the store, for who cannot hear of their end."""
        keys = self.keys[: len(self.keys) - self.stored]
        return msgspec.structs.replace(self, keys=keys, stored=0)

    def encode(self) -> bytes:
        """The snapshot as JSON."""
        return msgspec.json.encode(self)


def decode_snapshot(data: bytes) -> AccessSnapshot:
    """The snapshot in *data*.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: It is none.
    """
    return msgspec.json.decode(data, type=AccessSnapshot)
