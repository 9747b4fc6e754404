"""From text to expression: what is refused, where, and in which words."""

import doctest
import os
import subprocess
import sys

import pytest

from distributary import cesql

REFUSED = {
    "": (0, 1, 1, "found the end"),
    "  ": (2, 1, 3, "found the end"),
    "type =": (6, 1, 7, "found the end"),
    "type = 'x": (7, 1, 8, "no closing '"),
    "type = \"x'": (7, 1, 8, 'no closing "'),
    "type == 'x'": (6, 1, 7, 'found "="'),
    "type = 'x' subject": (11, 1, 12, 'found "subject"'),
    "(type = 'x'": (11, 1, 12, "expected ')'"),
    "type = 'x')": (10, 1, 11, 'found ")"'),
    "type\n  = 'x'\n  AND AND": (19, 3, 7, 'found "AND"'),
    "type = 'ä\n' ; x": (12, 2, 3, 'found ";"'),
    "my_type = 'x'": (0, 1, 1, 'found "my_type"'),
    "my-type.x = 'x'": (7, 1, 8, 'found "."'),
    "in = 'x'": (0, 1, 1, 'found "in"'),
    "AND(1)": (0, 1, 1, 'found "AND"'),
    "EXISTS (type)": (7, 1, 8, "expected an attribute name"),
    "EXISTS 'type'": (7, 1, 8, "expected an attribute name"),
    "type IN ()": (9, 1, 10, 'found ")"'),
    "type IN 'x'": (8, 1, 9, "expected '('"),
    "type NOT 'x'": (9, 1, 10, "expected LIKE or IN"),
    "LENGTH('x',)": (11, 1, 12, 'found ")"'),
    "LENGTH2('x')": (7, 1, 8, 'found "("'),
    "1.5": (1, 1, 2, 'found "."'),
    "ABC(": (4, 1, 5, "or ')', found the end"),
    "type = '\ud800'": (8, 1, 9, "surrogate"),
}


@pytest.mark.parametrize(("text", "place"), REFUSED.items(), ids=[repr(text) for text in REFUSED])
def test_a_text_that_is_no_expression_is_refused_with_its_place(text, place):
    """Offset, line, column and words; the message of the error holds line and column too."""
    offset, line, column, words = place
    with pytest.raises(cesql.CesqlSyntaxError) as caught:
        cesql.parse(text)
    error = caught.value
    assert (error.offset, error.line, error.column) == (offset, line, column)
    assert words in error.message
    assert str(error) == f"line {line}, column {column}: {error.message}"
    assert error.kind is cesql.ErrorKind.PARSE


@pytest.mark.parametrize(
    "text",
    [
        "(" * 51 + "1" + ")" * 51,
        "-" * 51 + "number",
        "NOT " * 51 + "flag",
        "number" + " + 1" * 51,
        "ABS(" * 51 + "1" + ")" * 51,
        "1 = (" * 30 + "1" + ")" * 30,
        "a IN (" * 51 + "1" + ")" * 51,
    ],
    ids=["parentheses", "minus", "not", "sum", "calls", "mixed", "in"],
)
def test_what_nests_too_deep_is_refused_with_its_place(text):
    """At the operation that is one too many, seen from within."""
    with pytest.raises(cesql.CesqlSyntaxError, match="nest at most 50 deep"):
        cesql.parse(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["(" * 65_536, "((1)" * 16_000, "-" * 65_536, "1+" * 32_768, "NOT " * 16_000, "'" * 65_536],
    ids=["open", "closed", "minus", "sum", "not", "quotes"],
)
def test_no_text_within_the_length_overflows_a_stack(text):
    """The one known error, never a RecursionError."""
    with pytest.raises(cesql.CesqlSyntaxError):
        cesql.parse(text)


def test_and_after_and_is_no_level_deeper():
    """A flat list of conditions may be long; so may one of alternatives."""
    for operator in ("AND", "OR"):
        text = f" {operator} ".join(f"a{number} = 'x'" for number in range(400))
        assert cesql.parse(text).steps == 799


def test_a_text_has_a_greatest_length():
    """At the limit it is parsed, one character beyond it is not."""
    text = "flag".ljust(cesql.EXPRESSION_CHARS_MAX)
    assert cesql.parse(text).test({"flag": True})
    with pytest.raises(cesql.CesqlSyntaxError, match="65536 characters"):
        cesql.parse(text + " ")


@pytest.mark.parametrize(
    "text",
    [
        " AND ".join(["a = 'x'"] * 501),
        "CONCAT(" + ", ".join(["a"] * 1_000) + ") = ''",
        "a IN (" + ", ".join(["b"] * 1_001) + ")",
        "a LIKE '" + "%x" * 1_001 + "%'",
        "a LIKE '%" + "".join(f"{chr(0x4E00 + n)}_" for n in range(300)) + "%'",
        " OR ".join(["UPPER(a) = 'A'"] * 150),
    ],
    ids=["and", "arguments", "in", "like", "like with _", "texts"],
)
def test_an_expression_that_costs_too_much_is_refused(text):
    """Whatever makes an evaluation long counts; the limit is known before any event."""
    with pytest.raises(cesql.CesqlSyntaxError, match="costs at most 1000 comparisons"):
        cesql.parse(text)


@pytest.mark.slow
def test_an_in_of_thousands_of_literals_costs_one_comparison():
    """It is a set by then, bounded by the length of the text alone."""
    literals = ", ".join(f"'com.example.{number}'" for number in range(3_000))
    expression = cesql.parse(f"type IN ({literals})")
    assert expression.steps == 1
    assert expression.test({"type": "com.example.2999"})
    assert not expression.test({"type": "com.example.3000"})


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("type", cesql.Type.ANY),
        ("'x'", cesql.Type.STRING),
        ("1 + 1", cesql.Type.INTEGER),
        ("-TRUE", cesql.Type.INTEGER),
        ("type = 'x'", cesql.Type.BOOLEAN),
        ("NOT type", cesql.Type.BOOLEAN),
        ("UPPER(type)", cesql.Type.STRING),
        ("NONE(type)", cesql.Type.ANY),
    ],
)
def test_the_type_of_an_expression_is_known_early(text, type_):
    """Any: the event decides."""
    assert cesql.parse(text).type is type_


def test_names_of_attributes_are_lower_case_whatever_is_written():
    """The kit asks for SOURCE as well; attributes are in lower case always."""
    expression = cesql.parse("SOURCE = 'x' AND EXISTS Subject AND UPPER(Type) = 'T' AND 1a1 = 'y'")
    assert expression.reads == {"source", "subject", "type", "1a1"}
    assert expression.test({"source": "x", "subject": "s", "type": "t", "1a1": "y"})


def test_the_examples_of_the_package_run():
    """Those of its docstring."""
    done = doctest.testmod(cesql)
    assert (done.failed, done.attempted >= 5) == (0, True)


@pytest.mark.slow
def test_the_parser_library_is_not_imported_before_the_first_expression():
    """A server without CESQL filters does not pay for it."""
    program = (
        "import sys; from distributary.core import filter as f; before = 'lark' in sys.modules;"
        "f.check([{'sql': 'flag'}]); print(before, 'lark' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert run.stdout.split() == ["False", "True"]


def test_deciding_names_the_operand_that_ended_the_expression():
    """At any depth of AND and OR; the whole where no single one did."""
    expression = cesql.parse("a = 1 AND (b = 2 OR (c = 3 AND d = 4)) AND NOT e")
    for attributes, part in [
        ({"a": 0}, "a = 1"),
        ({}, "a = 1"),
        ({"a": 1}, "b = 2"),
        ({"a": 1, "b": 0, "c": 3, "d": 5}, "(b = 2 OR (c = 3 AND d = 4))"),
        ({"a": 1, "b": 0, "c": 3}, "d = 4"),
        ({"a": 1, "b": 2}, "NOT e"),
        ({"a": 1, "b": 2, "e": False}, expression.text),
    ]:
        assert expression.deciding(attributes) == part
    assert cesql.parse("a = 1 OR (b = 2 AND c = 3)").deciding({"a": 1}) == "a = 1"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0" * 65_536, 0),
        ("-" + "0" * 5_000 + "2147483648", -(2**31)),
        ("+" + "0" * 5_000 + "7", 7),
        ("7 IN (" + "0" * 5_000 + "7)", True),
    ],
    ids=["zeros", "the least", "plus", "in a list"],
)
def test_an_integer_may_begin_with_any_number_of_zeros(text, value):
    """Python refuses to read so many digits; they are dropped before."""
    assert cesql.parse(text).evaluate({}) == (value, None)


@pytest.mark.parametrize(
    "text", ["\u212a = 1", "\u017fubject = 'x'", "EX\u0131STS a", "a L\u0130KE 'a'"]
)
def test_letters_beyond_ascii_are_no_letters_of_names_and_keywords(text):
    """Some are the other case of an ASCII letter to regular expressions."""
    with pytest.raises(cesql.CesqlSyntaxError):
        cesql.parse(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(["a"] * 13_000),
        "a IN (" + ",".join(["1"] * 32_000) + ")",
        "a IN (" + ",".join(["b"] * 32_000) + ")",
        "CONCAT(" + ",".join(["1"] * 32_000) + ")",
        "a LIKE '" + "%a" * 32_000 + "'",
        "(" * 65_536,
    ],
    ids=["or", "literals", "attributes", "arguments", "pattern", "parentheses"],
)
def test_a_text_with_too_many_tokens_is_left_early(text):
    """Before the parser has spent its time on the rest."""
    with pytest.raises(cesql.CesqlSyntaxError, match="at most 4096 words and signs"):
        cesql.parse(text)


def test_a_list_of_literals_is_read_as_any_other_list():
    """Each literal has its value and its place; an attribute among them makes no difference."""
    listed = "a IN ( 1 ,-2,+3,'x\\'y', \"z\",true\n,FALSE%s)"
    for event in ({"a": 1}, {"a": "-2"}, {"a": "x'y"}, {"a": "z"}, {"a": "true"}, {"a": "q"}, {}):
        plain, other = cesql.parse(listed % ""), cesql.parse(listed % ", b")
        assert plain.evaluate({**event, "b": "false"}) == other.evaluate({**event, "b": "false"})
    with pytest.raises(cesql.CesqlSyntaxError, match="32 bits") as caught:
        cesql.parse("a\nIN (1, 2147483648)")
    assert (caught.value.line, caught.value.column) == (2, 8)


def test_an_attribute_too_long_for_many_searches_is_an_error():
    """The cost is bounded for every event; where there are few searches, any length will do."""
    few = cesql.parse(" OR ".join(["a LIKE '%x%'"] * 15))
    many = cesql.parse(" OR ".join(["a LIKE '%x%'"] * 100))
    long, short = {"a": "y" * 65_535 + "x"}, {"a": "y" * 9_000 + "x"}
    assert (few.test(long), many.test(short), many.test(long)) == (True, True, False)
    value, error = many.evaluate(long)
    assert (value, error.kind) == (False, cesql.ErrorKind.GENERIC)
    assert "a is longer than 9984 characters" in error.message
    assert many.deciding(long) == many.text
    parts = cesql.parse(" AND ".join(["a LIKE '%x%'"] * 100))
    assert (parts.test(short), parts.test(long), parts.conjuncts()) == (True, False, ())
    assert many.test({"a": "x", "b": long["a"]})


@pytest.mark.parametrize(
    "operation",
    ["UPPER(a) = 'x'", "CONCAT_WS(a, a, a) LIKE '%x%'", "INT(a) = 1", "a < b", "a = b", "-a = 1"],
)
def test_whatever_reads_a_text_to_its_end_counts_as_a_search(operation):
    """But not what compares with a literal."""
    long = {"a": "0" * 65_536, "b": "1"}
    searching = cesql.parse(" OR ".join([f"({operation})", *(["a LIKE '%x%'"] * 15)]))
    assert searching.evaluate(long).error.kind is cesql.ErrorKind.GENERIC
    texts = cesql.parse(
        " OR ".join([*(["a = 'x'", "a LIKE 'x%'", "a IN ('x')"] * 100), "EXISTS b"])
    )
    assert texts.test(long)


def test_an_expression_that_is_too_slow_for_its_own_literals_is_refused():
    """No event could ever pass."""
    with pytest.raises(cesql.CesqlSyntaxError, match="at most 1000000 characters"):
        cesql.parse(f"LENGTH({'UPPER(' * 30}'{'a' * 60_000}'{')' * 30}) = 1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("type = 'a' $", "expected an operator, LIKE, IN or the end"),
        ("(type = 'a' $", "expected ')', an operator, LIKE or IN"),
        ("F(type $", "expected ')', ',', an operator, LIKE or IN"),
    ],
)
def test_what_is_expected_is_what_could_stand_there(text, expected):
    """No parenthesis where none is open; a sign that begins nothing included."""
    with pytest.raises(cesql.CesqlSyntaxError) as caught:
        cesql.parse(text)
    assert caught.value.message == f'{expected}, found "$"'
