"""Function definitions, and the immutable set of those that an expression may call.

Source:
    CESQL 1.0, 3.5: overloading by number of arguments, at most one variadic definition of a
    name, and user-defined functions, whose exceptions become errors of the evaluation.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from distributary.cesql._errors import ErrorKind
from distributary.cesql._types import INTEGER_MAX, INTEGER_MIN, ZERO, Type, Value

RESULT_CHARS_MAX: Final = 65_536
"""The longest text a function may return: as long as an event's attribute can be. Without a limit
nested CONCATs would double a text at each level."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z_]*")


class CallFailure(NamedTuple):
    """The result of a failed function call.

    Attributes:
        kind: Kind of error; ``FUNCTION_EVALUATION`` for most.
        value: Value of the call nevertheless (3.5.3).
        message: A sentence for people.
    """

    kind: ErrorKind
    value: Value
    message: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function that expressions can call.

    Attributes:
        name: Letters and underscores, a letter first; called in any case.
        parameters: Types of the fixed parameters; arguments are cast to them.
        returns: Type of the result, not ``ANY``.
        call: Called with the cast arguments; returns a value of the type, or a ``CallFailure``.
            Pure.
        variadic: Type of any number of arguments after the fixed ones; None: there are none.
    """

    name: str
    parameters: tuple[Type, ...]
    returns: Type
    call: Callable[..., Value | CallFailure]
    variadic: Type | None = None

    def types(self, count: int) -> Sequence[Type]:
        """Returns the types to which *count* arguments are cast."""
        if self.variadic is None:
            return self.parameters
        return self.parameters + (self.variadic,) * (count - len(self.parameters))

    def answer(self, arguments: Sequence[Value]) -> Value | CallFailure:
        """Call the function. Never raises: its exceptions become a ``CallFailure``."""
        try:
            value = self.call(*arguments)
        except Exception as error:  # noqa: BLE001 - a user's code may raise anything (3.5.3)
            return self._failure(f"{self.name} failed: {type(error).__name__}")
        if isinstance(value, CallFailure):
            return value if self._fits(value.value) else self._failure(value.message)
        if not self._fits(value):
            return self._failure(f"{self.name} gave no {self.returns} within the limits")
        return value

    def _fits(self, value: object) -> bool:
        if isinstance(value, str):
            return self.returns is Type.STRING and len(value) <= RESULT_CHARS_MAX
        if isinstance(value, bool):
            return self.returns is Type.BOOLEAN
        if isinstance(value, int):
            return self.returns is Type.INTEGER and INTEGER_MIN <= value <= INTEGER_MAX
        return False

    def _failure(self, message: str) -> CallFailure:
        return CallFailure(ErrorKind.FUNCTION_EVALUATION, ZERO[self.returns], message)


class Functions:
    """An immutable set of functions, by name and number of arguments.

    Args:
        functions: The definitions.

    Raises:
        ValueError: A name or type is not allowed, or two definitions are ambiguous: the same name
            and number of arguments, a second variadic one, or a variadic one without more fixed
            parameters than every other of its name (3.5).
    """

    __slots__ = ("_fixed", "_variadic")

    def __init__(self, functions: Iterable[Function] = ()) -> None:
        self._fixed: dict[tuple[str, int], Function] = {}
        self._variadic: dict[str, Function] = {}
        for function in functions:
            self._add(function)
        for name, function in self._variadic.items():
            arities = [arity for other, arity in self._fixed if other == name]
            if arities and len(function.parameters) <= max(arities):
                raise ValueError(f"{name}: the variadic definition hides one with fixed parameters")

    def __iter__(self) -> Iterator[Function]:
        """Iterate over the definitions."""
        yield from self._fixed.values()
        yield from self._variadic.values()

    def having(self, *functions: Function) -> "Functions":
        """Returns a new set with *functions* added.

        Raises:
            ValueError: As above.
        """
        return Functions([*self, *functions])

    def find(self, name: str, count: int) -> Function | None:
        """Returns the function of a call of *name* (in any case) with *count* arguments."""
        key = name.upper()
        fixed = self._fixed.get((key, count))
        if fixed is not None:
            return fixed
        variadic = self._variadic.get(key)
        if variadic is not None and count >= len(variadic.parameters):
            return variadic
        return None

    def _add(self, function: Function) -> None:
        if not _NAME.fullmatch(function.name):
            raise ValueError(f"{function.name!r} is no function name: letters and _ only")
        if function.returns is Type.ANY:
            raise ValueError(f"{function.name}: a result has one of the three types")
        key = function.name.upper()
        if function.variadic is not None:
            if key in self._variadic:
                raise ValueError(f"{function.name}: there is a variadic definition already")
            self._variadic[key] = function
            return
        arity = len(function.parameters)
        if (key, arity) in self._fixed:
            raise ValueError(f"{function.name}: defined twice for {arity} arguments")
        self._fixed[key, arity] = function


def describe(function: Function) -> str:
    """Formats the signature, such as ``LEFT(String, Integer) -> String``."""
    types = [str(parameter) for parameter in function.parameters]
    if function.variadic is not None:
        types.append(f"{function.variadic}...")
    return f"{function.name}({', '.join(types)}) -> {function.returns}"
