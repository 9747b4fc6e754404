"""Any text on the command line is a time or a duration, or is refused with the option's name."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.cli import _times
from distributary.core.errors import SettingsError
from distributary.resource.durations import DURATION_S_MAX, format_duration
from distributary.resource.times import format_time, parse_time_ms

MOMENTS = st.integers(0, _times.MOMENT_MS_MAX)
LIKELY = st.text(alphabet="0123456789-+.,:TZtzPWDHMSsmhdnow ", max_size=40)


@given(st.text(max_size=80) | LIKELY, MOMENTS, st.sampled_from(["before", "after"]))
def test_any_text_is_a_time_or_refused(text, now_ms, unsigned):
    """A time that is taken can be sent: the server reads the same moment."""
    try:
        found = _times.moment_ms("--when", text, now_ms=now_ms, unsigned=unsigned)
    except SettingsError as error:
        assert str(error).startswith("--when: ")  # noqa: PT017 - what is not refused goes on below
        return
    assert 0 <= found <= _times.MOMENT_MS_MAX
    written = _times.moment("--when", text, now_ms=now_ms, unsigned=unsigned)
    assert parse_time_ms(written) == found


@given(st.text(max_size=80) | LIKELY)
def test_any_text_is_a_duration_or_refused(text):
    """In seconds, and bounded."""
    with suppress(SettingsError):
        assert 0 <= _times.seconds("--wait", text) <= DURATION_S_MAX


@given(MOMENTS)
def test_a_moment_that_is_written_is_read_back(wall_ms):
    """To the millisecond."""
    assert parse_time_ms(format_time(wall_ms)) == wall_ms
    assert _times.moment_ms("--since", format_time(wall_ms), now_ms=0) == wall_ms


@pytest.mark.parametrize("sign", [-1, 1], ids=["before", "after"])
@given(wait_s=st.integers(0, 40_000 * 86_400), now_ms=MOMENTS)
def test_a_signed_duration_is_a_distance_from_now(sign, wait_s, now_ms):
    """Whatever the option says of durations without a sign."""
    if wait_s > DURATION_S_MAX or not 0 <= now_ms + sign * wait_s * 1000 <= _times.MOMENT_MS_MAX:
        return
    text = ("-" if sign < 0 else "+") + format_duration(wait_s)
    for unsigned in ("before", "after"):
        found = _times.moment_ms("--when", text, now_ms=now_ms, unsigned=unsigned)
        assert found == now_ms + sign * wait_s * 1000
