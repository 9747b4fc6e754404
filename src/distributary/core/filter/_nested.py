"""The dialects ``all`` and ``any``: every nested expression is true, or at least one is.

Source:
    Subscriptions API, 3.2.4.1.1. An earlier revision prescribed the order of evaluation; the
    result is the same in any order (decision 8, order of ``all`` and ``any``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from distributary.core.filter._cover import either, every, joined_reads
from distributary.core.filter._dialect import Attributes, Checker, Compiled
from distributary.core.filter._explanation import Explanation, Place
from distributary.core.filter._join import all_of, any_of


@dataclass(frozen=True, slots=True)
class _Nested:
    """``all`` or ``any``; see ``Dialect``.

    Attributes:
        decides: The verdict of a part that decides the whole, whatever the other parts give.
    """

    decides: bool

    def check(self, value: object, checker: Checker, path: str) -> None:
        """Report every fault of an array of filter expressions, and of each expression in it."""
        if not isinstance(value, list | tuple):
            checker.fault(path, "type", "expected an array of filter expressions")
            return
        if not value:
            checker.fault(path, "empty", "expected at least one filter expression")
        for index, expression in enumerate(value):
            at = f"{path}[{index}]"
            if not checker.count(at):
                return
            checker.expression(expression, at)

    def compiled(self, value: Sequence[Any], nested: Callable[[Any], Compiled]) -> Compiled:
        """Compile: ``all`` has the covers of each part; ``any`` one cover joined from all parts."""
        parts = [nested(expression) for expression in value]
        if len(parts) == 1:
            return parts[0]
        tests = [part.test for part in parts]
        comparisons_max = sum(part.comparisons_max for part in parts)
        reads = joined_reads(parts)
        if self.decides:
            return Compiled(
                any_of(tests),
                comparisons_max,
                either(parts),
                decided=all(part.decided for part in parts),
                reads=reads,
                disjuncts=tuple(one for part in parts for one in part.disjuncts or (part.whole,)),
            )
        return Compiled(
            all_of(tests),
            comparisons_max,
            every(parts),
            reads=reads,
            conjuncts=tuple(one for part in parts for one in part.conjuncts or (part.whole,)),
        )

    def matches(
        self,
        value: Sequence[Mapping[str, Any]],
        attributes: Attributes,
        nested: Callable[[Any, Attributes], bool],
    ) -> bool:
        """Decide without compiling."""
        verdicts = (nested(expression, attributes) for expression in value)
        return any(verdicts) if self.decides else all(verdicts)

    def explain(
        self,
        value: Sequence[Mapping[str, Any]],
        attributes: Attributes,
        place: Place,
        nested: Callable[[Any, Attributes, str], Explanation],
    ) -> Explanation:
        """Name the first deciding expression; if none decides alone, all of them."""
        parts = tuple(
            nested(expression, attributes, f"{place.path}[{index}]")
            for index, expression in enumerate(value)
        )
        deciding = tuple(part for part in parts if part.verdict is self.decides)[:1]
        verdict = self.decides if deciding else not self.decides
        which = "a part" if deciding else "no part" if self.decides else "every part"
        reason = f"{which} is {str(self.decides or not deciding).lower()}"
        return Explanation(place.dialect, place.path, verdict, reason, parts, deciding or parts)


ALL: Final = _Nested(decides=False)
ANY: Final = _Nested(decides=True)
