"""Times on the command line: one set of spellings for every option."""

import pytest

from distributary.cli import _subscribe_flags, _times
from distributary.core.errors import SettingsError

NOW_MS = 1_769_860_800_000
"""2026-01-31T12:00:00Z."""


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("now", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("-1h", "2026-01-31T11:00:00Z", "2026-01-31T11:00:00Z"),
        ("+1h", "2026-01-31T13:00:00Z", "2026-01-31T13:00:00Z"),
        ("30m", "2026-01-31T11:30:00Z", "2026-01-31T12:30:00Z"),
        ("PT30S", "2026-01-31T11:59:30Z", "2026-01-31T12:00:30Z"),
        ("-P1D", "2026-01-30T12:00:00Z", "2026-01-30T12:00:00Z"),
        ("90", "2026-01-31T11:58:30Z", "2026-01-31T12:01:30Z"),
        ("500ms", "2026-01-31T11:59:59.500Z", "2026-01-31T12:00:00.500Z"),
        ("2027-01-31", "2027-01-31T00:00:00Z", "2027-01-31T00:00:00Z"),
        ("2027-01-31T12:00:00+02:00",) * 3,
        ("2027-01-31T12:00:00.123456789Z",) * 3,
    ],
)
def test_a_time_in_any_spelling(text, before, after):
    """Exact times keep their digits; durations count from now, and bare ones as the option says."""
    assert _times.moment("--since", text, now_ms=NOW_MS) == before
    assert _times.moment("--expires", text, now_ms=NOW_MS, unsigned="after") == after


@pytest.mark.parametrize(
    "text",
    ["", "soon", "-", "+", "--1h", "-now", "2027-02-30", "2027-01-31T12:00:00", "1y", "99999999d"],
)
@pytest.mark.parametrize(("unsigned", "example"), [("before", "-1h"), ("after", "such as 1h")])
def test_what_is_no_time_is_told_with_examples(text, unsigned, example):
    """The option is named, and each spelling has an example."""
    with pytest.raises(SettingsError) as caught:
        _times.moment_ms("--when", text, now_ms=NOW_MS, unsigned=unsigned)
    said = str(caught.value)
    assert said.startswith("--when: ")
    assert all(each in said for each in ("2026-01-31T12:00:00Z", "2026-01-31,", "now", example))


def test_a_time_lies_between_1970_and_9999():
    """So every moment can be written as a time again."""
    with pytest.raises(SettingsError):
        _times.moment_ms("--since", "1d", now_ms=1000)
    with pytest.raises(SettingsError):
        _times.moment_ms("--until", "+1s", now_ms=_times.MOMENT_MS_MAX)


def test_the_clock_of_the_machine_is_the_present_by_default():
    """Two readings are in their order."""
    first = _times.moment_ms("--since", "now")
    assert first - 60_000 <= _times.moment_ms("--since", "1m") <= _times.moment_ms("--since", "now")


@pytest.mark.parametrize(
    ("flag", "text", "member", "expected"),
    [
        ("start", "earliest", ("config", "start"), "earliest"),
        ("start", "2026-01-31", ("config", "start"), "2026-01-31T00:00:00Z"),
        ("expires", "2026-01-31", ("config", "expires"), "2026-01-31T00:00:00Z"),
        (
            "access_token_expires",
            "2026-01-31",
            ("sinkCredential", "accessTokenExpiresUtc"),
            "2026-01-31T00:00:00Z",
        ),
    ],
)
def test_the_flags_of_subscribe_take_them(flag, text, member, expected):
    """The server gets RFC 3339."""
    body = _subscribe_flags.body_of({"sink": "http://127.0.0.1:9000", flag: text})
    outer, name = member
    assert body[outer][name] == expected
