"""Tests up to 256 routes together; caches which of them each attribute value excludes."""

from typing import Final, TypeAlias

from distributary.core import filter as filters
from distributary.core.route._route import Hits, NewRoute, Route

BATCH_ROUTES_MAX: Final = 256
"""Routes in a batch: the bits of the cached masks. More would make every mask larger and every
change invalidate more; fewer would mean more look-ups."""
MEMO_ENTRIES_MAX: Final = 65_536
"""Entries of all memos of one table's matchers together: about 12 MB, and 45 MB at worst.
Attributes worth caching have thousands of values; others have no bound.
"""
MEMO_CHARS_MAX: Final = 128
"""Longer values are not cached: they rarely repeat, and fill the memory."""
TRIAL_MISSES_MAX: Final = 32_768
"""After this many misses, more than half of all look-ups, a group is no longer cached: its values
do not repeat. As many as are cached, or a cold cache would count as a useless one."""
TRIAL_AFTER_EVENTS: Final = 1_000_000
"""Then the values get another trial: it costs a second in a minute of full load."""

_Key: TypeAlias = object
_Memo: TypeAlias = dict[_Key, int]


class Budget:
    """Bounds the memos of a table's matchers together.

    At the limit all of them are emptied: hits need no bookkeeping, and entries still in use are
    back at once.
    """

    def __init__(self) -> None:
        self._left = MEMO_ENTRIES_MAX
        self._memos: list[_Memo] = []

    def keep(self, memo: _Memo, key: _Key, answer: int) -> None:
        """Put *answer* into *memo*."""
        if not memo:
            self._memos.append(memo)
        memo[key] = answer
        self._left -= 1
        if self._left <= 0:
            for one in self._memos:
                one.clear()
            self._memos.clear()
            self._left = MEMO_ENTRIES_MAX


class _AttributeGroup:
    """The tests of a batch's routes that read the same attributes.

    Attributes:
        names: Of the attributes.
        memo: Values of the attributes -> the routes that they exclude.
        misses: Misses of this trial.
        since: Number of the event with which the trial began.
    """

    __slots__ = ("_tests", "memo", "misses", "names", "since")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.memo: _Memo = {}
        self.misses = 0
        self.since = 0
        self._tests: dict[int, list[filters.Test]] = {}  # by the bit of the route

    def put(self, bit: int, test: filters.Test) -> None:
        """Add a part of route *bit*."""
        self._tests.setdefault(bit, []).append(test)
        self.memo.clear()

    def remove(self, bit: int) -> bool:
        """Remove route *bit*; True if the group is empty then."""
        if self._tests.pop(bit, None) is not None:
            self.memo.clear()
        return not self._tests

    def excluded(self, attributes: filters.Attributes, among: int) -> int:
        """Test the routes in *among*; return those of which a part here does not hold."""
        answer = 0
        for bit, tests in self._tests.items():
            if not bit & among:
                continue
            for test in tests:
                if not test(attributes):
                    answer |= bit
                    break
        return answer


class RouteBatch:
    """Up to ``BATCH_ROUTES_MAX`` routes that are tested together.

    The parts of their tests are grouped by the attributes that they read. A group caches, for each
    value, a bitmask of the routes that it excludes. So an event costs one look-up a group, whatever
    the number of routes; and since most parts read one attribute, values must repeat, not
    combinations of values. If they do not, the group is no longer cached: then it tests only the
    routes that the other groups leave.
    """

    __slots__ = (
        "_all",
        "_budget",
        "_events",
        "_fleeting",
        "_groups",
        "_routes",
        "_trial_at",
        "_unsure",
    )

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._all = 0
        self._unsure = 0  # those with a part that may read any attribute: tested last
        self._routes: dict[int, Route] = {}  # by bit
        self._groups: list[_AttributeGroup] = []
        self._fleeting: list[_AttributeGroup] = []
        self._events = 0
        self._trial_at = 0

    @property
    def full(self) -> bool:
        """True if no more routes fit."""
        return len(self._routes) >= BATCH_ROUTES_MAX

    def put(self, new_route: NewRoute) -> int:
        """Add a route; the batch must not be full.

        Returns:
            Its bit, the argument of ``remove``.
        """
        bit = ~self._all & (self._all + 1)  # the lowest free one
        self._all |= bit
        self._routes[bit] = new_route.route
        for part in new_route.conjuncts:
            if part.reads is None:
                self._unsure |= bit
                continue
            self._group(tuple(sorted(part.reads))).put(bit, part.test)
        return bit

    def remove(self, bit: int) -> None:
        """Remove the route with *bit*."""
        del self._routes[bit]
        self._all &= ~bit
        self._unsure &= ~bit
        self._groups = [group for group in self._groups if not group.remove(bit)]
        self._fleeting = [group for group in self._fleeting if not group.remove(bit)]

    def _group(self, names: tuple[str, ...]) -> _AttributeGroup:
        for group in (*self._groups, *self._fleeting):
            if group.names == names:
                return group
        group = _AttributeGroup(names)
        group.since = self._events
        self._groups.append(group)
        return group

    def __len__(self) -> int:
        return len(self._routes)

    def collect(self, attributes: filters.Attributes, hits: Hits) -> None:
        """Add to *hits* the routes here that match an event with *attributes*."""
        self._events += 1
        excluded = 0
        groups = self._groups
        for place, group in enumerate(groups):
            names = group.names
            key: _Key
            if len(names) == 1:
                key = attributes.get(names[0])
                if isinstance(key, bool):
                    key = (key,)  # as a key it would equal 1 or 0
            else:
                key = _key(attributes, names)
            answer = group.memo.get(key)
            if answer is None:
                answer = self._ask(group, key, attributes)
            excluded |= answer
            if excluded == self._all:
                if place:
                    # most selective first: nearly always it suffices
                    groups.insert(0, groups.pop(place))
                return
        self._decide(self._all & ~excluded, attributes, hits)

    def _ask(self, group: _AttributeGroup, key: _Key, attributes: filters.Attributes) -> int:
        """Return the routes that *group* excludes for values not in its memo."""
        answer = group.excluded(attributes, self._all)
        if answer == self._all:
            answer = self._all  # the same number, not another object
        if _chars(key) <= MEMO_CHARS_MAX:
            self._budget.keep(group.memo, key, answer)
        group.misses += 1
        if group.misses >= TRIAL_MISSES_MAX:
            if self._events - group.since < 2 * TRIAL_MISSES_MAX:
                self._groups = [one for one in self._groups if one is not group]
                self._fleeting.append(group)
                self._trial_at = self._events + TRIAL_AFTER_EVENTS
                group.memo.clear()
            self._begin_trial(group)
        return answer

    def _decide(self, left: int, attributes: filters.Attributes, hits: Hits) -> None:
        """Test the routes in *left*, which no memo excludes, for the parts that no memo decides."""
        for group in self._fleeting:
            left &= ~group.excluded(attributes, left)
        if self._fleeting and self._events >= self._trial_at:
            self._groups += self._fleeting
            for group in self._fleeting:
                self._begin_trial(group)
            self._fleeting = []
        while left:
            bit = left & -left
            left ^= bit
            route = self._routes[bit]
            if not bit & self._unsure or (route.test is not None and route.test(attributes)):
                hits[route.order] = route.uid

    def _begin_trial(self, group: _AttributeGroup) -> None:
        group.misses, group.since = 0, self._events


def _key(attributes: filters.Attributes, names: tuple[str, ...]) -> _Key:
    values = map(attributes.get, names)
    return tuple([(value,) if isinstance(value, bool) else value for value in values])


def _chars(key: _Key) -> int:
    if isinstance(key, tuple):
        return sum(map(_chars, key))
    return len(key) if isinstance(key, str) else 0
