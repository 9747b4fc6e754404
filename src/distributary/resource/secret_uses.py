"""What a sink gets of a Secret: the credential, the keys that sign; or why it gets nothing.

Called by ``partitions``, which sends them, and by ``knative``, which says in a condition what will
be sent. No text repeats a value.

Source:
    Standard Webhooks 1.0: ``whsec_`` and ``whsk_``.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final, NamedTuple

from distributary.core.deliver.credential import Credential
from distributary.core.deliver.origins import UriOrigin
from distributary.core.deliver.signing import SignatureScheme, SigningKey
from distributary.resource.certificates import adds_trust, fingerprints_in
from distributary.resource.credential_texts import (
    SECRET_BYTES_MAX,
    TOKEN_CHARS_MAX,
    is_secret,
    is_token,
)
from distributary.resource.kept_secret import (
    CA_CERTS,
    CA_CERTS_BYTES_MAX,
    SINKS,
    KeptSecret,
    unnamed,
)

NOT_FOR_SINK: Final = "SecretNotForSink"
NOT_FOR_CA_CERTS: Final = "SecretNotForCACerts"
UNUSABLE: Final = "SecretUnusable"
"""Reasons of the condition ``SecretsResolved``."""

_SCHEMES: Final[Mapping[str, SignatureScheme]] = {"whsec_": "v1", "whsk_": "v1a"}
_SEED_BYTES: Final = 32
_SIGNING_BYTES_MIN: Final = 24
_SIGNING_BYTES_MAX: Final = 64
"""Sizes of a ``v1`` secret by the specification."""

_SIGNING_FORM: Final = (
    f"whsec_ and Base64 of {_SIGNING_BYTES_MIN} to {_SIGNING_BYTES_MAX} bytes, or whsk_ and Base64"
    f" of {_SEED_BYTES} bytes"
)
_FORMS: Final = {
    "token": f"1 to {TOKEN_CHARS_MAX} printable ASCII characters, without a space at either end",
    "username": "UTF-8 without a colon",
    "password": f"1 to {SECRET_BYTES_MAX} bytes of UTF-8, without control characters",
    "secret": _SIGNING_FORM,
    "previous": _SIGNING_FORM,
    CA_CERTS: f"certificates in PEM, and nothing else in PEM, at most {CA_CERTS_BYTES_MAX} bytes",
}
"""Key of a Secret -> the value that can be used."""


class Withheld(NamedTuple):
    """Why a sink gets nothing of a Secret.

    Attributes:
        reason: One word for programs.
        message: For people: what to change.
    """

    reason: str
    message: str


def withheld_from(
    name: str, secret: KeptSecret, uri: str, dial: str | None, ca_certs: str | None
) -> Withheld | None:
    """Why the Secret *name* may not go to a sink; None: it may.

    Args:
        name: Of the Secret.
        secret: Its values.
        uri: Of the sink.
        dial: ``host:port`` to connect to instead of the URI's; None: the URI's.
        ca_certs: PEM that whoever named the sink wants it to be trusted by; None: none.
    """
    place = unnamed(secret.sinks, uri, dial)
    if place is not None:
        where = "the sink" if place == uri else f"{place}, where the sink is reached"
        message = f'the annotation {SINKS} of the Secret "{name}" does not name {where}'
        return Withheld(NOT_FOR_SINK, message)
    if ca_certs is None:
        return None
    now, given = fingerprints_in(ca_certs), secret.trusted_by
    if now is None:
        message = f'CACerts of the sink must be {_FORMS[CA_CERTS]}, to get the Secret "{name}"'
        return Withheld(NOT_FOR_CA_CERTS, message)
    if given is None:
        return _unusable(name, secret, CA_CERTS)
    if not adds_trust(now, given):
        return None
    message = (
        f'the sink has CACerts that are not under the key "{CA_CERTS}" of the Secret "{name}":'
        " write them there, in PEM, together with its other values"
    )
    return Withheld(NOT_FOR_CA_CERTS, message)


def credential_of(name: str, secret: KeptSecret, origin: UriOrigin) -> Credential | Withheld:
    """The credential for the sink at *origin* that the Secret *name* holds."""
    values = secret.values
    if "token" not in values and not {"username", "password"} <= values.keys():
        keys = 'neither the key "token" nor both keys "username" and "password"'
        return Withheld(UNUSABLE, f'the Secret "{name}" has {keys}')
    token, user, password = (_text_of(secret, key) for key in ("token", "username", "password"))
    if token is not None and is_token(token):
        kind = "Bearer"
        return Credential("ACCESSTOKEN", access_token=token, access_token_type=kind, origin=origin)
    if {"username", "password"} <= values.keys():
        if user is None or ":" in user:
            return _unusable(name, secret, "username")
        if password is None or not is_secret(password):
            return _unusable(name, secret, "password")
        return Credential("PLAIN", identifier=user, secret=password, origin=origin)
    return _unusable(name, secret, "token")


def signing_keys_of(name: str, secret: KeptSecret) -> tuple[SigningKey, ...] | Withheld:
    """The keys of the Secret *name* that sign, the newest first."""
    found: list[SigningKey] = []
    for key in ("secret", "previous"):
        if secret.values.get(key):
            signing = _signing_key(_text_of(secret, key) or "")
            if signing is None:
                return _unusable(name, secret, key)
            found.append(signing)
    if found:
        return tuple(found)
    for key in ("secret", "previous"):
        if key in secret.values:
            return _unusable(name, secret, key)
    return Withheld(UNUSABLE, f'the Secret "{name}" has no key "secret"')


def _unusable(name: str, secret: KeptSecret, key: str) -> Withheld:
    how = "cannot be used" if secret.values[key] else "is empty"
    message = f'the key "{key}" of the Secret "{name}" {how}: expected {_FORMS[key]}'
    return Withheld(UNUSABLE, message)


def _signing_key(text: str) -> SigningKey | None:
    for prefix, scheme in _SCHEMES.items():
        if not text.startswith(prefix):
            continue
        try:
            value = base64.b64decode(text.removeprefix(prefix), validate=True)
        except (binascii.Error, ValueError):  # without the cause, which may quote
            return None
        fits = _SIGNING_BYTES_MIN <= len(value) <= _SIGNING_BYTES_MAX
        if fits and (scheme == "v1" or len(value) == _SEED_BYTES):
            return SigningKey(scheme, value, 0)
    return None


def _text_of(secret: KeptSecret, key: str) -> str | None:
    """The value of *key* as text, without the line end after it; None: there is none."""
    try:
        return secret.values[key].decode().removesuffix("\n").removesuffix("\r")
    except (KeyError, UnicodeDecodeError):
        return None
