"""Policies: they narrow who may send which events to a Broker or Channel.

They are Knative's EventPolicies.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec


class PolicyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One policy.

    Attributes:
        name: For people: ``namespace/name``.
        targets: What it protects, such as ``brokers/shop/default``.
        subjects: Who may send; a ``*`` at the end stands for anything. Empty: nobody.
        filters: Which events, in the filter dialects: all must pass. Empty: every event.
    """

    name: str
    targets: tuple[str, ...]
    subjects: tuple[str, ...] = ()
    filters: tuple[dict[str, Any], ...] = ()

    def names(self, subject: str) -> bool:
        """Whether *subject* may send."""
        return any(
            subject.startswith(each[:-1]) if each.endswith("*") else subject == each
            for each in self.subjects
        )


class Judgement(NamedTuple):
    """What the policies of a target say of a subject.

    Attributes:
        applies: Whether the target has a policy at all.
        allowed: Policies that let the subject send.
    """

    applies: bool
    allowed: tuple[PolicyRecord, ...]

    @property
    def filtered(self) -> tuple[PolicyRecord, ...]:
        """Policies of which an event must pass one; empty: every event may be sent."""
        if any(not policy.filters for policy in self.allowed):
            return ()
        return self.allowed


class Policies:
    """Policies by what they protect."""

    def __init__(self, records: Iterable[PolicyRecord] = ()) -> None:
        self._of: dict[str, list[PolicyRecord]] = {}
        for record in records:
            for target in record.targets:
                self._of.setdefault(target, []).append(record)

    def protect(self, namespace: str) -> bool:
        """Whether they protect anything in *namespace*."""
        return any(target.split("/")[1] == namespace for target in self._of)

    def judge(self, target: str, subject: str) -> Judgement:
        """What they say of *subject*, who sends to *target*."""
        found = self._of.get(target)
        if found is None:
            return Judgement(False, ())
        return Judgement(True, tuple(policy for policy in found if policy.names(subject)))
