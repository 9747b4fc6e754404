"""Problem details (RFC 9457) of errors, drawn from ``errors.CATALOGUE``, whatever carries them."""

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
)
from distributary.subscriptions.store.stored import ChangePendingError

PROBLEM_TYPE: Final = "application/problem+json"

RETRY_AFTER_S: Final = 1
"""With every 503: what is missing (log, store, room) is tried again about as often, seconds."""

INTERNAL_DETAIL: Final = "the server failed; its log says where"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Problem:
    """What a client is told when a request failed.

    Attributes:
        code: A key of the catalogue.
        detail: A sentence for people; never holds a secret.
        faults: Everything that is wrong, and where.
        subscription_id: Where the change is stored all the same: what to read, in place of
            sending it again. None: nothing is there to be read.
    """

    code: str
    detail: str
    faults: tuple[Fault, ...] = ()
    subscription_id: str | None = None

    @property
    def status(self) -> int:
        """As HTTP says it."""
        return CATALOGUE[self.code].status

    @property
    def retry_after_s(self) -> int | None:
        """When to try again, seconds from now; None: not by waiting."""
        return RETRY_AFTER_S if self.status == 503 else None

    def encode(self) -> bytes:
        """The JSON object."""
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
    """What is told of *error*. One that is the server's own fault is logged as well."""
    if isinstance(error, FaultsError):
        return Problem(error.code, _first_of(error.faults), error.faults)
    if isinstance(error, RequestError):
        return Problem(error.request_code, str(error))
    if isinstance(error, ChangePendingError):
        readable = None if error.op == "deleted" else error.id
        return Problem(error.code, str(error), subscription_id=readable)
    if CATALOGUE[error.code].status >= 500:
        _log.warning("request-failed", code=error.code, reason=str(error))
    return Problem(error.code, str(error))


def _first_of(faults: Iterable[Fault]) -> str:
    first, *others = faults
    more = f" (and {len(others)} more)" if others else ""
    return f"{first.path}: {first.message}{more}"
