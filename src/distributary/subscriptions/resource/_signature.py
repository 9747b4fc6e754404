"""``protocolsettings.signature``: makes, keeps and rotates the keys that sign deliveries.

Called by the store, in the transaction of a change. The realized object shows when each key was
made and until when it signs, and the public key of ``v1a``; the secret of ``v1`` is in the answer
to the change that made it, and nowhere else. The private key of ``v1a`` is never shown.

Source:
    Standard Webhooks 1.0.
"""

import base64
import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from distributary.core.deliver.signing import SignatureScheme, SigningKey, SigningKeys
from distributary.resource.durations import parse_duration_s
from distributary.resource.faults import Faults
from distributary.resource.schema import Schema, checked, closed
from distributary.subscriptions.resource._secret_settings import sink_origin

SIGNATURE: Final = "signature"
"""Name of the member of ``protocolsettings``."""

SECRET_BYTES: Final = 32
"""Size of a secret that the server makes: Standard Webhooks allows 24 to 64, ed25519 has 32."""

SIGNING_KEYS_MAX: Final = 4
"""Most keys that sign at once: the newest, and three whose overlap lasts. Each adds at most 92
bytes to a request, and an ed25519 signature some 50 us."""

OVERLAP_S_DEFAULT: Final = 24 * 3600.0
"""How long a replaced key goes on signing, seconds: a day to change every receiver."""

OVERLAP_S_MAX: Final = 7 * 24 * 3600.0
"""Longest overlap, seconds: a secret that leaked must not stay good for longer than a week."""

Draw = Callable[[int], bytes]
"""Random bytes for secrets: ``os.urandom``."""

ROTATION: Final[Schema] = closed(
    {
        "overlap": {
            "type": "string",
            "minLength": 1,
            "maxLength": 64,
            "default": "PT24H",
            "description": (
                "How long the replaced key goes on signing beside the new one: ISO 8601, at most"
                " P7D; PT0S ends all others at once."
            ),
            "examples": ["PT24H"],
        },
        "scheme": {
            "enum": ["v1", "v1a"],
            "description": "Of the new key; absent: that of the key that it replaces.",
        },
    }
) | {"description": "How to replace the key that signs deliveries."}
"""Schema of a request to rotate."""


class Rotation(NamedTuple):
    """A request to replace the newest key.

    Attributes:
        scheme: Of the new key; None: unchanged.
        overlap_s: How long the replaced one goes on signing, seconds.
    """

    scheme: SignatureScheme | None = None
    overlap_s: float = OVERLAP_S_DEFAULT


def parse_rotation(body: object) -> Rotation:
    """Read a request to rotate.

    Raises:
        ResourceError: Names every fault.
    """
    faults = Faults()
    found = checked(faults, "$", ROTATION, body)
    overlap_s = OVERLAP_S_DEFAULT
    if not faults.found and "overlap" in found:
        try:
            overlap_s = parse_duration_s(found["overlap"])
        except ValueError as error:
            faults.add("$.overlap", "duration", str(error))
        if overlap_s > OVERLAP_S_MAX:
            faults.add("$.overlap", "duration", "at most seven days (P7D)")
    faults.refuse()
    return Rotation(found.get("scheme"), overlap_s)


def keys_of(
    realized: dict[str, Any], stored: SigningKeys | None, now_ms: int, draw: Draw
) -> SigningKeys:
    """The keys of *realized*, a signed subscription, which is changed to show them.

    Keeps those of *stored* for the same origin and scheme; else makes a new one.

    Args:
        realized: A realized subscription object.
        stored: Keys of the revision before; None: there are none.
        now_ms: Wall clock, milliseconds.
        draw: Makes the secret.
    """
    origin = sink_origin(realized)
    scheme: SignatureScheme = realized["protocolsettings"][SIGNATURE]["scheme"]
    if stored is not None and stored.origin.covers(origin) and stored.keys[0].scheme == scheme:
        keys = tuple(key for key in stored.keys if not key.ended(now_ms))
    else:
        keys = (SigningKey(scheme, draw(SECRET_BYTES), now_ms),)
    found = SigningKeys(origin, keys)
    _show(realized, found)
    return found


def rotate(
    realized: dict[str, Any], stored: SigningKeys, asked: Rotation, now_ms: int, draw: Draw
) -> SigningKeys:
    """The keys of *realized* after a rotation; it is changed to show them.

    Raises:
        ResourceError: ``too-many``: as many keys sign as may.
    """
    newest = stored.keys[0]
    end_ms = now_ms + round(asked.overlap_s * 1000)
    others = [
        dataclasses.replace(
            key, until_ms=end_ms if key.until_ms is None else min(key.until_ms, end_ms)
        )
        for key in stored.keys
    ]
    standing = [key for key in others if not key.ended(now_ms)]
    if len(standing) >= SIGNING_KEYS_MAX:
        faults = Faults()
        message = (
            f"{len(standing)} keys sign already: wait until one ends, or end them with overlap PT0S"
        )
        faults.add("$.overlap", "too-many", message)
        faults.refuse()
    made = SigningKey(asked.scheme or newest.scheme, draw(SECRET_BYTES), now_ms)
    found = SigningKeys(stored.origin, (made, *standing))
    _show(realized, found)
    return found


def with_secret(realized: bytes, keys: SigningKeys | None) -> bytes:
    """*realized* with the secret of its newest key: for the answer to the change that made it."""
    if keys is None or keys.keys[0].scheme != "v1":
        return realized
    value = msgspec.json.decode(realized)
    secret = "whsec_" + base64.b64encode(keys.keys[0].value).decode()
    value["protocolsettings"][SIGNATURE]["secret"] = secret
    return msgspec.json.encode(value)


def is_signed(realized: Mapping[str, Any]) -> bool:
    """Whether deliveries of the subscription *realized* are signed."""
    return SIGNATURE in realized["protocolsettings"]


def public_key(key: SigningKey) -> str:
    """The public key of a ``v1a`` key: ``whpk_`` and Base64."""
    # ``distributary filter`` comes this way without, and may lack it.
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - see above

    private = ed25519.Ed25519PrivateKey.from_private_bytes(key.value)
    return "whpk_" + base64.b64encode(private.public_key().public_bytes_raw()).decode()


def _show(realized: dict[str, Any], keys: SigningKeys) -> None:
    shown = []
    for key in keys.keys:
        one = {"scheme": key.scheme, "created": _time(key.created_ms)}
        if key.until_ms is not None:
            one["until"] = _time(key.until_ms)
        if key.scheme == "v1a":
            one["publickey"] = public_key(key)
        shown.append(one)
    realized["protocolsettings"][SIGNATURE] = {"scheme": keys.keys[0].scheme, "keys": shown}


def _time(moment_ms: int) -> str:
    found = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
