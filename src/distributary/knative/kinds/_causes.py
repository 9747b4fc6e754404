"""Faults in the words of the Kubernetes API."""

from typing import Final

from distributary.core.errors import Fault
from distributary.knative.apiserver.machinery import Cause

_INVALID: Final = ("FieldValueInvalid", "Invalid value")

_WORDS: Final = {
    "blocked-address": ("FieldValueForbidden", "Forbidden"),
    "missing": ("FieldValueRequired", "Required value"),
    "too-long": ("FieldValueTooLong", "Too long"),
    "too-many": ("FieldValueTooMany", "Too many"),
    "type": ("FieldValueTypeInvalid", "Invalid value"),
    "unknown-dialect": ("FieldValueNotSupported", "Unsupported value"),
}
"""Code of a ``Fault`` -> reason of a ``Cause`` and how its message begins; others: invalid."""


def of_fault(fault: Fault) -> Cause:
    """*fault* as a cause; the value is not repeated: a URI may hold what should be secret."""
    reason, words = _WORDS.get(fault.code, _INVALID)
    return Cause(fault.path, reason, f"{words}: {fault.message}")
