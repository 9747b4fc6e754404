"""What a filter dialect is: the interface that each dialect's file fills in.

A dialect has four functions, in a module of its own or, where several are of a kind, in an object
of theirs; and one row in ``_registry``. Nothing else knows any dialect by name, so a new one is one
file and one row.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from distributary.core.event import AttributeValue
from distributary.core.filter._explanation import Explanation, Place

Attributes = Mapping[str, AttributeValue]
"""The context attributes of one event."""

Test = Callable[[Attributes], bool]
"""A compiled filter expression: attributes in, match or no match out. Pure; never raises."""


class Predicate(NamedTuple):
    """One simple question about one attribute, which an index can answer.

    It is true where the attribute is there and its canonical string (decision 6) is *text*,
    begins with it, or ends with it.

    Attributes:
        how: The kind of comparison.
        attribute: Name of the attribute.
        text: What it is compared with, not empty.
    """

    how: Literal["exact", "prefix", "suffix"]
    attribute: str
    text: str


Cover = tuple[Predicate, ...]
"""Every event that an expression matches satisfies at least one of these; never empty."""


class Part(NamedTuple):
    """A part of an expression that can be decided apart from the others.

    Attributes:
        test: Decides it.
        reads: Names of the attributes that the test looks at; None: any.
        decided_by: A cover; for what satisfies it the part needs no test. None: there is none.
    """

    test: Test
    reads: frozenset[str] | None
    decided_by: Cover | None = None


class Compiled(NamedTuple):
    """One expression, compiled.

    Attributes:
        test: The closure that decides.
        comparisons_max: How many comparisons one event costs at most: known here, before any
            event is seen.
        covers: An index may go by any one of them; empty: nothing is known of what matches.
            May leave out some; never one that a matching event may fail.
        decided: There is one cover, and every event that satisfies it matches: no test is needed.
        reads: Names of the attributes that the test looks at, for memoising; None: any.
        conjuncts: The expression is true where all of these are; empty: it has no such parts.
        disjuncts: The expression is true where one of these is; empty: it has no such parts.
    """

    test: Test
    comparisons_max: int
    covers: tuple[Cover, ...] = ()
    decided: bool = False
    reads: frozenset[str] | None = None
    conjuncts: tuple[Part, ...] = ()
    disjuncts: tuple[Part, ...] = ()

    @property
    def whole(self) -> Part:
        """The expression as one part."""
        return Part(self.test, self.reads, self.covers[0] if self.decided else None)


class Checker(Protocol):
    """What a dialect's ``check`` reports to."""

    def fault(self, path: str, code: str, message: str) -> None:
        """Note one fault; the check goes on."""

    def count(self, path: str) -> bool:
        """Count one node of the resource; False when there are too many: stop checking."""

    def expression(self, value: object, path: str) -> None:
        """Check a nested filter expression."""


class Dialect(Protocol):
    """The four functions of a dialect.

    ``value`` is what stands beside the dialect's name in the JSON object. All but ``check`` see
    only values in which ``check`` found no fault.
    """

    def check(self, value: object, checker: Checker, path: str) -> None:
        """Report every fault of *value*, which stands at *path*."""

    def compiled(self, value: Any, nested: Callable[[Any], Compiled]) -> Compiled:
        """Compile *value*; *nested* compiles the expressions inside it."""

    def matches(
        self, value: Any, attributes: Attributes, nested: Callable[[Any, Attributes], bool]
    ) -> bool:
        """Decide the plain way, without compiling: the oracle of the compiled form."""

    def explain(
        self,
        value: Any,
        attributes: Attributes,
        place: Place,
        nested: Callable[[Any, Attributes, str], Explanation],
    ) -> Explanation:
        """Decide as ``matches``, and say why; *nested* explains an expression at a path."""
