"""Keys that sign deliveries to an HTTP sink (Standard Webhooks 1.0).

Made by ``subscriptions``, which seals them; used by the HTTP sink. Pure values.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from distributary.core.deliver.origins import UriOrigin

SignatureScheme = Literal["v1", "v1a"]

SIGNATURE_SCHEMES: Final[tuple[SignatureScheme, ...]] = get_args(SignatureScheme)
"""``v1``: HMAC-SHA256; ``v1a``: ed25519."""

SIGNATURE_HEADERS: Final = ("webhook-id", "webhook-timestamp", "webhook-signature")
"""Header fields of a signed delivery."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key. Its ``repr`` has no secret.

    Attributes:
        scheme: What it signs by.
        value: 32 bytes: the HMAC secret, or the seed of the ed25519 private key.
        created_ms: When it was made, wall clock, milliseconds.
        until_ms: Signs no attempt from this time on; None: it is the newest, and has no end.
    """

    scheme: SignatureScheme
    value: bytes = field(repr=False)
    created_ms: int
    until_ms: int | None = None

    def ended(self, wall_ms: int) -> bool:
        """Whether it signs nothing more at *wall_ms* (milliseconds since 1970)."""
        return self.until_ms is not None and wall_ms >= self.until_ms


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of one subscription: several while one replaces another.

    Attributes:
        origin: Origin of the sink that they are for; no other gets their signatures.
        keys: The newest first; at least one.
    """

    origin: UriOrigin
    keys: tuple[SigningKey, ...]
