"""What authorizes deliveries at a sink (Subscriptions API 3.2.3)."""

from dataclasses import dataclass, field
from typing import Literal

CredentialType = Literal["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"]


@dataclass(frozen=True, slots=True)
class Credential:
    """A sink credential. Secrets are left out of the ``repr``; they never leave (promise 6).

    Attributes:
        type: One of the three that the specification names.
        identifier: Account name, for ``PLAIN``.
        secret: Password, for ``PLAIN``.
        access_token: For both kinds of token.
        access_token_type: Such as ``Bearer``.
        access_token_expires_ms: From then on no request leaves with it; wall clock, milliseconds.
        refresh_token: Trades for new access tokens, for ``REFRESHTOKEN``.
        refresh_token_endpoint: Where.
    """

    type: CredentialType
    identifier: str | None = None
    secret: str | None = field(default=None, repr=False)
    access_token: str | None = field(default=None, repr=False)
    access_token_type: str | None = None
    access_token_expires_ms: int | None = None
    refresh_token: str | None = field(default=None, repr=False)
    refresh_token_endpoint: str | None = None
