"""The pattern of LIKE: what it matches, and that no text makes it slow."""

import re
import sys
from collections import Counter

import pytest

from distributary.cesql import _like

CASES = [
    ("", "", True),
    ("", "a", False),
    ("%", "", True),
    ("%%%", "abc", True),
    ("_", "", False),
    ("_", "\n", True),
    ("__", "ä𝄞", True),
    ("a%", "ab", True),
    ("%a", "ba", True),
    ("a%a", "a", False),
    ("ab%ba", "aba", False),
    ("ab%ba", "abba", True),
    ("%ab%", "xaby", True),
    ("%a_c%", "abxabcx", True),
    ("%a_c%", "abxab", False),
    ("%a_%_c%", "abxxc", True),
    ("%a_%_c", "abc", False),
    ("a_%", "a", False),
    ("%_a", "a", False),
    ("%__%", "x", False),
    ("%__%", "xy", True),
    ("%é_𝄞%", "xxéa𝄞", True),
    ("%é_𝄞%", "xxéa\U0001d11f", False),
    ("%a_b%", "ĀaXb", True),
    ("%a_b%", "ŁaXšb", False),
    (r"\%", "%", True),
    (r"\%", "a", False),
    (r"%\_%", "a_b", True),
    (r"%\_%", "ab", False),
    (r"a\b", r"a\b", True),
    (r"a\\%", r"a\%", True),
    (r"a\\%", r"a\xyz", False),
    ("a\\", "a\\", True),
    ("%a%b%c%", "xaxbxcx", True),
    ("%a%b%c%", "xaxcxbx", False),
    ("%ab%ab", "xab", False),
    ("%a_b%" + "c", "axbc", True),
    ("a_%_b", "a12b", True),
    ("a_%_b", "a1b", False),
    ("a_b", "axb", True),
    ("a_b", "axbx", False),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), CASES)
def test_a_pattern_matches_the_whole_text(pattern, text, expected):
    """Wildcards, escapes and what stands between them, at every place."""
    assert _like.compile_pattern(pattern).matches(text) is expected


@pytest.mark.parametrize("before", range(250, 260))
def test_a_segment_is_found_across_the_edge_of_a_window(before):
    """A search looks 256 characters ahead first; what stands across that edge is not missed."""
    matches = _like.compile_pattern("%a_c%a__d%").matches
    assert matches("x" * before + "abc" + "y" * before * 2 + "abcd") is True
    assert matches("x" * before + "abc" + "y" * before * 2 + "abc") is False


@pytest.mark.slow
def test_patterns_agree_with_regular_expressions():
    """All texts of up to six letters against all patterns of up to five characters."""
    texts = [""]
    for _ in range(6):
        texts += [text + letter for text in texts if len(text) >= len(texts[-1]) for letter in "ab"]
    patterns = [""]
    for _ in range(5):
        patterns += [p + c for p in patterns if len(p) >= len(patterns[-1]) for c in "ab%_"]
    found = Counter()
    for pattern in set(patterns):
        matches = _like.compile_pattern(pattern).matches
        oracle = re.compile(pattern.replace("%", ".*").replace("_", "."), re.DOTALL)
        for text in texts:
            assert matches(text) is (oracle.fullmatch(text) is not None), (pattern, text)
            found[matches(text)] += 1
    assert min(found.values()) > 1_000


@pytest.mark.parametrize(
    ("pattern", "exact", "prefix", "suffix", "whole"),
    [
        ("abc", "abc", "abc", "abc", True),
        (r"a\%c", "a%c", "a%c", "a%c", True),
        ("ab%", None, "ab", "", True),
        ("%ab", None, "", "ab", True),
        ("a%b", None, "a", "b", True),
        ("%", None, "", "", True),
        ("a%b%c", None, "a", "c", False),
        ("a_b", None, "a", "b", False),
        ("_b%c_", None, "", "", False),
        ("ab_%_cd", None, "ab", "cd", False),
    ],
)
def test_a_pattern_tells_its_ends(pattern, exact, prefix, suffix, whole):
    """What an index may go by."""
    found = _like.compile_pattern(pattern)
    assert (found.exact, found.prefix, found.suffix, found.whole) == (exact, prefix, suffix, whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        "%a_" * 60 + "b%",
        "%" + "a_" * 200 + "b%",
        "%a%" * 400 + "b",
        "%" * 4_000 + "b",
        "%" + "a" * 99 + "b%",
        "_%" * 400 + "b",
    ],
    ids=["short segments", "a long segment", "letters", "percents", "no wildcard", "underscores"],
)
def test_the_work_grows_no_faster_than_the_text(pattern):
    """Counted in lines executed: twice the text, at most three times as many."""
    matches = _like.compile_pattern(pattern).matches
    short, long = (_lines(matches, "a" * chars) for chars in (20_000, 40_000))
    assert long <= 3 * short
    assert long < 100_000


def _lines(matches, text) -> int:
    """How many lines a match executes."""
    count = 0

    def trace(_frame, _event, _argument):
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert matches(text) is False
    finally:
        sys.settrace(before)
    return count
