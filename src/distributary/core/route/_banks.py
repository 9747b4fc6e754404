"""Many routes tested at once: what their tests say of a value is kept, as bits of a number."""

from typing import Final, TypeAlias

from distributary.core import filter as filters
from distributary.core.route._route import Arrival, Hits, Route

BANK_ROUTES_MAX: Final = 256
"""Routes in a bank: bits of the numbers that are kept. More would make every number larger and
every change forget more; fewer would mean more looking up."""
MEMO_ENTRIES_MAX: Final = 65_536
"""Values of which all memos of one table's matchers know the answer, together: about 12 MB, and 45
MB at the very worst. Attributes worth it have thousands of values; there is no end of the others.
"""
MEMO_CHARS_MAX: Final = 128
"""Longer values are not kept: they hardly ever come twice, and fill the memory."""
TRIAL_MISSES_MAX: Final = 32_768
"""After so many values that were new, more than half of all that came, it is taken that their
values do not come again. As many as are kept, or it would be said of what is only warming up."""
TRIAL_AFTER_EVENTS: Final = 1_000_000
"""Then the values are given another trial: it costs a second in a minute of full load."""

_Key: TypeAlias = object
_Memo: TypeAlias = dict[_Key, int]


class Budget:
    """Bounds what the memos of a table's matchers hold together.

    At the limit all of them are emptied: that needs no bookkeeping where a memo answers, and what
    is still asked for is back at once.
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


class _Facet:
    """What the routes of a bank ask of the same attributes.

    Attributes:
        names: Of the attributes.
        memo: Values of the attributes, and the routes that they exclude.
        misses: How many values were new in this trial.
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
        """One more part of the route *bit*."""
        self._tests.setdefault(bit, []).append(test)
        self.memo.clear()

    def remove(self, bit: int) -> bool:
        """The route *bit* leaves; True where nothing is left then."""
        if self._tests.pop(bit, None) is not None:
            self.memo.clear()
        return not self._tests

    def excluded(self, attributes: filters.Attributes, among: int) -> int:
        """The routes of *among* whose parts here do not all hold, found by testing."""
        answer = 0
        for bit, tests in self._tests.items():
            if not bit & among:
                continue
            for test in tests:
                if not test(attributes):
                    answer |= bit
                    break
        return answer


class Bank:
    """Up to ``BANK_ROUTES_MAX`` routes that are tested together.

    The parts of their tests are sorted into facets by what they look at. A facet knows for the
    values that came before which routes they exclude, a bit a route. So an event costs one
    look-up a facet, whatever the number of routes; and since most parts look at one attribute, it
    is values that must come again, not combinations of values. Where they do not, the facet is
    fleeting: only the routes that the other facets leave are tested for it.
    """

    __slots__ = (
        "_all",
        "_budget",
        "_events",
        "_facets",
        "_fleeting",
        "_routes",
        "_trial_at",
        "_unsure",
    )

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._all = 0
        self._unsure = 0  # those with a part that may look at anything: tested in the end
        self._routes: dict[int, Route] = {}  # by bit
        self._facets: list[_Facet] = []
        self._fleeting: list[_Facet] = []
        self._events = 0
        self._trial_at = 0

    @property
    def full(self) -> bool:
        """True where no more routes fit."""
        return len(self._routes) >= BANK_ROUTES_MAX

    def put(self, arrival: Arrival) -> int:
        """Add a route, which there is room for.

        Returns:
            Its bit, by which it leaves.
        """
        bit = ~self._all & (self._all + 1)  # the lowest that is free
        self._all |= bit
        self._routes[bit] = arrival.route
        for part in arrival.conjuncts:
            if part.reads is None:
                self._unsure |= bit
                continue
            self._facet(tuple(sorted(part.reads))).put(bit, part.test)
        return bit

    def remove(self, bit: int) -> None:
        """Take the route with *bit* out."""
        del self._routes[bit]
        self._all &= ~bit
        self._unsure &= ~bit
        self._facets = [facet for facet in self._facets if not facet.remove(bit)]
        self._fleeting = [facet for facet in self._fleeting if not facet.remove(bit)]

    def _facet(self, names: tuple[str, ...]) -> _Facet:
        for facet in (*self._facets, *self._fleeting):
            if facet.names == names:
                return facet
        facet = _Facet(names)
        facet.since = self._events
        self._facets.append(facet)
        return facet

    def __len__(self) -> int:
        return len(self._routes)

    def collect(self, attributes: filters.Attributes, hits: Hits) -> None:
        """Add to *hits* the routes here that match an event with *attributes*."""
        self._events += 1
        excluded = 0
        facets = self._facets
        for place, facet in enumerate(facets):
            names = facet.names
            key: _Key
            if len(names) == 1:
                key = attributes.get(names[0])
                if isinstance(key, bool):
                    key = (key,)  # as a key it would equal 1 or 0
            else:
                key = _key(attributes, names)
            answer = facet.memo.get(key)
            if answer is None:
                answer = self._ask(facet, key, attributes)
            excluded |= answer
            if excluded == self._all:
                if place:
                    # which tells most is asked first: nearly always that is all
                    facets.insert(0, facets.pop(place))
                return
        self._decide(self._all & ~excluded, attributes, hits)

    def _ask(self, facet: _Facet, key: _Key, attributes: filters.Attributes) -> int:
        """The routes that *facet* excludes, for values that are new."""
        answer = facet.excluded(attributes, self._all)
        if answer == self._all:
            answer = self._all  # the same number, not another object
        if _chars(key) <= MEMO_CHARS_MAX:
            self._budget.keep(facet.memo, key, answer)
        facet.misses += 1
        if facet.misses >= TRIAL_MISSES_MAX:
            if self._events - facet.since < 2 * TRIAL_MISSES_MAX:
                self._facets = [one for one in self._facets if one is not facet]
                self._fleeting.append(facet)
                self._trial_at = self._events + TRIAL_AFTER_EVENTS
                facet.memo.clear()
            self._begin_trial(facet)
        return answer

    def _decide(self, left: int, attributes: filters.Attributes, hits: Hits) -> None:
        """Test the routes of *left*, which no memo excludes, for what no memo knows."""
        for facet in self._fleeting:
            left &= ~facet.excluded(attributes, left)
        if self._fleeting and self._events >= self._trial_at:
            self._facets += self._fleeting
            for facet in self._fleeting:
                self._begin_trial(facet)
            self._fleeting = []
        while left:
            bit = left & -left
            left ^= bit
            route = self._routes[bit]
            if not bit & self._unsure or (route.test is not None and route.test(attributes)):
                hits[route.order] = route.uid

    def _begin_trial(self, facet: _Facet) -> None:
        facet.misses, facet.since = 0, self._events


def _key(attributes: filters.Attributes, names: tuple[str, ...]) -> _Key:
    values = map(attributes.get, names)
    return tuple([(value,) if isinstance(value, bool) else value for value in values])


def _chars(key: _Key) -> int:
    if isinstance(key, tuple):
        return sum(map(_chars, key))
    return len(key) if isinstance(key, str) else 0
