import pytest

from distributary.core import filter as filters
from distributary.core.filter import Explanation

EVENT = {"type": "com.example.a", "source": "/s", "subject": "eu/1", "count": 7}


def _explain(*expressions: dict) -> Explanation:
    assert filters.check(expressions) == []
    return filters.explain(expressions, EVENT)


def _only(expression: dict) -> Explanation:
    (part,) = _explain(expression).parts
    return part


@pytest.mark.parametrize(
    ("expression", "verdict", "path", "reason"),
    [
        (
            {"exact": {"type": "com.example.a"}},
            True,
            "$.filters[0].exact.type",
            'type is "com.example.a"',
        ),
        (
            {"exact": {"source": "/s", "type": "b"}},
            False,
            "$.filters[0].exact.type",
            'type is "com.example.a": it is not "b"',
        ),
        (
            {"exact": {"source": "/s", "count": "7"}},
            True,
            "$.filters[0].exact",
            'source is "/s" and count is "7"',
        ),
        ({"exact": {"missing": "x"}}, False, "$.filters[0].exact.missing", "missing is missing"),
        (
            {"prefix": {"subject": "us/"}},
            False,
            "$.filters[0].prefix.subject",
            'subject is "eu/1": it does not begin with "us/"',
        ),
        (
            {"prefix": {"subject": "eu/"}},
            True,
            "$.filters[0].prefix.subject",
            'subject begins with "eu/"',
        ),
        (
            {"suffix": {"count": "8"}},
            False,
            "$.filters[0].suffix.count",
            'count is "7": it does not end with "8"',
        ),
        ({"suffix": {"count": "7"}}, True, "$.filters[0].suffix.count", 'count ends with "7"'),
    ],
    ids=str,
)
def test_a_comparison_names_the_attribute_that_decided(
    expression: dict, verdict: bool, path: str, reason: str
) -> None:
    """The first attribute that is missing or differs; all of them where the comparison holds."""
    found = _only(expression)
    assert (found.verdict, found.path, found.reason) == (verdict, path, reason)
    assert found.dialect in expression


def test_the_first_false_part_decides_about_all() -> None:
    """Parts behind it are explained too, and decide nothing."""
    parts = [{"exact": {"source": "/s"}}, {"exact": {"type": "x"}}, {"exact": {"type": "y"}}]
    found = _only({"all": parts})
    assert [part.verdict for part in found.parts] == [True, False, False]
    assert found.decided_by == (found.parts[1],)
    assert found.parts[1].path == "$.filters[0].all[1].exact.type"
    held = _only({"all": parts[:1] * 2})
    assert held.verdict is True
    assert held.decided_by == held.parts


def test_the_first_true_part_decides_about_any() -> None:
    """Where none is true, all of them decide."""
    parts = [{"exact": {"type": "x"}}, {"prefix": {"source": "/"}}, {"suffix": {"source": "s"}}]
    found = _only({"any": parts})
    assert [part.verdict for part in found.parts] == [False, True, True]
    assert found.decided_by == (found.parts[1],)
    missed = _only({"any": parts[:1] * 2})
    assert missed.verdict is False
    assert missed.decided_by == missed.parts


def test_the_part_of_not_decides() -> None:
    """Not of a comparison with a missing attribute is true (decision 5)."""
    found = _only({"not": {"exact": {"missing": "x"}}})
    assert found.verdict is True
    assert found.reason == "its part is false"
    assert [part.path for part in found.deciding()] == ["$.filters[0].not.exact.missing"]


def test_deciding_parts_are_the_innermost() -> None:
    """Through every level, in the order of the filter; what decided nothing is left out."""
    found = _explain(
        {"exact": {"source": "/s"}},
        {"any": [{"exact": {"type": "x"}}, {"not": {"all": [{"prefix": {"subject": "eu"}}]}}]},
    )
    assert found.verdict is False
    assert [part.path for part in found.deciding()] == [
        "$.filters[1].any[0].exact.type",
        "$.filters[1].any[1].not.all[0].prefix.subject",
    ]


def test_no_filters_pass_everything() -> None:
    """An empty array has no part that could decide."""
    found = filters.explain([], EVENT)
    assert found.verdict is True
    assert list(found.deciding()) == [found]


def test_texts_in_reasons_are_cut_and_escaped() -> None:
    """An event of a megabyte cannot fill a screen, nor repaint it."""
    found = filters.explain([{"exact": {"subject": "x" * 500}}], {"subject": "\x1b[2J" + "y" * 999})
    reason = found.parts[0].reason
    assert "\x1b" not in reason
    assert len(reason) < 250
    many = {f"a{n}": "1" for n in range(100)}
    told = filters.explain([{"exact": many}], many).parts[0].reason
    assert told.endswith("and 97 more")


@pytest.mark.parametrize(
    ("text", "verdict", "said"),
    [
        ("source = '/s' AND type = 'b'", False, "\"type = 'b'\" makes it FALSE"),
        ("source = '/t' OR count = 7", True, '"count = 7" makes it TRUE'),
        ("NOT (missing = 'x')", False, "missingAttribute"),
        ("count / 0 = 1", False, "math"),
    ],
)
def test_an_expression_quotes_the_operand_that_decided(text: str, verdict: bool, said: str) -> None:
    """Or the one that failed, with the kind of the error: an error is never a match."""
    found = _only({"sql": text})
    assert (found.verdict, found.path, found.dialect) == (verdict, "$.filters[0].sql", "sql")
    assert said in found.reason


def test_the_root_of_the_paths_can_be_named() -> None:
    """For filters that stand elsewhere."""
    found = filters.explain([{"exact": {"type": "x"}}], EVENT, "$.spec.filters")
    assert found.parts[0].path == "$.spec.filters[0].exact.type"
