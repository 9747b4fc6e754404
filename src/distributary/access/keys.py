"""API keys: ``dk_ID_SECRET``, of which the server keeps a hash.

The secret has 256 bits of randomness, so one round of SHA-256 suffices: there is nothing to guess.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from distributary.access.identity import Grant, Identity, IdentityKind

PREFIX: Final = "dk_"
"""What every key begins with, so that scanners for leaked secrets recognize it."""

_ID_BYTES: Final = 10
_SECRET_BYTES: Final = 32
_KEY: Final = re.compile(r"dk_([a-z2-7]{16})_[A-Za-z0-9_-]{43}")


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the server knows of a key.

    Attributes:
        id: Public part of the key.
        name: Its name, unique among keys that are valid.
        sha256: Hash of the whole key, in hexadecimal digits.
        grants: What it may do.
        until_ms: Wall-clock time at which it expires, in milliseconds; None: never.
    """

    id: str
    name: str
    sha256: str
    grants: tuple[Grant, ...]
    until_ms: int | None = None

    def identity(self) -> Identity:
        """Who holds the key."""
        name = f"key:{self.name}"
        return Identity(
            name=name,
            how=IdentityKind.KEY,
            grants=self.grants,
            subject=name,
            until_ms=self.until_ms,
        )


class NewKey(NamedTuple):
    """A key that was just made.

    Attributes:
        id: Its public part.
        text: The whole key: shown once, to whom it is for.
        sha256: What the server keeps.
    """

    id: str
    text: str
    sha256: str

    def __repr__(self) -> str:
        """Without the key."""
        return f"NewKey(id={self.id!r})"


def make_key(random_bytes: Callable[[int], bytes]) -> NewKey:
    """Makes a key.

    Args:
        random_bytes: Source of secrets, such as ``secrets.token_bytes``.
    """
    key_id = base64.b32encode(random_bytes(_ID_BYTES)).decode("ascii").lower()
    secret = base64.urlsafe_b64encode(random_bytes(_SECRET_BYTES)).decode("ascii").rstrip("=")
    text = f"{PREFIX}{key_id}_{secret}"
    return NewKey(key_id, text, hash_of(text))


def hash_of(text: str) -> str:
    """What the server keeps of the key *text*."""
    return hashlib.sha256(text.encode()).hexdigest()


def find(text: str, records: Mapping[str, KeyRecord]) -> KeyRecord | None:
    """The record of the key *text* among *records* by id; None: it is no key of this server.

    The hashes are compared in constant time; the id is public.
    """
    parsed = _KEY.fullmatch(text)
    if parsed is None:
        return None
    record = records.get(parsed[1])
    if record is None or not hmac.compare_digest(hash_of(text), record.sha256):
        return None
    return record
