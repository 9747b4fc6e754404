"""From settings and listening sockets to where events may go."""

import socket
from pathlib import Path

import pytest

from distributary.server.processes.base import where
from distributary.server.processes.base.where import names_of
from distributary.server.settings import load

OWN_SOCKET = Path("/data/run/own.sock")
LOOPBACK = (("127.0.0.1", 8080),)
EVERYWHERE = (("0.0.0.0", 8080), ("0.0.0.0", 5672))


def reach_of(settings, listeners):
    """Where events may go, with a socket of its own."""
    return where.reach_of(settings, listeners, OWN_SOCKET)


@pytest.mark.parametrize(
    ("flags", "listeners", "allowed"),
    [
        ({}, LOOPBACK, True),
        ({}, EVERYWHERE, False),
        ({"public_url": "https://events.example"}, LOOPBACK, False),
        ({"public_url": "https://events.example", "private_sinks": "allow"}, LOOPBACK, True),
        ({"private_sinks": "allow"}, EVERYWHERE, True),
        ({"private_sinks": "deny"}, LOOPBACK, False),
    ],
)
def test_private_sinks_follow_from_who_can_ask(flags, listeners, allowed):
    """A public URL says that a proxy lets others in, wherever the server listens."""
    assert reach_of(load(flags, {}, None), listeners).private_allowed is allowed


def test_every_way_to_the_receiver_is_known_as_its_own():
    """The public URL, the names of loopback, and the address by which it reaches itself."""
    settings = load({"public_url": "https://events.example"}, {}, None)
    own = reach_of(settings, EVERYWHERE).own
    assert own.urls[0] == "https://events.example"
    for url in ("https://events.example", "http://localhost:8080", "http://[::1]:8080"):
        assert own.takes_events(f"{url}/events")
    assert own.dial == "unix:/data/run/own.sock"
    assert own.listens_at("127.0.0.1", 5672)


def test_with_tls_every_url_of_the_receiver_is_https():
    """Nobody is told to send an event in the clear."""
    settings = load({"tls_cert_file": "a", "tls_key_file": "b"}, {}, None)
    own = reach_of(settings, EVERYWHERE).own
    assert {url.partition(":")[0] for url in own.urls} == {"https"}
    assert own.takes_events("https://localhost:8080/events")
    assert not own.takes_events("http://localhost:8080/events")
    assert own.dial == "unix:/data/run/own.sock"


def test_kafka_is_denied_with_private_sinks():
    """Unless it is named."""
    denied = load({"private_sinks": "deny"}, {}, None)
    named = load({"private_sinks": "deny", "protocols": "KAFKA,HTTP"}, {}, None)
    assert "KAFKA" not in (reach_of(denied, LOOPBACK).protocols or ())
    assert reach_of(named, LOOPBACK).protocols == ("HTTP", "KAFKA")


def test_whatever_leads_here_is_a_name_that_is_answered(monkeypatch):
    """The name with the domain, too: by it other machines reach one that listens everywhere."""
    monkeypatch.setattr(socket, "gethostname", lambda: "events1")
    monkeypatch.setattr(socket, "getfqdn", lambda: "events1.example.com")
    settings = load({"public_url": "https://events.example"}, {}, None)
    names = names_of(settings, reach_of(settings, EVERYWHERE).own)
    assert {"events1", "events1.example.com", "events.example", "localhost"} <= set(names)
