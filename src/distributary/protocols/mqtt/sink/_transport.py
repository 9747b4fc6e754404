"""The MQTT transport: opens sessions, and turns a refused login into an answer."""

import asyncio
import functools
import secrets
from collections.abc import Hashable
from typing import Final

from distributary.core.clock import Clock
from distributary.core.deliver import Destination, Transport
from distributary.core.policy import Acknowledgement, Answer
from distributary.net import Connector
from distributary.net.link import BrokerSession, BrokerTransport, Lost, SlowStart
from distributary.protocols.mqtt.engine import Connack, MqttLogin, Version
from distributary.protocols.mqtt.sink._login import (
    VERSIONS,
    checked,
    login_names,
    open_connection,
)
from distributary.protocols.mqtt.sink._session import MqttSession
from distributary.resource import Reach

PACKET_BYTES_MAX: Final = 128 * 1024
"""Largest packet accepted from a broker, which sends acknowledgements here, whose reasons have
65,535 bytes at most."""


def make(
    connector: Connector,
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
    _reach: Reach | None = None,
) -> Transport:
    """Returns the transport for both versions; see ``core.protocol``."""
    slow_start = SlowStart()  # for the next connection (``MqttSession.ended``)

    def key_of(destination: Destination) -> Hashable:
        endpoint = connector.endpoint_of(destination)
        user, password = login_names(destination.credential, VERSIONS[destination.protocol])
        return destination.protocol, endpoint, user, password

    async def open_session(destination: Destination, lost: Lost) -> BrokerSession | Answer:
        key = key_of(destination)
        protocol = destination.protocol
        version = VERSIONS[protocol]
        user, password = login_names(destination.credential, version)
        # A unique client id: two connections with the same one would end each other for ever.
        name = f"distributary{secrets.token_hex(5)}"
        login = checked(MqttLogin(version, name, user, password, packet_bytes_max=PACKET_BYTES_MAX))
        session = MqttSession(protocol, login, lost, functools.partial(slow_start.note, key))
        endpoint = connector.endpoint_of(destination)
        connack = await open_connection(connector, endpoint, session.connection)
        if connack.code:
            # Abort: after a refused CONNACK a broker may not close the connection.
            session.connection.abort()
            return _refused(protocol, version, connack)
        session.accept(connack, slow_start=key in slow_start)
        return session

    return BrokerTransport(open_session, key_of, clock, loop)


def _refused(protocol: str, version: Version, connack: Connack) -> Acknowledgement:
    number = f"0x{connack.code:02X}" if version is Version.V5 else str(connack.code)
    return Acknowledgement(protocol, f"CONNACK {number}", connack.properties.reason)
