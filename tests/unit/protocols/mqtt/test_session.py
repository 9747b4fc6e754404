"""A session of MQTT between its connection and the transport, without a network."""

import asyncio

from distributary.protocols.mqtt.engine import Connack, MqttLogin, Properties, Version
from distributary.protocols.mqtt.sink import _session as sessions


def test_care_ends_by_itself(monkeypatch):
    """The window is wide again, and so is that of the next connection."""
    monkeypatch.setattr(sessions, "SLOW_START_S", 0.0)
    notes = []

    async def scenario():
        over = asyncio.Event()

        def note(slow_start):
            notes.append(slow_start)
            over.set()

        session = sessions.MqttSession("MQTT5", MqttLogin(Version.V5, "me"), lambda _: None, note)
        session.accept(Connack(0, False, Properties()), slow_start=True)
        assert session.window == 1
        await over.wait()
        assert session.window == sessions.WINDOW
        await session.close()

    asyncio.run(scenario())
    assert notes == [False]
