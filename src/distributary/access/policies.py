"""Policies: they narrow who may send which events to a Broker or Channel.

They are Knative's EventPolicies.
"""

import operator
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from distributary.core import filter as filter_room

JUDGED_MAX: Final = 256
"""Judgements that are remembered for each namespace with policies, of pairs of target and subject;
beyond it that memory begins anew: a tenant empties none but its own. A judgement takes 0.1 ms at
most, and 1 KiB where it is kept.
"""


def all_targets(kind: str, namespace: str) -> str:
    """Target of a policy for everything of one *kind* (``brokers``, ``channels``) in *namespace*.

    No object can have this name.
    """
    return f"{kind}/{namespace}/*"


class Passing(NamedTuple):
    """The compiled filters of a policy.

    Attributes:
        matches: Whether an event passes all of them, by its attributes.
        comparisons_max: How many comparisons that takes at most.
    """

    matches: filter_room.Test
    comparisons_max: int


class PolicyRecord(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One policy. What follows from it is made once, when it is first asked for: see ``prepare``.

    Attributes:
        name: For people: ``namespace/name``.
        targets: What it protects in that namespace, such as ``brokers/shop/default``;
            ``brokers/shop/*``: every Broker, those that come later too.
        subjects: Who may send; a ``*`` at the end stands for anything. Empty: nobody.
        filters: Which events, in the filter dialects: all must pass. Empty: every event.
    """

    name: str
    targets: tuple[str, ...]
    subjects: tuple[str, ...] = ()
    filters: tuple[dict[str, Any], ...] = ()

    @property
    def namespace(self) -> str:
        """Where it protects."""
        return self.name.partition("/")[0]

    @cached_property
    def json(self) -> bytes:
        """The record as JSON."""
        return msgspec.json.encode(self)

    @cached_property
    def passing(self) -> Passing:
        """Its filters, compiled: some 15 ms for the longest that one policy may have."""
        found = filter_room.compile(self.filters)
        return Passing(found.matches, found.comparisons_max)

    @cached_property
    def _protected(self) -> frozenset[str]:
        return frozenset(self.targets)

    @cached_property
    def _exact(self) -> frozenset[str]:
        return frozenset(each for each in self.subjects if not each.endswith("*"))

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        return tuple(each[:-1] for each in self.subjects if each.endswith("*"))

    def prepare(self) -> None:
        """Make now what questions would make of it. For any thread."""
        self.passing, self._protected, self._exact, self._prefixes  # noqa: B018 - kept once made

    def protects(self, target: str, wide: str) -> bool:
        """Whether it means *target*, by its name or as one of all, which *wide* stands for."""
        return target in self._protected or wide in self._protected

    def names(self, subject: str) -> bool:
        """Whether *subject* may send."""
        return subject in self._exact or subject.startswith(self._prefixes)


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
    """Policies by what they protect. For one thread.

    Args:
        records: The policies.
        before: Those of which *records* are the change: namespaces with the same objects are kept
            with what is remembered for them. None: there were none.
    """

    def __init__(
        self, records: Iterable[PolicyRecord] = (), before: "Policies | None" = None
    ) -> None:
        found: dict[str, list[PolicyRecord]] = {}
        for record in records:
            if record.targets:
                found.setdefault(record.namespace, []).append(record)
        known = {} if before is None else before._of  # noqa: SLF001 - of this class
        self._of: dict[str, _Namespace] = {}
        for namespace, own in found.items():
            same = known.get(namespace)
            if same is None or not same.holds(own):
                same = _Namespace(own)
            self._of[namespace] = same

    def protect(self, namespace: str) -> bool:
        """Whether they protect anything in *namespace*."""
        return namespace in self._of

    def judge(self, target: str, subject: str) -> Judgement:
        """What they say of *subject*, who sends to *target*."""
        found = self._of.get(target.split("/", 2)[1])
        return _UNPROTECTED if found is None else found.judge(target, subject)


class _Namespace:
    """The policies of one namespace, and what they were asked."""

    __slots__ = ("_judged", "_records")

    def __init__(self, records: list[PolicyRecord]) -> None:
        self._records = records
        self._judged: dict[tuple[str, str], Judgement] = {}

    def holds(self, records: list[PolicyRecord]) -> bool:
        """Whether these are *records*: the same objects, in the same order."""
        own = self._records
        return len(own) == len(records) and all(map(operator.is_, own, records))

    def judge(self, target: str, subject: str) -> Judgement:
        """See ``Policies.judge``."""
        asked = (target, subject)
        found = self._judged.get(asked)
        if found is None:
            found = self._judge(target, subject)
            if len(self._judged) >= JUDGED_MAX:
                self._judged.clear()
            self._judged[asked] = found
        return found

    def _judge(self, target: str, subject: str) -> Judgement:
        kind, namespace, _ = target.split("/", 2)
        wide = all_targets(kind, namespace)
        meant = [each for each in self._records if each.protects(target, wide)]
        return Judgement(bool(meant), tuple(each for each in meant if each.names(subject)))
