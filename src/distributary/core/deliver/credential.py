"""Credentials of sinks (Subscriptions API 3.2.3)."""

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from distributary.core.deliver.origins import UriOrigin

CredentialType = Literal["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"]

CREDENTIAL_TYPES: Final[tuple[CredentialType, ...]] = get_args(CredentialType)
"""All types of sink credentials."""

SECRET_MEMBERS: Final[dict[CredentialType, tuple[str, ...]]] = {
    "PLAIN": ("secret",),
    "ACCESSTOKEN": ("accessToken",),
    "REFRESHTOKEN": ("accessToken", "refreshToken"),
}
"""Write-only members of each type; all are required."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What this server shows a sink of itself by TLS.

    Attributes:
        certificate: PEM: the certificate, then those that lead to its authority.
        key: PEM of its private key, without a password. Left out of the ``repr``.
    """

    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credential:
    """A sink credential. Its ``repr`` has no secrets (DESIGN promise 6: nothing leaks).

    Attributes:
        type: One of the three types of the specification.
        identifier: Account name, for ``PLAIN``.
        secret: Password, for ``PLAIN``.
        access_token: For both token types.
        access_token_type: Such as ``Bearer``.
        access_token_expires_ms: Not sent from this time on; wall clock, milliseconds.
        refresh_token: Exchanged for new access tokens, for ``REFRESHTOKEN``.
        refresh_token_endpoint: Where to exchange it; None: the access token is used until it
            expires.
        secret_ref: Name of the secret in the subscription's namespace that stands for ``secret`` or
            ``access_token``; None: they are its own.
        origin: Origin of the sink that it was given for; it is sent to no other. None: unknown, as
            in credentials sealed by a version without origins. Not part of equality.
        trusted_by: Fingerprints of the certificates, besides the system's, of the sink that it was
            given for; it is sent to none that is trusted by others. None: unknown, as in
            credentials sealed by a version without. Not part of equality.
    """

    type: CredentialType
    identifier: str | None = None
    secret: str | None = field(default=None, repr=False)
    access_token: str | None = field(default=None, repr=False)
    access_token_type: str | None = None
    access_token_expires_ms: int | None = None
    refresh_token: str | None = field(default=None, repr=False)
    refresh_token_endpoint: str | None = None
    secret_ref: str | None = None
    origin: UriOrigin | None = field(default=None, compare=False, repr=False)
    trusted_by: tuple[str, ...] | None = field(default=None, compare=False, repr=False)

    @property
    def complete(self) -> bool:
        """False if the secrets are missing: then the stored ones are kept."""
        return (
            self.secret_ref is not None
            or (self.access_token if self.secret is None else self.secret) is not None
        )

    @property
    def refreshable(self) -> bool:
        """Whether its access token can be refreshed."""
        return self.refresh_token is not None and self.refresh_token_endpoint is not None

    def expired(self, wall_ms: int) -> bool:
        """Whether it has expired at *wall_ms* (milliseconds since 1970)."""
        expires_ms = self.access_token_expires_ms
        return expires_ms is not None and wall_ms >= expires_ms
