"""Secrets at rest: sealed with AES-256-GCM, each bound to the subscription it belongs to.

Called by the store, which seals, and by the ``Directory`` and the refresher, which open. Layout of
a sealed credential::

    byte 0       1: this layout
    bytes 1-8    id of the key
    bytes 9-20   nonce, drawn at random
    then         ciphertext of the credential (MessagePack) and tag; authenticated with the uid

Secret settings are sealed the same way, authenticated with the uid, a NUL and ``settings``, and
values of a ``v1/Secret`` with its uid, a NUL and ``secret``. The
sealed content includes the origin of the sink that each secret is for, so that whatever opens it
can refuse another sink.

A key may seal 2^32 times before random nonces become a risk: a million credentials renewed once
an hour for half a year. Replace the key before that.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec
import sqlalchemy as sa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from distributary.core.database import is_postgres
from distributary.core.deliver.credential import Credential
from distributary.core.errors import StoreError
from distributary.datadir import KEY_FILE_NAME
from distributary.resource import KeptSecret
from distributary.subscriptions.resource import SecretSettings
from distributary.subscriptions.store._credentials_keys import KEY_ID_BYTES, Keys, SealingKey

_LAYOUT: Final = b"\x01"
_NONCE_BYTES: Final = 12
_KEY_AT: Final = len(_LAYOUT)
_NONCE_AT: Final = _KEY_AT + KEY_ID_BYTES
_TEXT_AT: Final = _NONCE_AT + _NONCE_BYTES

_encoder = msgspec.msgpack.Encoder()
_credential = msgspec.msgpack.Decoder(Credential)
_settings = msgspec.msgpack.Decoder(SecretSettings)
_kept = msgspec.msgpack.Decoder(KeptSecret)

_T = TypeVar("_T")


class Sealed(NamedTuple):
    """The sealed secrets of one subscription.

    Attributes:
        credential: For ``Sealer.open``; empty: it has none.
        settings: For ``Sealer.open_settings``; None: it has none.
    """

    credential: bytes = b""
    settings: bytes | None = None


def _settings_of(uid: str) -> bytes:
    return uid.encode() + b"\0settings"


def _kept_of(uid: str) -> bytes:
    return uid.encode() + b"\0secret"


class Sealer:
    """Seals and opens credentials and secret settings. For one thread at a time.

    Methods raise ``StoreError`` where there is no key to seal with and none can be made, where no
    key here opens the secret, or it is damaged. The message has the remedy and none of the secret.

    Args:
        keys: To seal and open with.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._ciphers: dict[bytes, AESGCM] = {}

    def seal(self, uid: str, credential: Credential) -> bytes:
        """Seal *credential* of the subscription *uid*, for the store."""
        return self._seal(credential, uid.encode())

    def seal_settings(self, uid: str, settings: SecretSettings) -> bytes:
        """Seal the secret *settings* of the subscription *uid*, for the store."""
        return self._seal(settings, _settings_of(uid))

    def open(self, uid: str, sealed: bytes) -> Credential:
        """Open the credential of the subscription *uid*."""
        return self._open(sealed, uid.encode(), _credential)

    def open_settings(self, uid: str, sealed: bytes) -> SecretSettings:
        """Open the secret settings of the subscription *uid*."""
        return self._open(sealed, _settings_of(uid), _settings)

    def seal_kept(self, uid: str, secret: KeptSecret) -> bytes:
        """Seal the values of the ``v1/Secret`` *uid*, for the store."""
        return self._seal(secret, _kept_of(uid))

    def open_kept(self, uid: str, sealed: bytes) -> KeptSecret:
        """Open the values of the ``v1/Secret`` *uid*."""
        return self._open(sealed, _kept_of(uid), _kept)

    def reseal(self, uid: str, sealed: "Sealed") -> "Sealed | None":
        """Reseal the secrets of the subscription *uid* with the current key; None: done already."""
        credential, settings = sealed
        if credential and self.outdated(credential):
            credential = self.seal(uid, self.open(uid, credential))
        if settings and self.outdated(settings):
            settings = self.seal_settings(uid, self.open_settings(uid, settings))
        anew = Sealed(credential, settings)
        return None if anew == sealed else anew

    def _seal(self, secret: Credential | SecretSettings | KeptSecret, bound_to: bytes) -> bytes:
        key = self._keys.sealing()
        nonce = os.urandom(_NONCE_BYTES)
        text = self._cipher(key).encrypt(nonce, _encoder.encode(secret), bound_to)
        return _LAYOUT + key.id + nonce + text

    def _open(self, sealed: bytes, bound_to: bytes, decoder: msgspec.msgpack.Decoder[_T]) -> _T:
        key_id = sealed[_KEY_AT:_NONCE_AT]
        if sealed[:_KEY_AT] != _LAYOUT:
            raise StoreError("the stored credential is damaged, or a newer version sealed it")
        key = self._keys.opening(key_id)
        if key is None:
            raise StoreError(
                f"the stored credential was sealed by another key (id {key_id.hex()}) than"
                f" {self._keys.source} holds: put that key back and start again, or send the"
                " subscription with its secrets again"
            )
        try:
            text = self._cipher(key).decrypt(
                sealed[_NONCE_AT:_TEXT_AT], sealed[_TEXT_AT:], bound_to
            )
            return decoder.decode(text)
        except (InvalidTag, ValueError, msgspec.MsgspecError):
            # Without the cause: a decoder's message may quote its input.
            raise StoreError(
                "the stored credential is damaged: send the subscription with its secrets again"
            ) from None

    def outdated(self, sealed: bytes) -> bool:
        """Whether *sealed* was sealed by another key than the current one, if there is one."""
        key = self._keys.current()
        return key is not None and sealed[_KEY_AT:_NONCE_AT] != key.id

    def _cipher(self, key: SealingKey) -> AESGCM:
        cipher = self._ciphers.get(key.id)
        if cipher is None:
            cipher = self._ciphers[key.id] = AESGCM(key.value)
        return cipher


def sealer_beside(url: sa.URL) -> Sealer:
    """Make a sealer with the key file in the folder of the store at *url*.

    Beside a store in PostgreSQL there is none: what this one is to seal or open fails.
    """
    if is_postgres(url):
        return Sealer(Keys(Path(), text=""))
    return Sealer(Keys(Path(url.database or "").with_name(KEY_FILE_NAME)))
