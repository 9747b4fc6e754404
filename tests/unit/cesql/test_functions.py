"""Functions: built-in ones beyond the kit's cases, and one's own."""

import pytest

from distributary import cesql
from distributary.cesql import BUILT_IN, CallFailure, ErrorKind, Function, Functions, Type

S, N, B, ANY = Type.STRING, Type.INTEGER, Type.BOOLEAN, Type.ANY
LONG = "x" * cesql.RESULT_CHARS_MAX


def function(name="F", parameters=(), variadic=None, call=lambda *_arguments: 1, returns=N):
    """A function of which one thing matters."""
    return Function(name, tuple(parameters), returns, call, variadic)


def worth(text, functions=BUILT_IN, **attributes):
    """Value and kind of error."""
    value, error = cesql.parse(text, functions).evaluate(attributes)
    return value, error and error.kind


def test_functions_are_told_apart_by_their_number_of_arguments():
    """The text's example of what is allowed."""
    functions = Functions(
        [
            function("ABC", [S], call=lambda _x: 1),
            function("ABC", [S, S], call=lambda _x, _y: 2),
            function("ABC", [S, S, S], variadic=S, call=lambda *all_: len(all_)),
        ]
    )
    assert [worth(f"abc({', '.join(['a'] * n)})", functions, a="x")[0] for n in (1, 2, 3, 9)] == [
        1,
        2,
        3,
        9,
    ]
    assert worth("ABC()", functions) == (False, ErrorKind.MISSING_FUNCTION)


@pytest.mark.parametrize(
    "definitions",
    [
        [function("F", [S]), function("f", [N])],
        [function("F", variadic=S), function("F", [S, S, S])],
        [function("F", [S, S, S], variadic=S), function("F", [S, S, S])],
        [function("F", variadic=S), function("F", [S], variadic=S)],
        [function("F2")],
        [function("")],
        [function("_F")],
        [function("F", returns=ANY)],
    ],
    ids=["twice", "hidden", "hidden by as many", "two variadic", "digit", "empty", "_", "any"],
)
def test_definitions_that_cannot_be_told_apart_are_refused(definitions):
    """The text's example of what is not allowed, and names no call could be written with."""
    with pytest.raises(ValueError):
        Functions(definitions)


def test_adding_functions_makes_a_new_set():
    """There is no registry of the whole process."""
    more = BUILT_IN.having(function("ONE"))
    assert worth("ONE()", more) == (1, None)
    assert worth("ONE()") == (False, ErrorKind.MISSING_FUNCTION)
    assert worth("LENGTH('ab')", more) == (2, None)
    with pytest.raises(ValueError):
        more.having(function("one"))


def test_arguments_are_cast_and_any_is_not():
    """Integers, Booleans and Strings reach it as its signature says."""
    seen = []
    functions = Functions(
        [function("F", [S, N, B, ANY], call=lambda *arguments: seen.append(arguments) or 1)]
    )
    assert worth("F(5, '7', 'TRUE', 8) = 1", functions) == (True, None)
    assert seen == [("5", 7, True, 8)]
    assert worth("F('', 'x', TRUE, 8)", functions) == (0, ErrorKind.CAST)


def raises(*_arguments):
    """What a user's function may do."""
    raise RuntimeError("secret")


@pytest.mark.parametrize(
    "call",
    [
        raises,
        lambda: None,
        lambda: 1.5,
        lambda: "1",
        lambda: True,
        lambda: 2**31,
        lambda _x: 1,
        lambda: CallFailure(ErrorKind.FUNCTION_EVALUATION, "no integer", "said so"),
    ],
    ids=["raises", "None", "float", "String", "Boolean", "33 bits", "arity", "failure of a type"],
)
def test_whatever_a_function_does_wrong_is_an_error_value(call):
    """The zero value of its type, a function evaluation error, and nothing of its own text."""
    expression = cesql.parse("F()", Functions([function(call=call)]))
    value, error = expression.evaluate({})
    assert (value, error.kind) == (0, ErrorKind.FUNCTION_EVALUATION)
    assert "secret" not in error.message
    assert expression.test({}) is False


def test_a_failure_carries_its_own_value_and_kind():
    """As ABS and LEFT do; in an operation the zero value of that operation follows."""
    call = function(call=lambda: CallFailure(ErrorKind.GENERIC, 9, "said so"))
    assert worth("F()", Functions([call])) == (9, ErrorKind.GENERIC)
    assert worth("F() + 1", Functions([call])) == (0, ErrorKind.GENERIC)
    assert worth("F() = 9", Functions([call])) == (False, ErrorKind.GENERIC)


@pytest.mark.parametrize(
    "text",
    ["CONCAT(a, 'x')", "CONCAT_WS('x', a, '')", "CONCAT(CONCAT(a, a), CONCAT(a, a))"],
)
def test_a_text_never_grows_beyond_the_limit(text):
    """It ends in an error value: a tree of CONCAT would double the text at each level."""
    assert worth(text, a=LONG) == ("", ErrorKind.FUNCTION_EVALUATION)
    assert worth("LENGTH(CONCAT(a, ''))", a=LONG) == (len(LONG), None)


def test_a_text_that_grows_with_its_case_is_bounded_too():
    """One letter becomes three."""
    assert worth("UPPER(a)", a="\u0390" * len(LONG)) == ("", ErrorKind.FUNCTION_EVALUATION)


def test_is_int_and_is_bool_tell_what_can_be_cast():
    """From the drafts before 1.0; a missing attribute is an error here as everywhere."""
    assert worth("IS_INT('5') AND IS_INT(TRUE) AND IS_BOOL('FALSE') AND IS_BOOL(2)") == (True, None)
    assert worth("IS_INT('x') OR IS_BOOL('x')") == (False, None)
    assert worth("IS_INT(missing)") == (False, ErrorKind.MISSING_ATTRIBUTE)


def test_a_function_describes_itself():
    """For documents and messages."""
    assert [cesql.describe(one) for one in BUILT_IN if one.name in {"LEFT", "CONCAT_WS"}] == [
        "LEFT(String, Integer) -> String",
        "CONCAT_WS(String, String...) -> String",
    ]
