"""Refusals: changes, as the audit log records them, and too many header fields."""

from distributary.access import ANYBODY, NOBODY, Change, Identity
from distributary.core.errors import CATALOGUE, RequestError
from distributary.core.event import carried
from distributary.net.http1 import Request

SURFACE = "http"
"""Name of this surface in the audit log."""


def refused_change(request: Request, error: RequestError, address: str | None) -> Change:
    """The change that *request* asked for, in vain.

    Args:
        request: The request, whose sender was asked for.
        error: Why it was refused.
        address: Address of the client; None: unknown.
    """
    sender = request.sender if isinstance(request.sender, Identity) else NOBODY
    return Change(
        NOBODY if sender is ANYBODY else sender,
        request.method.decode("ascii", "replace"),
        request.path.decode("ascii", "replace"),
        address or "",
        CATALOGUE[error.request_code].status,
        SURFACE,
    )


def keys_unknown() -> RequestError:
    """Returns the error for who is not known while keys may have been made or revoked unheard."""
    return RequestError("unavailable", "Keys cannot be looked up now.")


def too_much_carried() -> RequestError:
    """Returns the error for header fields that go along with events and exceed their limits."""
    return RequestError(
        "headers-too-large",
        f"More than {carried.CARRIED_COUNT_MAX} header fields that go along with events, or "
        f"{carried.CARRIED_BYTES_MAX} bytes of them (Knative-*, X-B3-*, X-Request-Id, traceparent, "
        "tracestate).",
    )
