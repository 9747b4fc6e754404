"""The rule about addresses: a table of everything that must not be dialled."""

import ipaddress

import pytest

from distributary.core.errors import SettingsError
from distributary.net import DENIED, METADATA, OWN, AddressRule, parse_networks
from distributary.resource import OwnAddresses, Reach

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
    """There are 120 cases and more."""
    assert len(list(edges())) + len(list(disguised())) >= 120


EVERYTHING = parse_networks(["0.0.0.0/0", "::/0"])


@pytest.mark.parametrize(
    "address",
    [
        "64:ff9b:1::a9fe:a9fe",  # of RFC 8215, as the well-known prefix has it
        "64:ff9b:1:a9fe:a9:fe00::",  # the same behind 48 bits
        "64:ff9b:1:a9:fe:a9fe::",  # behind 56
        "64:ff9b:1:7:a9:fea9:fe00:0",  # behind 64
        "2001:0:a9fe:a9fe::1",  # Teredo: its server
        "2001:0:4136:e378:8000:63bf:5601:5601",  # Teredo: its client, inverted
    ],
)
def test_no_disguise_hides_metadata_from_an_allow_list_around_it(address):
    """Every translator's way to write an address is undone before it is judged."""
    assert AddressRule(allow=EVERYTHING).refusal(address) is not None
    assert AddressRule(allow=EVERYTHING).final(address)


@pytest.mark.parametrize(
    ("prefix", "address"),
    [
        ("2a00:64::/96", "2a00:64::7f00:1"),
        ("2a00:64::/64", "2a00:64:0:0:7f:0:100:0"),
        ("2a00:64::/32", "2a00:64:7f00:1::"),
    ],
)
def test_what_stands_behind_a_prefix_of_the_site_is_judged(prefix, address):
    """The operator names the prefix of the network's translator (RFC 6052)."""
    assert STRICT.refusal(address) is None
    rule = AddressRule.of(Reach(private_allowed=False, nat64_prefixes=(prefix,)))
    assert rule.refusal(address) is not None
    assert not rule.final(address)


@pytest.mark.parametrize(
    ("listening", "address", "met"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("0.0.0.0", "127.0.0.2", True),
        ("::", "192.168.7.1", True),
        ("0.0.0.0", "192.168.7.2", False),
    ],
)
def test_our_own_listeners_are_met_by_any_address_of_this_machine(listening, address, met):
    """A name may resolve to them: what is dialled is judged, address and port."""
    rule = AddressRule(EVERYTHING, True, OwnAddresses((), ((listening, 8080),)))
    mine = {"127.0.0.2", "192.168.7.1"}
    assert (rule.refusal(address, 8080, mine.__contains__) is not None) is met
    assert rule.refusal(address, 8081, mine.__contains__) is None


def test_what_a_setting_refuses_is_not_refused_for_good():
    """Private addresses may be allowed one day; metadata never, but by an entry of its own."""
    assert not STRICT.final("10.0.0.1")
    assert not STRICT.final("100.64.0.1")
    assert STRICT.final("169.254.169.254")
    assert STRICT.final("no address")


@pytest.mark.parametrize("port", [25, 6379, 11211])
def test_ports_of_other_services_are_not_dialled_on_public_hosts(port):
    """A name is judged by what it resolves to; private hosts are the operator's affair."""
    assert LOCAL.refusal("93.184.216.34", port) is not None
    assert LOCAL.refusal("93.184.216.34", 8443) is None
    assert LOCAL.refusal("10.0.0.1", port) is None
    assert AddressRule(parse_networks(["93.184.216.34"])).refusal("93.184.216.34", port) is None
