"""The port of the Subscriptions API over AMQP: whether there is one, and what it needs."""

import asyncio

import pytest

from distributary.core.errors import SettingsError
from distributary.server.processes import _amqp


def test_nobody_asked_for_it():
    """No setting, no port; and nothing to begin or end."""
    assert _amqp.listen_for_amqp("127.0.0.1", None) is None
    api = _amqp.AmqpApi(None, None)
    assert api.url is None

    async def live() -> None:
        await api.start()
        await api.close()

    asyncio.run(live())


def test_without_proton_the_message_names_the_extra(monkeypatch):
    """Before anything is bound."""
    monkeypatch.setattr(_amqp, "AVAILABLE", False)
    with pytest.raises(SettingsError, match=r"distributary\[amqp\]"):
        _amqp.listen_for_amqp("127.0.0.1", 0)


def test_a_host_that_is_none_is_said_with_what_to_do():
    """As a port that is taken is."""
    with pytest.raises(SettingsError, match=r"cannot listen on .* for AMQP"):
        _amqp.listen_for_amqp("a name with spaces", 5672)
