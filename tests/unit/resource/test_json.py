"""Bodies: any bytes give a JSON value or one clear fault."""

import pytest

from distributary.core.errors import ResourceError
from distributary.resource import JSON_DEPTH_MAX, RESOURCE_BYTES_MAX, decode_json


def test_json_is_decoded():
    """The ordinary case."""
    assert decode_json(b' {"a": [1, 2.5, "x", null, true]} ') == {"a": [1, 2.5, "x", None, True]}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "json"),
        (b"{", "json"),
        (b"{}}", "json"),
        (b"nan", "json"),
        (b"NaN", "json"),
        (b'{"a": Infinity}', "json"),
        (b'"\\ud800"', "json"),
        (b'"\xff"', "json"),
        (b"\xef\xbb\xbf{}", "json"),
        ('{"a": 1}'.encode("utf-16"), "json"),
        (b"1e400", "json"),
        (b'{"n": ' + b"1" * 5000 + b"}", "json"),
        (b'{"filters": [{"x": 1}], "filters": []}', "duplicate"),
        (b'[{"a": {"b": 1, "b": 1}}]', "duplicate"),
        (b"[" * (JSON_DEPTH_MAX + 1), "too-deep"),
        (b"[" * 100_000 + b"]" * 100_000, "too-deep"),
        (b'{"a":' * 40_000 + b"1" + b"}" * 40_000, "too-deep"),
    ],
)
def test_what_is_no_json_is_one_fault(body, code):
    """Nothing else comes out: no RecursionError, no UnicodeDecodeError."""
    with pytest.raises(ResourceError) as caught:
        decode_json(body)
    assert [fault.code for fault in caught.value.faults] == [code]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"a": "\\ud83d"}', "half of a surrogate pair"),
        (b'{"\\ud83d\\ude00\\udead": 1}', "half of a surrogate pair"),
        (b'{"a": "\xe9"}', "not UTF-8 at byte 7"),
        (b'{"a": 1e400}', "a number is larger"),
        (b'{"a": ', "not JSON: Input data was truncated"),
        (b'{"a": NaN}', "not JSON: JSON is malformed: invalid character (byte 6)"),
    ],
)
def test_the_fault_says_what_is_wrong_with_the_text(body, why):
    """Half a surrogate pair is no end too soon, and a byte is counted from the body's first."""
    with pytest.raises(ResourceError) as caught:
        decode_json(body)
    assert why in caught.value.faults[0].message


def test_the_deepest_allowed_nesting_is_read():
    """A limit is the last good value."""
    body = b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX
    assert decode_json(body) is not None


def test_brackets_in_strings_do_not_count():
    """Only structure nests."""
    assert decode_json(b'"' + b"[" * 1000 + b'\\"[["') == "[" * 1000 + '"[['


@pytest.mark.parametrize("piece", [b"\\", b'\\"', b'""', b'"', b"["], ids=ascii)
def test_the_depth_of_hostile_text_is_found_in_one_pass(piece):
    """The scan never starts again at each quote of a string that is not closed."""
    with pytest.raises(ResourceError):
        decode_json(b'"' + piece * ((RESOURCE_BYTES_MAX - 1) // len(piece)))
