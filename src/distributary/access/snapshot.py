"""What a gate knows: one file that the control process writes, and every receiver reads."""

from typing import Any, Final

import msgspec

from distributary.access.issuers import IssuerRecord
from distributary.access.keys import KeyRecord
from distributary.access.policies import PolicyRecord
from distributary.access.presented import CertificateRecord

KEYS_MAX: Final = 10_000
"""Most valid keys: some megabytes in each receiver, and in the file at each change."""


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is decoded anew each time, and small."""

    number: int = 0
    required: bool = False
    internal: str = ""
    certificates: tuple[CertificateRecord, ...] = ()
    issuers: tuple[IssuerRecord, ...] = ()
    stored: int = 0


class AccessSnapshot(_Known, frozen=True, kw_only=True):
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

    keys: tuple[KeyRecord, ...] = ()
    policies: tuple[PolicyRecord, ...] = ()

    def configured_alone(self) -> "AccessSnapshot":
        """The snapshot without the keys of the store, for who cannot hear of their end."""
        keys = self.keys[: len(self.keys) - self.stored]
        return msgspec.structs.replace(self, keys=keys, stored=0)

    def encode(self) -> bytes:
        """The snapshot as JSON."""
        keys = msgspec.Raw(msgspec.json.encode(self.keys))
        policies = tuple(msgspec.Raw(policy.json) for policy in self.policies)
        return msgspec.json.encode(_Parts(keys=keys, policies=policies, **_small(self)))


class _Parts(_Known, frozen=True, kw_only=True):
    """An ``AccessSnapshot`` of which what may be long is still JSON."""

    keys: msgspec.Raw = msgspec.Raw(b"[]")
    policies: tuple[msgspec.Raw, ...] = ()


def _small(snapshot: _Known) -> dict[str, Any]:
    return {name: getattr(snapshot, name) for name in _Known.__struct_fields__}


class SnapshotReader:
    """Decodes snapshots that follow one another: what is as before is not decoded again.

    So a change costs what has changed, not what all tenants have. No step holds the interpreter
    for longer than one policy, or all keys, take. For one thread at a time.

    Attributes:
        changed: Policies of the last snapshot that the one before did not have.
    """

    def __init__(self) -> None:
        self.changed: tuple[PolicyRecord, ...] = ()
        self._keys: tuple[bytes, tuple[KeyRecord, ...]] = (b"[]", ())
        self._policies: dict[bytes, PolicyRecord] = {}

    def read(self, data: bytes) -> AccessSnapshot:
        """The snapshot in *data*; its keys and policies are the objects of before where they can.

        Raises:
            msgspec.ValidationError, msgspec.DecodeError: It is none.
        """
        parts = msgspec.json.decode(data, type=_Parts)
        keys = bytes(parts.keys)
        if keys != self._keys[0]:
            self._keys = keys, msgspec.json.decode(keys, type=tuple[KeyRecord, ...])
        before = self._policies
        found = [
            (json, before.get(json) or msgspec.json.decode(json, type=PolicyRecord))
            for json in map(bytes, parts.policies)
        ]
        self._policies = dict(found)
        self.changed = tuple(policy for json, policy in found if json not in before)
        policies = tuple(policy for _, policy in found)
        return AccessSnapshot(keys=self._keys[1], policies=policies, **_small(parts))


def decode_snapshot(data: bytes) -> AccessSnapshot:
    """The snapshot in *data*.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: It is none.
    """
    return SnapshotReader().read(data)
