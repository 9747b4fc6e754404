"""Which connections slow-start."""

from distributary.net.link import _slow_start
from distributary.net.link._slow_start import SlowStart


def test_the_last_word_about_a_connection_counts():
    """Care ends as it began: by what its session says."""
    slow_start = SlowStart()
    slow_start.note("a", True)
    assert "a" in slow_start
    assert "b" not in slow_start
    slow_start.note("a", False)
    slow_start.note("b", False)
    assert "a" not in slow_start
    assert "b" not in slow_start


def test_the_oldest_is_forgotten_first(monkeypatch):
    """Keys come and go with every renewed token."""
    monkeypatch.setattr(_slow_start, "SLOW_START_KEYS_MAX", 3)
    slow_start = SlowStart()
    for key in "abcad":
        slow_start.note(key, True)
    assert [key for key in "abcd" if key in slow_start] == ["a", "c", "d"]
