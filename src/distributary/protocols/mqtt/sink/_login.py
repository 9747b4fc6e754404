"""From a destination to an open connection: who we are, by which way, and what the broker said."""

from typing import Final, TypeVar

from distributary.core.deliver import Endpoint
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.net import Connector
from distributary.protocols.mqtt import engine as mqtt
from distributary.protocols.mqtt.engine import Connack, MqttConnection, Version

VERSIONS: Final = {"MQTT3": Version.V3, "MQTT5": Version.V5}
"""Delivery protocol -> what is spoken."""

_TUNNELLED: Final = frozenset({"ws", "wss"})
_SUBPROTOCOL: Final = "mqtt"
"""MQTT 5, section 6."""

Token = TypeVar("Token")


def login_names(credential: Credential | None, version: Version) -> tuple[str | None, str | None]:
    """User name and password that say *credential*; None: none.

    A token is the password, as brokers take it. MQTT 3 has no password without a user name, so an
    empty one stands there where the credential names nobody.
    """
    if credential is None:
        return None, None
    if credential.type == "PLAIN":
        return credential.identifier or "", credential.secret or ""
    user = credential.identifier
    if user is None and version is Version.V3:
        user = ""
    return user, credential.access_token or ""


async def open_connection(
    connector: Connector, endpoint: Endpoint, connection: MqttConnection[Token]
) -> Connack:
    """Connect, log in, and wait for the broker's answer, whatever it says.

    ``ws`` and ``wss`` go by WebSocket, at the path of the URI. Cancelled, or without an answer,
    nothing stays open.

    Raises:
        TransportError: There is no connection, or no answer.
    """
    try:
        if endpoint.scheme in _TUNNELLED:
            # Here, since it costs 3 MB that few brokers need.
            from distributary.net.tunnel import open_tunnel  # noqa: PLC0415

            await open_tunnel(connector, endpoint, _SUBPROTOCOL, lambda: connection)
        else:
            await connector.open(endpoint, lambda: connection)
        return await connection.opened()
    except BaseException:
        connection.abort()
        raise


def checked(login: mqtt.MqttLogin) -> mqtt.MqttLogin:
    """*login*, after it is certain that it can be written.

    Raises:
        TransportError: ``protocol``, not retryable: it holds what no string of MQTT can.
    """
    try:
        mqtt.connect(login)
    except ValueError as error:
        text = f"The credential cannot be written as a login of MQTT: {error}"
        raise TransportError("protocol", text, retryable=False) from error
    return login
