"""Subscriptions in lists: what they select, in short."""

import pytest

from distributary.cli._subscription_rows import FILTER_CHARS_MAX, LISTED, filter_text


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({}, ""),
        ({"filters": []}, ""),
        ({"source": "/s", "types": ["a", "b"]}, "source=/s type=a|b"),
        ({"filters": [{"exact": {"type": "a", "subject": "b"}}]}, "type=a subject=b"),
        ({"filters": [{"prefix": {"type": "a."}}, {"suffix": {"id": "1"}}]}, "type=a.* id=*1"),
        ({"filters": [{"not": {"exact": {"type": "a"}}}]}, "not(type=a)"),
        (
            {"filters": [{"any": [{"exact": {"type": "a"}}, {"all": [{"sql": "x = 1"}]}]}]},
            "(type=a or ((x = 1)))",
        ),
        ({"filters": [{"new": {"a": 1}}, 7, {}]}, '{"new":{"a":1}} 7 {}'),
        ({"filters": [{"exact": 7}]}, '{"exact":7}'),
    ],
)
def test_a_filter_is_one_short_text(row, text):
    """Also of dialects that this version does not know."""
    assert filter_text(row) == text


def test_a_long_filter_is_cut():
    """The id beside it has to be whole."""
    text = filter_text({"types": ["x" * 100]})
    assert len(text) == FILTER_CHARS_MAX
    assert text.endswith("…")


def test_a_server_without_status_shows_none():
    """It is an older one."""
    assert [cell({"id": "a", "sink": "http://s/"}) for cell in LISTED.values()] == [
        "a",
        "-",
        "http://s/",
        "",
    ]
