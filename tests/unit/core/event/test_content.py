"""Content types: what they say of data."""

import pytest

from distributary.core.errors import EventError
from distributary.core.event import content, json_format


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        ("text/plain", None),
        ("text/plain;charset=UTF-8", "utf-8"),
        ('text/plain ; a=b; CharSet = "ISO-8859-1"', "iso-8859-1"),
        ("text/plain; charset=", ""),
        ("text/plain; xcharset=utf-16", None),
        ('text/plain; title="a;charset=utf-16"', None),
        ('text/plain; title="a\\";charset=utf-16"; charset=utf-8', "utf-8"),
    ],
)
def test_the_charset_is_a_parameter_of_its_own(content_type, charset):
    """A semicolon in quotes begins no parameter (RFC 2045 section 5.1)."""
    assert content.declared_charset(content_type) == charset


@pytest.mark.parametrize(("name", "or_more"), [("id", ""), ("x", ", a boolean or an integer")])
def test_a_fault_names_the_types_that_the_attribute_may_have(name, or_more):
    """``id: 1.5`` is not mended by an integer; an extension attribute would be."""
    core = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", name: 1.5}
    text = str(core).replace("'", '"').encode()

    with pytest.raises(EventError) as caught:
        json_format.decode(text)

    (fault,) = caught.value.faults
    assert fault.message.startswith(f"must be a string{or_more}")
    assert fault.message.endswith("string" if not or_more else "of 32 bits")
