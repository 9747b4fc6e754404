"""Which connections begin carefully."""

from distributary.net.link import _care
from distributary.net.link._care import Care


def test_the_last_word_about_a_connection_counts():
    """Care ends as it began: by what its session says."""
    care = Care()
    care.note("a", True)
    assert "a" in care
    assert "b" not in care
    care.note("a", False)
    care.note("b", False)
    assert "a" not in care
    assert "b" not in care


def test_the_oldest_is_forgotten_first(monkeypatch):
    """Keys come and go with every renewed token."""
    monkeypatch.setattr(_care, "CAREFUL_MAX", 3)
    care = Care()
    for key in "abcad":
        care.note(key, True)
    assert [key for key in "abcd" if key in care] == ["a", "c", "d"]
