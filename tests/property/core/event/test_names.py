"""What many events are called is what each says."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.core.event import binary
from distributary.core.event.binary import names_of

_lines = st.lists(
    st.sampled_from(
        [
            (b"ce-id: ", b"aaa"),
            (b"ce-id: ", b"bbb"),
            (b"ce-id: ", b"c"),
            (b"ce-id: ", b""),
            (b"ce-source: ", b"/s"),
            (b"ce-source: ", b"/t"),
            (b"ce-source: ", b"/long"),
            (b"ce-type: ", b"t"),
            (b"ce-type: ", b"ce-id: t"),
            (b"ce-x: ", b"1"),
            (b"ce-x: ", b"ce-id: aaa"),
            (b"ce-y: ", b"ce-source: /s"),
        ]
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda line: line[0],
)
_heads = _lines.map(
    lambda lines: binary.encode([name + value + b"\r\n" for name, value in lines], b"")
)


def _said(head: bytes, name: bytes) -> bytes:
    event = binary.decode(head)
    assert event is not None
    found = event.written(name.decode())
    return b"%" if found is None else found


@settings(max_examples=500, deadline=None)
@given(heads=st.lists(_heads, min_size=1, max_size=3), times=st.integers(1, 5))
@example([binary.encode([b"ce-id: %d\r\n" % n, b"ce-source: /s\r\n"], b"") for n in range(9)], 1)
def test_many_are_called_what_each_is(heads: list[bytes], times: int) -> None:
    """Whatever lines they have, at whatever places."""
    heads = heads * times
    found = names_of(heads)
    ids = [_said(head, b"id") for head in heads]
    assert found.ids == b"".join(id_ + b"\r" for id_ in ids)
    assert found.longest == max(map(len, ids))
    assert [found.pairs[place] for place in found.places] == [
        (_said(head, b"source") or b"%", _said(head, b"type") or b"%") for head in heads
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(binary, "_names_of_alike", lambda _: None)
        assert names_of(heads) == found
