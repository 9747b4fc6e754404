"""What each dialect says, compiled and walked plainly."""

import pytest

from distributary.core import filter as filters

EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/repo/issues",
    "type": "com.github.push",
    "subject": "Ä1",
    "count": 5,
    "minus": -7,
    "flag": True,
    "off": False,
    "text": "5",
    "yes": "true",
}

CASES = [
    # exact
    ({"exact": {"type": "com.github.push"}}, True),
    ({"exact": {"type": "com.github.pull"}}, False),
    ({"exact": {"type": "com.github"}}, False),
    ({"exact": {"type": "Com.github.push"}}, False),
    ({"exact": {"subject": "Ä1"}}, True),
    ({"exact": {"subject": "A\u03081"}}, False),
    ({"exact": {"missing": "x"}}, False),
    ({"exact": {"type": "com.github.push", "id": "1"}}, True),
    ({"exact": {"type": "com.github.push", "id": "2"}}, False),
    ({"exact": {"type": "com.github.push", "id": "1", "source": "/repo/issues"}}, True),
    ({"exact": {"type": "com.github.push", "id": "1", "missing": "x"}}, False),
    # values that are no strings compare by their canonical string (decision 6)
    ({"exact": {"count": "5"}}, True),
    ({"exact": {"count": "05"}}, False),
    ({"exact": {"count": "5.0"}}, False),
    ({"exact": {"text": "5"}}, True),
    ({"exact": {"minus": "-7"}}, True),
    ({"exact": {"flag": "true"}}, True),
    ({"exact": {"flag": "True"}}, False),
    ({"exact": {"flag": "1"}}, False),
    ({"exact": {"yes": "true"}}, True),
    ({"exact": {"off": "false"}}, True),
    ({"exact": {"off": "0"}}, False),
    ({"exact": {"missing": "5"}}, False),
    # prefix
    ({"prefix": {"type": "com.github."}}, True),
    ({"prefix": {"type": "com.github.push"}}, True),
    ({"prefix": {"type": "com.github.push."}}, False),
    ({"prefix": {"type": "COM."}}, False),
    ({"prefix": {"count": "5"}}, True),
    ({"prefix": {"minus": "-"}}, True),
    ({"prefix": {"flag": "tr"}}, True),
    ({"prefix": {"flag": "Tr"}}, False),
    ({"prefix": {"missing": "N"}}, False),
    ({"prefix": {"type": "com", "source": "/repo"}}, True),
    ({"prefix": {"type": "com", "source": "repo"}}, False),
    # suffix
    ({"suffix": {"type": ".push"}}, True),
    ({"suffix": {"type": ".pull"}}, False),
    ({"suffix": {"type": ".PUSH"}}, False),
    ({"suffix": {"minus": "7"}}, True),
    ({"suffix": {"off": "se"}}, True),
    ({"suffix": {"missing": "e"}}, False),
    ({"suffix": {"type": "push", "source": "issues", "id": "1"}}, True),
    ({"suffix": {"type": "push", "source": "issues", "id": "2"}}, False),
    # all, any, not
    ({"all": [{"exact": {"id": "1"}}]}, True),
    ({"all": [{"exact": {"id": "1"}}, {"exact": {"id": "2"}}]}, False),
    ({"all": [{"exact": {"id": "1"}}, {"prefix": {"id": "1"}}, {"suffix": {"id": "1"}}]}, True),
    ({"all": [{"exact": {"id": "1"}}, {"prefix": {"id": "1"}}, {"suffix": {"id": "2"}}]}, False),
    ({"any": [{"exact": {"id": "2"}}]}, False),
    ({"any": [{"exact": {"id": "2"}}, {"exact": {"id": "1"}}]}, True),
    ({"any": [{"exact": {"id": "2"}}, {"exact": {"id": "3"}}, {"exact": {"id": "1"}}]}, True),
    ({"any": [{"exact": {"id": "2"}}, {"exact": {"id": "3"}}, {"exact": {"id": "4"}}]}, False),
    ({"not": {"exact": {"id": "1"}}}, False),
    ({"not": {"exact": {"id": "2"}}}, True),
    ({"not": {"not": {"exact": {"id": "1"}}}}, True),
    # not of a missing attribute is true (decision 5)
    ({"not": {"exact": {"missing": "x"}}}, True),
    ({"not": {"prefix": {"missing": "x"}}}, True),
    ({"not": {"suffix": {"missing": "x"}}}, True),
    ({"not": {"all": [{"exact": {"id": "1"}}, {"exact": {"missing": "x"}}]}}, True),
    ({"all": [{"any": [{"not": {"exact": {"id": "2"}}}]}, {"prefix": {"type": "com"}}]}, True),
]


@pytest.mark.parametrize(("expression", "passes"), CASES, ids=str)
def test_an_expression_says_what_the_specification_says(expression, passes):
    """Subscriptions API 3.2.4.1.1 with decisions 5 and 6, case by case."""
    assert filters.check([expression]) == []
    assert filters.compile([expression]).matches(EVENT) is passes
    assert filters.naive_matches([expression], EVENT) is passes


@pytest.mark.parametrize(("expression", "passes"), CASES, ids=str)
def test_not_is_the_opposite_of_every_expression(expression, passes):
    """Three-valued logic has no place here."""
    assert filters.compile([{"not": expression}]).matches(EVENT) is not passes
    assert filters.naive_matches([{"not": expression}], EVENT) is not passes


def test_an_empty_array_passes_everything():
    """Absence of a filter or an empty array implies true."""
    assert filters.compile([]).matches(EVENT) is True
    assert filters.compile(()).matches({}) is True
    assert filters.naive_matches([], EVENT) is True


def test_every_filter_of_the_array_must_hold():
    """One false expression keeps the event from the sink."""
    right, wrong = {"exact": {"id": "1"}}, {"exact": {"id": "2"}}
    for array, passes in [([right, right], True), ([right, wrong], False), ([wrong], False)]:
        assert filters.compile(array).matches(EVENT) is passes
        assert filters.naive_matches(array, EVENT) is passes


def test_the_dialects_are_the_six_required_ones_and_sql():
    """Discovery and messages list them by these names."""
    assert filters.DIALECTS == ("exact", "prefix", "suffix", "all", "any", "not", "sql")
