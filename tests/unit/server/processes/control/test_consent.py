"""Whom the settings have asked for consent, and as whom."""

import socket

import pytest

from distributary.core.errors import SettingsError
from distributary.server.processes.control.consent import consent_of
from distributary.server.settings import load


def rule(partitions=2, **flags):
    """What these settings mean."""
    return consent_of(load(flags, {}, None), partitions)


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ({}, "never"),
        ({"auth": "required"}, "public"),
        ({"host": "0.0.0.0"}, "public"),
        ({"host": "0.0.0.0", "auth": "off"}, "never"),
        ({"auth": "required", "consent": "never"}, "never"),
        ({"consent": "public"}, "public"),
        ({"consent": "always", "auth": "required"}, "always"),
    ],
)
def test_public_targets_are_asked_where_clients_show_who_they_are(flags, mode):
    """Unless the operator says otherwise."""
    assert rule(**flags).mode == mode


@pytest.mark.parametrize(
    ("flags", "origin"),
    [
        ({"public_url": "https://Events.example.com:8443"}, "events.example.com"),
        ({"public_url": "https://x.example", "webhook_origin": "Sys.example."}, "sys.example"),
    ],
)
def test_the_origin_is_the_public_name(flags, origin):
    """Or the one that the operator gives."""
    assert rule(**flags).origin == origin


def test_without_a_public_url_it_is_the_machines_name(monkeypatch):
    """And nobody is offered a callback that leads nowhere."""
    monkeypatch.setattr(socket, "gethostname", lambda: "Box-7")
    found = rule(consent="always")
    assert (found.origin, found.callback_base) == ("box-7", None)
    monkeypatch.setattr(socket, "gethostname", lambda: "no header\r\ntakes this")
    assert rule(consent="always").origin == "localhost"


@pytest.mark.parametrize("name", ["", "a b", "https://x.example", "x.example:80", "x\r\ny: z", "*"])
def test_an_origin_that_is_no_name_is_refused(name):
    """It goes into a header of each delivery."""
    with pytest.raises(SettingsError, match=r"webhook.origin"):
        rule(webhook_origin=name)


@pytest.mark.parametrize(
    ("rate", "partitions", "share"),
    [(120, 2, 1.0), (121, 2, 1.0), (1, 1, 1 / 60), (1, 4, 1 / 240), (7, 4, 1 / 60)],
)
def test_partitions_share_a_rate_without_exceeding_it(rate, partitions, share):
    """Whole requests a minute for each, or one in several minutes."""
    found = rule(partitions).share_per_s(rate)
    assert found == pytest.approx(share)
    assert found * 60 * partitions <= rate + 1e-9
