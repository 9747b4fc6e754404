"""The port of the Subscriptions API over AMQP: whether there is one, and what it needs."""

import asyncio

import pytest

from distributary.core.errors import SettingsError
from distributary.server.processes.base import ground
from distributary.subscriptions.amqp import AmqpServer


def test_nobody_asked_for_it():
    """No setting, no port; and nothing that would have to end."""
    assert ground.listen_for_amqp("127.0.0.1", None) is None
    asyncio.run(AmqpServer(None).close())


def test_without_proton_the_message_names_the_extra(monkeypatch):
    """Before anything is bound."""
    monkeypatch.setattr(ground, "AVAILABLE", False)
    with pytest.raises(SettingsError, match=r"distributary\[amqp\]"):
        ground.listen_for_amqp("127.0.0.1", 0)


def test_a_host_that_is_none_is_said_with_what_to_do():
    """As a port that is taken is."""
    with pytest.raises(SettingsError, match=r"cannot listen on .* for AMQP"):
        ground.listen_for_amqp("a name with spaces", 5672)
