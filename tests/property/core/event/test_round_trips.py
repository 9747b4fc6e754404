import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.event import Event, canonical, json_format, record, validate
from distributary.core.event._json_text import has_duplicates, members
from distributary.core.event.header_text import percent_decode, percent_encode
from distributary.core.event.validity import _every_fault, _plainly_valid
from distributary.protocols.http import binding as http

no_deadline = settings(deadline=None)
"""How long an example takes depends on the machine, and says nothing here."""

texts = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]), max_size=20)
names = st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True).filter(
    lambda name: (
        name not in {"data", "time", "datacontenttype", "dataschema", "schemaurl"}
        and name not in {"specversion", "id", "source", "type", "subject", "datacontentencoding"}
    )
)
scalars = st.one_of(texts, st.booleans(), st.integers(-(2**31), 2**31 - 1))
media_types = st.sampled_from(
    [None, "application/json", "text/plain", "text/plain; charset=iso-8859-1", "a/b", "x/y+xml"]
)
payloads = st.one_of(
    st.none(),
    st.binary(max_size=40),
    texts.map(str.encode),
    st.sampled_from([b"{}", b'{"a": [1.50, "\\u00fc"]}', b"null", b"[", b'"x"', b" 1 ", b"1,2"]),
)


@st.composite
def events(draw) -> Event:
    """Valid events: any extensions, any data, any of some content types."""
    attributes = {
        "specversion": draw(st.sampled_from(["1.0", "0.3"])),
        "id": draw(texts.filter(bool)),
        "source": draw(st.sampled_from(["/a", "urn:x:y", "https://example.com/%20#f", "%C3%A4"])),
        "type": draw(texts.filter(bool)),
    }
    attributes |= draw(st.dictionaries(names, scalars, max_size=5))
    media_type = draw(media_types)
    if media_type is not None:
        attributes["datacontenttype"] = media_type
    return Event(attributes, draw(payloads))


def fields_of(block: bytes) -> list[tuple[bytes, bytes]]:
    """The fields of a header block."""
    lines = block.split(b"\r\n")
    assert lines.pop() == b""
    return [tuple(line.split(b": ", 1)) for line in lines]


@pytest.mark.slow
@no_deadline
@given(events())
def test_generated_events_are_valid(event):
    """The generator of this file makes valid events, so that its other tests mean something."""
    assert validate(event.attributes) == []


@pytest.mark.slow
@no_deadline
@given(events())
def test_binary_mode_gives_back_every_attribute_and_byte(event):
    """Attributes as canonical strings, data byte for byte; only empty data become none."""
    (received,) = http.decode(fields_of(http.encode_binary(event)[0]), event.data or b"")

    assert received.attributes == {name: canonical(v) for name, v in event.attributes.items()}
    assert received.data == (event.data or None)


@pytest.mark.slow
@no_deadline
@given(events())
def test_structured_mode_gives_back_the_event(event):
    """Equal in every part, but for spaces around JSON data and Base64 text in 0.3."""
    received = json_format.decode(json_format.encode(event))

    if received.attributes.get("datacontentencoding") == "base64":
        assert event.attributes["specversion"] == "0.3"
        assert json_format.encode(received) == json_format.encode(event)
    elif event.attributes.get("datacontenttype") == "application/json" and event.data:
        assert received.attributes == event.attributes
        assert received.data in {event.data, event.data.strip()}
    else:
        assert received == event


@pytest.mark.slow
@no_deadline
@given(events())
def test_encoding_what_was_decoded_changes_nothing(event):
    """One pass through JSON is final: the second writes the same bytes."""
    once = json_format.encode(json_format.decode(json_format.encode(event)))

    assert json_format.encode(json_format.decode(once)) == once


@pytest.mark.slow
@no_deadline
@given(st.lists(events(), max_size=4))
def test_records_give_back_their_events(listed):
    """The log changes nothing at all."""
    assert record.decode(record.encode(listed)) == listed


@no_deadline
@given(st.text())
def test_percent_coding_is_reversible_and_stays_on_the_line(text):
    """Any text without lone surrogates comes back, by visible ASCII alone."""
    encoded = percent_encode(text).encode("ascii")

    assert all(0x21 <= byte <= 0x7E and byte != 0x22 for byte in encoded)
    assert percent_decode(encoded) == text


odd_values = st.one_of(
    scalars, st.text(max_size=5), st.none(), st.floats(), st.integers(), st.just("1.0")
)
odd_names = st.one_of(
    st.sampled_from(
        ["specversion", "id", "source", "type", "time", "subject", "data", "schemaurl"]
    ),
    st.sampled_from(["datacontenttype", "dataschema", "datacontentencoding", ""]),
    st.text(max_size=4),
)


@pytest.mark.slow
@no_deadline
@given(events(), st.dictionaries(odd_names, odd_values, max_size=2))
def test_the_quick_check_agrees_with_the_walk(event, changes):
    """What passes at once has no fault, so no event depends on which path looked."""
    attributes = event.attributes | changes

    if _plainly_valid(attributes):
        assert _every_fault(attributes, "$.") == []


member_names = st.sampled_from(["id", "a", "b", "\\u0061", "data"])
member_values = st.sampled_from(
    ["1", "null", '"x"', '"\\""', '"\\\\"', '"a\\u0022"', '{"id":"a"}', '["\\\\\\""]', '"id"', '""']
)


@no_deadline
@given(
    st.lists(st.tuples(member_names, member_values), max_size=6), st.sampled_from(["", " ", "\n"])
)
def test_counting_quotes_finds_exactly_the_duplicates(pairs, space):
    """The count agrees with comparing names, for any spelling of names, values and spaces."""
    written = f"{space},{space}".join(f'"{name}"{space}:{space}{value}' for name, value in pairs)
    text = f"{{{space}{written}{space}}}".encode()
    spelt = [name.replace("\\u0061", "a") for name, _ in pairs]

    kept = {name: bytes(raw) for name, raw in members(text).items()}

    assert has_duplicates(text, kept) == (len(set(spelt)) < len(spelt))
