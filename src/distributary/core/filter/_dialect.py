"""The interface of a filter dialect.

A dialect has four functions, in a module or (for similar dialects) in an object, and one row in
``_registry``. Nothing else knows any dialect by name, so a new one is one file and one row.
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
    """A condition on one attribute that an index can look up.

    True if the attribute exists and its canonical string (decision 6, canonical strings) is
    *text*, begins with it, or ends with it.
    begins with it, or ends with it.

    Attributes:
        how: The kind of comparison.
        attribute: Name of the attribute.
        text: What it is compared with; not empty.
    """

    how: Literal["exact", "prefix", "suffix"]
    attribute: str
    text: str


Cover = tuple[Predicate, ...]
"""Every event that an expression matches satisfies at least one of these; never empty."""


class Part(NamedTuple):
    """A part of an expression that can be decided without the others.

    Attributes:
        test: Decides it.
        reads: Names of the attributes that the test reads; None: any.
        decided_by: A cover; an event that satisfies it needs no test. None: there is none.
    """

    test: Test
    reads: frozenset[str] | None
    decided_by: Cover | None = None


class Compiled(NamedTuple):
    """One expression, compiled.

    Attributes:
        test: The closure that decides.
        comparisons_max: How many comparisons one event costs at most, known at compile time.
        covers: An index may use any one of them; empty: none is known. May omit some; never
            includes one that a matching event may fail.
        decided: There is one cover, and every event that satisfies it matches: no test is needed.
        reads: Names of the attributes that the test reads, for memoising; None: any.
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
        """Return the expression as one part."""
        return Part(self.test, self.reads, self.covers[0] if self.decided else None)


class Checker(Protocol):
    """Collects the faults that a dialect's ``check`` finds."""

    def fault(self, path: str, code: str, message: str) -> None:
        """Add one fault; the check continues."""

    def count(self, path: str) -> bool:
        """Count one node of the resource; False if there are too many: stop checking."""

    def expression(self, value: object, path: str) -> None:
        """Check a nested filter expression."""


class Dialect(Protocol):
    """The four functions of a dialect.

    ``value`` is the member under the dialect's name in the JSON object. All but ``check`` get only
    values in which ``check`` found no fault.
    """

    def check(self, value: object, checker: Checker, path: str) -> None:
        """Report every fault of *value*, whose JSON path is *path*."""

    def compiled(self, value: Any, nested: Callable[[Any], Compiled]) -> Compiled:
        """Compile *value*; *nested* compiles the expressions inside it."""

    def matches(
        self, value: Any, attributes: Attributes, nested: Callable[[Any, Attributes], bool]
    ) -> bool:
        """Decide without compiling: the oracle of the compiled form."""

    def explain(
        self,
        value: Any,
        attributes: Attributes,
        place: Place,
        nested: Callable[[Any, Attributes, str], Explanation],
    ) -> Explanation:
        """Decide as ``matches``, with reasons; *nested* explains an expression at a path."""
