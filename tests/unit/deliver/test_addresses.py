"""The rule about addresses: a table of everything that must not be dialled."""

import ipaddress

import pytest

from distributary.deliver import DENIED, METADATA, OWN, AddressRule, parse_networks
from distributary.errors import SettingsError

STRICT = AddressRule()
LOCAL = AddressRule(loopback_allowed=True)

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.0.3.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2001:200::",
    "2001:db7:ffff::",
    "2001:db9::",
    "2606:2800:220:1:248:1893:25c8:1946",
    "2a00:1450:4001::1",
    "3ffe:ffff::",
]


def edges():
    """First and last address of every range that is denied."""
    for network in DENIED:
        yield str(network[0])
        yield str(network[-1])


def disguised():
    """The same IPv4 addresses, the way translators and relays write them."""
    for network in DENIED:
        if network.version == 4:
            for address in (network[0], network[-1]):
                number = int(address)
                yield f"::ffff:{address}"
                yield str(ipaddress.IPv6Address((0x64FF9B << 96) | number))
                yield str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80) | 1))
                yield f"::{address}"


@pytest.mark.parametrize("address", list(edges()))
def test_refuses_both_ends_of_every_denied_range(address):
    """Every row of the list, at its edges."""
    assert STRICT.refusal(address) is not None


@pytest.mark.parametrize("address", list(disguised()))
def test_refuses_ipv4_in_every_ipv6_disguise(address):
    """Mapped, NAT64, 6to4 and compatible."""
    assert STRICT.refusal(address) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_allows_public_addresses_up_to_the_edges(address):
    """What lies just beside a denied range is allowed."""
    assert STRICT.refusal(address) is None


@pytest.mark.parametrize("address", sorted(map(str, METADATA)))
@pytest.mark.parametrize("rule", [STRICT, LOCAL], ids=["strict", "local"])
def test_refuses_cloud_metadata_always(rule, address):
    """Also where this machine and its networks are allowed, and mapped into IPv6."""
    assert rule.refusal(address) is not None
    if "." in address:
        assert rule.refusal(f"::ffff:{address}") is not None


@pytest.mark.parametrize("address", sorted(map(str, METADATA)))
def test_allows_metadata_by_name_alone(address):
    """A range around it is not enough (decision 22)."""
    everything = parse_networks(["0.0.0.0/0", "::/0"])
    assert AddressRule(allow=everything).refusal(address) is not None
    assert AddressRule(allow=parse_networks([address])).refusal(address) is None


@pytest.mark.parametrize(
    "address", [str(network[1 if network.num_addresses > 1 else 0]) for network in OWN]
)
def test_allows_this_machine_and_its_networks_to_a_local_server(address):
    """While the server listens on loopback only (decision 22)."""
    assert LOCAL.refusal(address) is None
    assert STRICT.refusal(address) is not None


@pytest.mark.parametrize(
    "address",
    [
        "169.254.1.1",
        "224.0.0.1",
        "0.0.0.0",
        "100.64.0.1",
        "fe80::1",
        "ff02::1",
        "64:ff9b::808:808",
        "::",
    ],
)
def test_a_local_server_may_dial_nothing_else_that_is_denied(address):
    """Loopback and private are the exception, not link-local and the rest."""
    assert LOCAL.refusal(address) is not None


@pytest.mark.parametrize("address", ["4000::1", "8000::", "e000::1", "1::1"])
def test_refuses_ipv6_that_is_not_global_unicast(address):
    """Listed or not."""
    assert STRICT.refusal(address) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "127.1",
        "0x7f.1",
        "1.2.3",
        "1.2.3.4.5",
        "::1::",
        "\uff11.1.1.1",
        "1.1.1.1/32",
    ],
)
def test_refuses_what_is_no_address(text):
    """Any text gives an answer."""
    assert STRICT.refusal(text) is not None


def test_allows_what_the_operator_named():
    """By address and by range; a translated address needs both sides allowed."""
    rule = AddressRule(allow=parse_networks(["10.1.0.0/16", "fd00::/8", "64:ff9b::/96"]))
    assert rule.refusal("10.1.2.3") is None
    assert rule.refusal("::ffff:10.1.2.3") is None
    assert rule.refusal("10.2.0.1") is not None
    assert rule.refusal("fd12::1") is None
    assert rule.refusal("64:ff9b::808:808") is None
    assert rule.refusal("64:ff9b::7f00:1") is not None
    assert rule.refusal("fe80::1%eth0") is not None


def test_names_every_wrong_entry_of_an_allow_list():
    """The operator sees all of them at once."""
    with pytest.raises(SettingsError) as caught:
        parse_networks(["10.0.0.0/8", "10.0.0.1/8", "example.com"])
    assert "10.0.0.1/8" in str(caught.value)
    assert "example.com" in str(caught.value)


def test_the_table_is_as_long_as_promised():
    """RELIABILITY section 4 asks for 120 cases and more."""
    assert len(list(edges())) + len(list(disguised())) >= 120
