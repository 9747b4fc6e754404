"""Policies: they narrow who may send which events to a Broker or Channel.

They are Knative's EventPolicies.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

JUDGED_MAX: Final = 4_096
"""Judgements that are remembered, of pairs of target and subject; beyond it the memory begins anew.
As many as credentials that are remembered."""


def all_targets(kind: str, namespace: str) -> str:
    """Target of a policy for everything of one *kind* (``brokers``, ``channels``) in *namespace*.

    No object can have this name.
    """
    return f"{kind}/{namespace}/*"


class PolicyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One policy.

    Attributes:
        name: For people: ``namespace/name``.
        targets: What it protects, such as ``brokers/shop/default``; ``brokers/shop/*``: every
            Broker of the namespace, those that come later too.
        subjects: Who may send; a ``*`` at the end stands for anything. Empty: nobody.
        filters: Which events, in the filter dialects: all must pass. Empty: every event.
    """

    name: str
    targets: tuple[str, ...]
    subjects: tuple[str, ...] = ()
    filters: tuple[dict[str, Any], ...] = ()


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


_UNPROTECTED: Final = Judgement(False, ())


class Policies:
    """Policies by what they protect. For one thread."""

    def __init__(self, records: Iterable[PolicyRecord] = ()) -> None:
        self._of: dict[str, list[_Known]] = {}
        self._judged: dict[tuple[str, str], Judgement] = {}
        for order, record in enumerate(records):
            known = _Known(order, record)
            for target in record.targets:
                self._of.setdefault(target, []).append(known)
        self._namespaces = {target.split("/")[1] for target in self._of}

    def protect(self, namespace: str) -> bool:
        """Whether they protect anything in *namespace*."""
        return namespace in self._namespaces

    def judge(self, target: str, subject: str) -> Judgement:
        """What they say of *subject*, who sends to *target*."""
        kind, namespace, _ = target.split("/", 2)
        if not self.protect(namespace):  # as any name is that somebody made up
            return _UNPROTECTED
        wide = all_targets(kind, namespace)
        asked = (target if target in self._of else wide, subject)
        found = self._judged.get(asked)
        if found is None:
            found = self._judge(dict.fromkeys((asked[0], wide)), subject)
            if len(self._judged) >= JUDGED_MAX:
                self._judged.clear()
            self._judged[asked] = found
        return found

    def _judge(self, targets: Iterable[str], subject: str) -> Judgement:
        known = {each.order: each for target in targets for each in self._of.get(target, ())}
        allowed = (known[order] for order in sorted(known) if known[order].names(subject))
        return Judgement(bool(known), tuple(each.record for each in allowed))


class _Known:
    """A policy whose subjects are looked up at once, however many there are."""

    __slots__ = ("_exact", "_prefixes", "order", "record")

    def __init__(self, order: int, record: PolicyRecord) -> None:
        self.order = order
        self.record = record
        stars = [each for each in record.subjects if each.endswith("*")]
        self._exact = frozenset(record.subjects).difference(stars)
        self._prefixes = tuple(each[:-1] for each in stars)

    def names(self, subject: str) -> bool:
        """Whether *subject* may send."""
        return subject in self._exact or subject.startswith(self._prefixes)
