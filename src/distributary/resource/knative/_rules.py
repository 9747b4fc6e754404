"""What the validation of Knative's kinds is told from outside."""

from dataclasses import dataclass

from distributary.resource._rules import FilterCheck


@dataclass(frozen=True, slots=True)
class KnativeRules:
    """What an object is checked against.

    Where events may be sent is not among it: whether an address is one of this server itself, and
    what a reference leads to, is known when destinations are resolved, and the operator's rule is
    applied there and at each connection.

    Attributes:
        check_filters: ``filter.check``.
    """

    check_filters: FilterCheck
