"""Types and sources of accepted events: bounded, kept over a restart, never of what was refused."""

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.core.event import Event
from distributary.datadir.seen import (
    SEEN_CHARS_MAX,
    SEEN_NAMES_MAX,
    Seen,
    SeenNames,
    load_seen,
)


def events(*names: tuple[str, str]) -> list[Event]:
    """Events of these types and sources."""
    return [
        Event({"specversion": "1.0", "id": "1", "source": source, "type": type_}, None)
        for type_, source in names
    ]


def test_names_are_kept_once_in_the_order_of_their_first_event():
    """Whatever follows."""
    seen = Seen()
    seen.add(events(("b", "/1"), ("a", "/1"), ("b", "/2")))
    assert seen.names == SeenNames(types=("b", "a"), sources=("/1", "/2"))
    assert seen.changed


def test_only_events_with_something_new_are_unseen():
    """The usual answer is that there are none."""
    seen = Seen()
    known, new = events(("a", "/1"), ("a", "/2"))
    seen.add([known])
    assert seen.unseen([known, known]) is None
    assert seen.unseen([known, new]) == [new]


def test_the_first_thousand_stay_and_more_are_noted():
    """Senders choose the names: there may be any number of them."""
    seen = Seen()
    seen.add(events(*((f"t{n}", "/s") for n in range(SEEN_NAMES_MAX))))
    assert not seen.names.types_truncated
    one_more = events(("more", "/s"))
    assert seen.unseen(one_more) == one_more
    seen.changed = False
    seen.add(one_more)
    assert seen.changed
    assert seen.names.types_truncated
    assert not seen.names.sources_truncated
    assert len(seen.names.types) == SEEN_NAMES_MAX
    assert seen.unseen(events(("yet another", "/s"))) is None


@pytest.mark.parametrize("chars", [SEEN_CHARS_MAX, SEEN_CHARS_MAX + 1])
def test_a_longer_name_is_left_out_and_others_are_not(chars):
    """A source may have 64 KiB."""
    seen = Seen()
    seen.add(events(("a", "/" * chars), ("b", "/short")))
    assert seen.names.sources_truncated == (chars > SEEN_CHARS_MAX)
    assert "/short" in seen.names.sources
    assert len(seen.names.sources) == (1 if chars > SEEN_CHARS_MAX else 2)


def test_nothing_new_leaves_nothing_to_save():
    """The file is written when it would change."""
    seen = Seen(SeenNames(types=("a",), sources=("/1",)))
    seen.add(events(("a", "/1")))
    assert not seen.changed


def test_what_was_saved_is_loaded(tmp_path):
    """Also that more was left out."""
    path = tmp_path / "seen.json"
    seen = Seen(SeenNames(types=("a",), types_truncated=True))
    seen.add(events(("b", "/1")))
    seen.save(path)
    assert not seen.changed
    assert (
        load_seen(path)
        == seen.names
        == SeenNames(types=("a", "b"), types_truncated=True, sources=("/1",))
    )


@pytest.mark.parametrize("content", [None, b"", b'{"types":[1]}', b"\xff"])
def test_no_file_or_a_damaged_one_is_a_new_beginning(tmp_path, content):
    """It is a help, no record."""
    path = tmp_path / "seen.json"
    if content is not None:
        path.write_bytes(content)
    assert load_seen(path) == SeenNames()


def test_names_are_noted_when_their_events_are_durable(client, event):
    """Not before: until then they may be refused."""
    client.appends.held = True
    client.send(event())
    assert client.context.seen.names == SeenNames()
    client.appends.settle()
    assert client.context.seen.names == SeenNames(types=("t",), sources=("/s",))


def test_what_the_log_refused_was_not_seen(client, event):
    """Nor what is no event."""
    client.appends.error = LogUnavailableError("full")
    assert client.statuses(event()) == [503]
    client.appends.error = None
    assert client.statuses(event(b"", b"ce-time: never\r\n")) == [400]
    assert client.context.seen.names == SeenNames()
