import pickle

import pytest

from distributary.core.event import Event, canonical


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (1, "1"),
        (-2147483648, "-2147483648"),
        ("", ""),
        ("True", "True"),
    ],
)
def test_each_kind_of_value_has_one_canonical_string(value, expected):
    """Booleans are lower-case words, integers decimal digits, strings themselves."""
    assert expected == canonical(value)


def test_events_are_equal_by_value(make_event):
    """Two events with the same attributes and data are equal, whatever the order of attributes."""
    one = make_event(b"x", subject="s", ext="e")
    two = Event(dict(reversed(one.attributes.items())), b"x")

    assert one == two


@pytest.mark.parametrize("data", [None, b"", b"y"])
def test_events_with_other_data_differ(make_event, data):
    """No data, empty data and other data are three different things."""
    assert make_event(b"x") != make_event(data)


def test_absent_data_is_not_empty_data(make_event):
    """An event without data differs from one whose data are no bytes."""
    assert make_event(None) != make_event(b"")


def test_repr_stays_short(make_event):
    """A megabyte of data does not end up in a log line, but its size does."""
    shown = repr(make_event(b"x" * 1_000_000))

    assert len(shown) < 300
    assert "1000000 bytes" in shown


def test_repr_names_missing_data(make_event):
    """The repr tells no data from empty data."""
    assert "no data" in repr(make_event())
    assert "b''" in repr(make_event(b""))


def test_events_survive_pickling(make_event):
    """An event may travel between processes."""
    event = make_event(b"x", flag=True)

    assert event == pickle.loads(pickle.dumps(event))
