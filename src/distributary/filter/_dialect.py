"""What a filter dialect is: the interface that each dialect's file fills in.

A dialect is one module of this room with three functions, and one row in ``_registry``. Nothing
else knows any dialect by name, so a new one is one file and one row.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Protocol

from distributary.event import AttributeValue

Attributes = Mapping[str, AttributeValue]
"""The context attributes of one event."""

Test = Callable[[Attributes], bool]
"""A compiled filter expression: attributes in, match or no match out. Pure; never raises."""

NOTHING_REQUIRED: Final[Mapping[str, str]] = MappingProxyType({})


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


class Compiled(NamedTuple):
    """One expression, compiled.

    Attributes:
        test: The closure that decides.
        comparisons_max: How many comparisons one event costs at most: known here, before any
            event is seen.
        required: Attribute values (canonical strings) that *every* matching event carries, for
            indexes. May leave out some; never names one that a matching event may lack.
        covers: An index may go by any one of them; empty: nothing is known of what matches.
        decided: There is one cover, and every event that satisfies it matches: no test is needed.
        reads: Names of the attributes that the test looks at, for memoising; None: any.
    """

    test: Test
    comparisons_max: int
    required: Mapping[str, str]
    covers: tuple[Cover, ...] = ()
    decided: bool = False
    reads: frozenset[str] | None = None


class Checker(Protocol):
    """What a dialect's ``check`` reports to."""

    def fault(self, path: str, code: str, message: str) -> None:
        """Note one fault; the check goes on."""
        ...

    def count(self, path: str) -> bool:
        """Count one node of the resource; False when there are too many: stop checking."""
        ...

    def expression(self, value: object, path: str) -> None:
        """Check a nested filter expression."""
        ...


class Dialect(Protocol):
    """The three functions of a dialect's module.

    ``value`` is what stands beside the dialect's name in the JSON object. ``compiled`` and
    ``matches`` see only values in which ``check`` found no fault.
    """

    def check(self, value: object, checker: Checker, path: str) -> None:
        """Report every fault of *value*, which stands at *path*."""
        ...

    def compiled(self, value: Any, nested: Callable[[Any], Compiled]) -> Compiled:
        """Compile *value*; *nested* compiles the expressions inside it."""
        ...

    def matches(
        self, value: Any, attributes: Attributes, nested: Callable[[Any, Attributes], bool]
    ) -> bool:
        """Decide the plain way, without compiling: the oracle of the compiled form."""
        ...
