"""Problem details (RFC 9457) of errors, from ``errors.CATALOGUE``, for all protocol bindings."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from distributary.core.errors import (
    CATALOGUE,
    DistributaryError,
    Fault,
    FaultsError,
    RequestError,
    client_text,
)
from distributary.subscriptions.store.stored import ChangePendingError

PROBLEM_TYPE: Final = "application/problem+json"

RETRY_AFTER_S: Final = 1
"""``Retry-After`` of every 429 and 503, seconds: about how often the server tries again."""

INTERNAL_DETAIL: Final = "the server failed; its log says where"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Problem:
    """A failed request, as a client sees it.

    Attributes:
        code: A key of the catalogue.
        detail: A sentence for people; never holds a secret.
        faults: Everything that is wrong, with paths.
        subscription_id: Set where the change is stored nevertheless: read this instead of sending
            it again. None: nothing was stored.
        subscription_path: Its path over HTTP.
    """

    code: str
    detail: str
    faults: tuple[Fault, ...] = ()
    subscription_id: str | None = None
    subscription_path: str | None = None

    @property
    def status(self) -> int:
        """HTTP status."""
        return CATALOGUE[self.code].status

    @property
    def retry_after_s(self) -> int | None:
        """Seconds until a retry may succeed; None: waiting does not help."""
        return RETRY_AFTER_S if self.status in (429, 503) else None

    def encode(self) -> bytes:
        """Encode as a JSON object."""
        entry = CATALOGUE[self.code]
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": entry.title,
            "status": entry.status,
            "code": self.code,
            "detail": self.detail,
            "faults": self.faults,
        }
        return msgspec.json.encode(body)


def describe_error(error: DistributaryError) -> Problem:
    """Describe *error* for a client. Also logs an error that is the server's own fault."""
    if isinstance(error, FaultsError):
        return Problem(error.code, _first_of(error.faults), error.faults)
    if isinstance(error, RequestError):
        return Problem(error.request_code, str(error))
    if isinstance(error, ChangePendingError):
        if error.op == "deleted":
            return Problem(error.code, str(error))
        return Problem(
            error.code, str(error), subscription_id=error.id, subscription_path=error.path
        )
    if CATALOGUE[error.code].status >= 500:
        _log.warning("request-failed", code=error.code, reason=str(error))
    return Problem(error.code, client_text(error))


def _first_of(faults: Iterable[Fault]) -> str:
    first, *others = faults
    more = f" (and {len(others)} more)" if others else ""
    return f"{first.path}: {first.message}{more}"
