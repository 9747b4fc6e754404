"""What authorizes deliveries at a sink (Subscriptions API 3.2.3)."""

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from distributary.core.deliver.origins import UriOrigin

CredentialType = Literal["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"]

CREDENTIAL_TYPES: Final[tuple[CredentialType, ...]] = get_args(CredentialType)
"""Every kind of credential that a sink can have."""

SECRET_MEMBERS: Final[dict[CredentialType, tuple[str, ...]]] = {
    "PLAIN": ("secret",),
    "ACCESSTOKEN": ("accessToken",),
    "REFRESHTOKEN": ("accessToken", "refreshToken"),
}
"""Members that are write-only, for each kind; all of them are required."""


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
        refresh_token_endpoint: Where; None: the access token is used until it expires.
        origin: Of the sink that it was given for: no other one gets it. None: nobody noted it, as
            in what a version without origins has sealed. Says whom a credential is for, not
            what it is: equal ones may differ in it.
    """

    type: CredentialType
    identifier: str | None = None
    secret: str | None = field(default=None, repr=False)
    access_token: str | None = field(default=None, repr=False)
    access_token_type: str | None = None
    access_token_expires_ms: int | None = None
    refresh_token: str | None = field(default=None, repr=False)
    refresh_token_endpoint: str | None = None
    origin: UriOrigin | None = field(default=None, compare=False, repr=False)

    @property
    def complete(self) -> bool:
        """False where the secrets are left out: those that are stored are to be kept."""
        return (self.access_token if self.secret is None else self.secret) is not None

    @property
    def refreshable(self) -> bool:
        """Whether its access token can be traded for a newer one."""
        return self.refresh_token is not None and self.refresh_token_endpoint is not None

    def expired(self, wall_ms: int) -> bool:
        """Whether it must not be used any more at *wall_ms* (milliseconds since 1970)."""
        expires_ms = self.access_token_expires_ms
        return expires_ms is not None and wall_ms >= expires_ms
