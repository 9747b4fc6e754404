"""Clauses of CESQL 1.0, one test each, beside the cases of the test kit."""

import pytest

from distributary import cesql

EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/s",
    "type": "t",
    "word": "true",
    "number": 5,
    "flag": True,
}


def worth(text: str):
    """Value and kind of error of an expression for the event above; the fast path agrees."""
    expression = cesql.parse(text)
    value, error = expression.evaluate(EVENT)
    assert expression.test(EVENT) is (value is True and error is None)
    return value, error and error.kind.value


def passes(text: str) -> bool:
    """Whether the event passes the expression as a filter."""
    return cesql.parse(text).test(EVENT)


@pytest.mark.clause("CESQL 1.2", "MUST", "an event passes where the output is a Boolean, true")
@pytest.mark.parametrize("text", ["5", "'true'", "word", "number", "5 / 0 = 0", "missing = 1"])
def test_only_true_without_an_error_passes(text):
    """A String, an Integer and an error do not, however true they look."""
    assert passes(text) is False
    assert passes("flag") is True


@pytest.mark.clause("CESQL 2", "MUST", "keywords in any case")
def test_keywords_and_functions_are_written_in_any_case():
    """Operators, Booleans, casts."""
    assert passes("nOt FaLsE aNd tRuE xOr fAlSe")
    assert passes("'abc' lIkE 'a%' aNd 1 iN (1) aNd eXiStS id AND int('1') = InT('1')")


@pytest.mark.clause("CESQL 2.2 integer", "MUST", "integer literals are valid 32-bit integers")
def test_integer_literals_have_32_bits():
    """The sign belongs to the literal where there is no left operand."""
    assert worth("-2147483648") == (-2147483648, None)
    assert worth("+2147483647") == (2147483647, None)
    assert worth("0000000000000000000007") == (7, None)
    for text in ("2147483648", "-2147483649", "- 2147483648", "9" * 5_000):
        with pytest.raises(cesql.CesqlSyntaxError, match="32 bits"):
            cesql.parse(text)


@pytest.mark.clause("CESQL 2.2 string", "MUST", "both quotes; the own quote can be escaped")
def test_string_literals():
    """Another backslash stays as it is; a doubled quote is no escape."""
    assert worth("'it\\'s \"so\"'") == ('it\'s "so"', None)
    assert worth('"it\'s \\"so\\""') == ('it\'s "so"', None)
    assert worth("'a\\b\\\\c'") == ("a\\b\\\\c", None)
    assert worth("'\n'") == ("\n", None)
    with pytest.raises(cesql.CesqlSyntaxError):
        cesql.parse("'it''s'")


@pytest.mark.clause("CESQL 3.2", "MUST", "a missing attribute: zero value and an error")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("missing", False),
        ("missing * 5", 0),
        ("1 / missing", 0),
        ("missing / 0", 0),
        ("LENGTH(missing)", 0),
        ("UPPER(missing)", ""),
        ("NOT missing", False),
        ("NOT (missing = 1)", False),
        ("missing != 1", False),
        ("missing NOT IN (1)", False),
        ("missing NOT LIKE 'a'", False),
        ("flag XOR missing", False),
    ],
)
def test_a_missing_attribute_is_an_error_of_every_operation(text, value):
    """The value is the zero value of the outermost operation's type, never of its negation."""
    assert worth(text) == (value, "missingAttribute")


@pytest.mark.clause("CESQL 3.4.2 short circuit", "MUST", "AND and OR stop at what decides")
def test_and_and_or_stop_at_what_decides():
    """What follows is not evaluated, so its errors do not count; XOR has no such point."""
    assert worth("FALSE AND missing") == (False, None)
    assert worth("TRUE OR missing") == (True, None)
    assert worth("missing OR TRUE") == (False, "missingAttribute")
    assert worth("TRUE AND missing") == (False, "missingAttribute")
    assert worth("TRUE XOR missing") == (False, "missingAttribute")


@pytest.mark.clause("CESQL 3.4.2 division", "MUST", "rounded to 0; the remainder like the dividend")
def test_division_truncates():
    """All four combinations of signs; a divisor of 0 is a math error."""
    assert [worth(f"{x} / {y}")[0] for x in (7, -7) for y in (2, -2)] == [3, -3, -3, 3]
    assert [worth(f"{x} % {y}")[0] for x in (7, -7) for y in (2, -2)] == [1, 1, -1, -1]
    assert worth("7 / 0") == worth("7 % 0") == (0, "math")


@pytest.mark.clause("CESQL 3.1 Integer", "MUST", "32 bits; results beyond are math errors")
@pytest.mark.parametrize(
    "text",
    [
        "2147483647 + 1",
        "-2147483648 - 1",
        "65536 * 65536",
        "-2147483648 / -1",
        "-(-2147483648)",
    ],
)
def test_an_overflow_is_a_math_error(text):
    """With the zero value, as the text says nothing else; ABS has a value of its own."""
    assert worth(text) == (0, "math")
    assert worth("ABS(-2147483648)") == (2147483647, "math")
    assert worth("-2147483648 % -1") == (0, None)


@pytest.mark.clause("CESQL 3.4.3", "MUST", "LIKE: %, _, escapes; the rest exactly; after a cast")
def test_like():
    """The text's example; case; line ends; a cast of the operand."""
    assert passes("'ab' LIKE '_b%' AND 'abc' LIKE '_b%' AND 'abcd1' LIKE '_b%'")
    assert not passes("'b' LIKE '_b%' OR 'acd' LIKE '_b%' OR 'aBc' LIKE '_b%'")
    assert passes("'abc%' LIKE 'abc\\%' AND 'abcd' NOT LIKE 'abc\\%'")
    assert passes("'a\nb' LIKE 'a_b' AND '' LIKE '%' AND '' NOT LIKE '_'")
    assert passes("number LIKE '5' AND flag LIKE 'tr%'")


@pytest.mark.clause("CESQL 3.4.3 pattern", "MUST", "the pattern is a string literal")
@pytest.mark.parametrize("pattern", ["5", "TRUE", "id", "CONCAT('a')", "('a')"])
def test_any_other_pattern_is_a_parse_error(pattern):
    """Nothing is cast to a pattern."""
    with pytest.raises(cesql.CesqlSyntaxError, match="expected a string"):
        cesql.parse(f"id LIKE {pattern}")


@pytest.mark.clause("CESQL 3.4.5", "MUST", "IN: equality, cast to the left operand's type")
def test_in_casts_to_the_left():
    """The other way round than the operator =; a match ends it, a failed cast before it too."""
    assert passes("number IN ('05')")
    assert not passes("'05' IN (number)")
    assert worth("number IN (1, 5, 'x')") == (True, None)
    assert worth("number IN (1, 'x', 5)") == (False, "cast")
    assert worth("number NOT IN (1, 'x', 5)") == (False, "cast")
    assert worth("number IN (5, missing)") == (True, None)


@pytest.mark.clause("CESQL 3.6", "MUST", "the order of precedence, left to right within a level")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14),
        ("10 - 4 - 3", 3),
        ("100 / 10 / 5", 2),
        ("7-2", 5),
        ("-2 + 5", 3),
        ("-number + 7", 2),
        # AND, OR and XOR are one level
        ("TRUE OR TRUE AND FALSE", False),
        ("TRUE OR (TRUE AND FALSE)", True),
        ("FALSE AND FALSE OR TRUE", True),
        ("TRUE XOR TRUE OR TRUE", True),
        # unary operators bind more tightly than LIKE, IN and comparisons
        ("NOT FALSE = TRUE", True),
        ("NOT TRUE LIKE 'f%'", True),
        ("NOT TRUE IN (FALSE)", True),
        ("1 + 1 IN (1)", 2),
        ("1 + number LIKE '5'", 2),
        ("3 > 2 = TRUE", True),
    ],
)
def test_precedence(text, value):
    """Each level of 3.6 against its neighbour."""
    assert worth(text) == (value, None)


@pytest.mark.clause("CESQL 3.7", "MUST", "each cast between two of the three types")
def test_casts():
    """Explicit ones; their errors come with the zero value."""
    assert [worth(f"STRING({x})")[0] for x in ("007", "-5", "TRUE")] == ["7", "-5", "true"]
    assert [worth(f"INT({x})")[0] for x in ("'+5'", "'-007'", "TRUE")] == [5, -7, 1]
    assert [worth(f"BOOL({x})")[0] for x in ("'TrUe'", "-1", "0")] == [True, True, False]
    for text in ("''", "' 5'", "'5 '", "'5.0'", "'0x5'", "'1_0'", "'\u0665'", "'2147483648'"):
        assert worth(f"INT({text})") == (0, "cast")
    assert worth("INT('" + "9" * 5_000 + "')") == (0, "cast")
    for text in ("''", "'1'", "'yes'", "' true'", "'truee'"):
        assert worth(f"BOOL({text})") == (False, "cast")


@pytest.mark.clause("CESQL 3.7 implicit", "MUST", "the right operand's type chooses an equality")
def test_equality_casts_to_the_right():
    """The text's examples, and the failing ones."""
    assert passes("TRUE = 'true' AND FALSE = 'false'")
    assert not passes("TRUE = 'TRUE' OR FALSE = 'FALSE'")
    assert passes("'05' = 5 AND 5 != '05' AND 1 = TRUE AND TRUE = 1 AND 'TRUE' = TRUE")
    assert worth("'x' = 5") == worth("'x' != 5") == (False, "cast")
    assert worth("'a' < 'b'") == (False, "cast")
    assert passes("'10' > '9'")


@pytest.mark.clause("CESQL test kit NOT", "MUST", "NOT of an Integer is a cast error")
def test_not_takes_no_integer():
    """A case of the kit, against the table of casts of 3.7; NOT takes the zero value then."""
    assert worth("NOT 10") == worth("NOT 0") == worth("NOT number") == (True, "cast")
    assert worth("NOT 'x'") == (True, "cast")
    assert worth("1 AND TRUE") == (True, None)


@pytest.mark.clause("CESQL 3.5.1 TRIM", "MUST", "Unicode white space, no control characters")
def test_trim_takes_white_space_alone():
    """A no-break space goes, an information separator stays."""
    assert worth("TRIM('\u00a0\u2003\x1c a \u3000')") == ("\x1c a", None)


@pytest.mark.clause("CESQL 3.5.1 SUBSTRING", "MUST", "positions from 1 and from the end")
@pytest.mark.parametrize(
    ("arguments", "value", "error"),
    [
        ("'abcdef', 2, 0", "", None),
        ("'abcdef', -2", "ef", None),
        ("'abcdef', 5, 9", "ef", None),
        ("'abcdef', 0", "", None),
        ("'abcdef', 6", "f", None),
        ("'abcdef', 7", "", "functionEvaluation"),
        ("'abcdef', -7", "", "functionEvaluation"),
        ("'abcdef', 1, -1", "", "functionEvaluation"),
        ("'abcdef', 0, -1", "", "functionEvaluation"),
        ("'', 1", "", "functionEvaluation"),
    ],
)
def test_substring(arguments, value, error):
    """Inside, at both ends and beyond them."""
    assert worth(f"SUBSTRING({arguments})") == (value, error)


@pytest.mark.clause("CESQL 3.5", "MUST", "a call that reaches no function: false, and an error")
def test_a_missing_function_is_an_error_of_the_evaluation():
    """By its name or its number of arguments; arguments are not evaluated."""
    assert worth("NONE(missing)") == worth("LENGTH()") == (False, "missingFunction")
    assert worth("TRUE OR NONE()") == (True, None)
    (missing,) = cesql.parse("TRUE OR NONE()").missing_functions()
    assert (missing.line, missing.column) == (1, 9)
