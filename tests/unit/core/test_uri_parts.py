"""The parts of URIs, also of those that name several hosts."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.uri_parts import split_uri


@pytest.mark.parametrize(
    "text",
    [
        "https://user@sink.example:8443/a/b?c=d&e#f",
        "HTTP://Sink.Example",
        "mqtt://[2001:db8::2]:1883/orders/%20new?",
        "urn:uuid:1",
        "//host/path",
        "a/b:c",
        "",
        "?q",
    ],
)
def test_one_host_is_split_as_by_the_standard_library(text: str) -> None:
    """A URI of one host has the parts that ``urlsplit`` finds."""
    assert split_uri(text) == urlsplit(text)


def test_several_hosts_stay_one_authority() -> None:
    """Newer Pythons refuse an IPv6 address that does not begin the list."""
    parts = split_uri("kafka://one:9092,[2001:db8::2]:9093,[::1]/orders")
    assert parts == ("kafka", "one:9092,[2001:db8::2]:9093,[::1]", "/orders", "", "")


@given(st.text())
def test_any_text_has_parts(text: str) -> None:
    """Whether the parts are good is for others to say."""
    assert isinstance(split_uri(text).path, str)
