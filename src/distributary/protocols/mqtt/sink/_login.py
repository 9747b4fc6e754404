"""Opens MQTT connections: credentials, WebSocket tunnel, CONNECT and CONNACK."""

from typing import Final, TypeVar

from distributary.core.deliver import Endpoint
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.net import Connector
from distributary.protocols.mqtt import engine as mqtt
from distributary.protocols.mqtt.engine import Connack, MqttConnection, Version

VERSIONS: Final = {"MQTT3": Version.V3, "MQTT5": Version.V5}
"""Delivery protocol -> version of MQTT."""

_TUNNELLED: Final = frozenset({"ws", "wss"})
_SUBPROTOCOL: Final = "mqtt"
"""MQTT 5, section 6."""

Token = TypeVar("Token")


def login_names(credential: Credential | None, version: Version) -> tuple[str | None, str | None]:
    """Returns user name and password for *credential*; None: none.

    A token is sent as the password, as brokers expect it. MQTT 3 has no password without a user
    name, so a credential without an identifier gets an empty one.
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
    """Connect, log in, and wait for CONNACK, whatever its code.

    ``ws`` and ``wss`` go through a WebSocket, at the path of the URI. On cancellation or an error
    the connection is closed.

    Raises:
        TransportError: There is no connection, or no CONNACK.
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
    """Returns *login* if it can be encoded.

    Raises:
        TransportError: ``protocol``, not retryable: it holds what no string of MQTT can.
    """
    try:
        mqtt.connect(login)
    except ValueError as error:
        text = f"The credential cannot be written as a login of MQTT: {error}"
        raise TransportError("protocol", text, retryable=False) from error
    return login
