"""Converts faults to causes of the Kubernetes API."""

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
"""Code of a ``Fault`` -> reason of a ``Cause`` and prefix of its message; others: invalid."""


def of_fault(fault: Fault) -> Cause:
    """*fault* as a cause, without the value: a URI may contain a secret."""
    reason, words = _WORDS.get(fault.code, _INVALID)
    return Cause(fault.path, reason, f"{words}: {fault.message}")
