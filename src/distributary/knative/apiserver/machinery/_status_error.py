"""How a request of the Kubernetes API is refused: the reasons of ``metav1.Status``."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from distributary.core.errors import DistributaryError

REASONS: Final[dict[str, int]] = {
    "BadRequest": 400,
    "Forbidden": 403,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "NotAcceptable": 406,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Gone": 410,
    "Expired": 410,
    "RequestEntityTooLarge": 413,
    "UnsupportedMediaType": 415,
    "Invalid": 422,
    "TooManyRequests": 429,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "Timeout": 504,
}
"""Reason of a ``Status`` -> HTTP status (k8s.io/apimachinery, ``meta/v1/types.go``)."""


class Cause(NamedTuple):
    """One of the faults of an object.

    Attributes:
        field: Path of the field, as Kubernetes writes it: ``spec.filters[0].exact``; empty: none.
        reason: ``FieldValueRequired``, ``FieldValueInvalid``, ``FieldValueNotSupported``,
            ``FieldValueForbidden``, ``FieldValueDuplicate``, ``FieldValueTypeInvalid``,
            ``FieldValueTooLong``...
        message: For people; says what is expected.
    """

    field: str
    reason: str
    message: str


class StatusError(DistributaryError):
    """A request that is refused; the answer is a ``Status`` with these words.

    Args:
        reason: A key of ``REASONS``, which gives the HTTP status.
        message: For people.
        causes: Every fault found, with its place (reason ``Invalid``).
        retry_after_s: When to try again, seconds; None: nothing is said.
        name: Of the object that it is about; empty: the one that the request's path names.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        causes: Iterable[Cause] = (),
        retry_after_s: int | None = None,
        name: str = "",
    ) -> None:
        self.reason = reason
        self.status = REASONS[reason]
        self.causes = tuple(causes)
        self.retry_after_s = retry_after_s
        self.name = name
        super().__init__(message)
