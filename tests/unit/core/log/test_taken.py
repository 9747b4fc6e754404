"""The window of ids: exact within its age and count."""

from hypothesis import given
from hypothesis import strategies as st

from distributary.core.log.taken import TakenIds, id_of


def test_an_identity_is_address_source_and_id() -> None:
    """Whatever the texts hold: parts never flow into one another."""
    ids = {
        id_of(*each) for each in [("", "a", "b"), ("", "ab", ""), ("a", "", "b"), ("", "", "ab")]
    }
    assert len(ids) == 4
    assert id_of("", "a", "b") == id_of("", "a", "b")


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 400)), max_size=60),
    st.integers(1, 8),
)
def test_the_window_is_exact(steps: list[tuple[int, int]], count_max: int) -> None:
    """An id is known as long as it is young and among the newest, and then no longer."""
    window = TakenIds(1.0, count_max)
    now_ms, taken = 0, list[tuple[int, int]]()  # the id and the time of each that was new
    for number, later_ms in steps:
        now_ms += later_ms
        young = [each for each, since_ms in taken[-count_max:] if since_ms >= now_ms - 1000]
        one = id_of("", "s", str(number))
        assert window.has(one, now_ms) == (number in young)
        window.add(one, now_ms)
        if number not in young:
            taken.append((number, now_ms))
        assert len(window) <= count_max
