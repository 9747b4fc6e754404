"""Why the gate refuses: 401 without an identity, 403 without a grant."""

from typing import Final

from distributary.access.identity import Identity, Permission
from distributary.core.errors import RequestError

REALM: Final = "distributary"


class UnauthenticatedError(RequestError):
    """The request shows no identity, or one that is not valid.

    Args:
        message: What was wrong; never what was shown.
        invalid: Something was shown, and it is not valid.
    """

    def __init__(self, message: str, *, invalid: bool) -> None:
        super().__init__("invalid-credentials" if invalid else "unauthenticated", message)


class ForbiddenError(RequestError):
    """The identity may not do what the request needs.

    Args:
        identity: Who asked.
        permission: What the request needs.
        why: Further reason; empty: no grant allows it.
    """

    def __init__(self, identity: Identity, permission: Permission, why: str = "") -> None:
        reason = f": {why}" if why else ""
        super().__init__("forbidden", f"{identity.name} may not {permission}{reason}.")


def challenge(code: str) -> str:
    """Value of ``WWW-Authenticate`` in a 401 with *code* (RFC 6750 sections 3 and 3.1)."""
    shown = code == "invalid-credentials"
    return f'Bearer realm="{REALM}"' + (', error="invalid_token"' if shown else "")
