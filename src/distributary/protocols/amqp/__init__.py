"""AMQP 1.0."""

import importlib.util

from distributary.core.protocol import Protocol, Scheme, SettingFlag
from distributary.protocols.amqp import settings
from distributary.protocols.amqp.reading import READING

PROTOCOLS = (
    Protocol(
        name="AMQP",
        title="AMQP 1.0",
        schemes={
            "amqp": Scheme(5672, with_tls="amqps", path="place"),
            "amqps": Scheme(5671, tls=True, path="place"),
            "ws": Scheme(80, with_tls="wss", path="request"),
            "wss": Scheme(443, tls=True, path="request"),
        },
        place_encoded=True,
        sink="distributary.protocols.amqp.sink:make",
        answers="distributary.protocols.amqp.answers:RULES",
        settings=settings.SETTINGS,
        restore=settings.restore,
        placed="address",
        masked="linkproperties",
        flags={"--address": SettingFlag("address", "Node to send to")},
        reading=READING,
        absent=None
        if importlib.util.find_spec("cproton") is not None
        else "needs the extra distributary[amqp], which is not installed",
    ),
)
