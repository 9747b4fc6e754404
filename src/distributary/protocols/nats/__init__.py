"""NATS, with and without JetStream."""

from distributary.core.protocol import Protocol, Scheme, SettingFlag
from distributary.protocols.nats import settings
from distributary.protocols.nats.reading import READING

PROTOCOLS = (
    Protocol(
        name="NATS",
        title="NATS",
        schemes={
            "nats": Scheme(4222, with_tls="tls", upgraded=True),
            "tls": Scheme(4222, tls=True),
            "ws": Scheme(80, with_tls="wss", path="request"),
            "wss": Scheme(443, tls=True, path="request"),
        },
        sink="distributary.protocols.nats.sink:make",
        answers="distributary.protocols.nats.answers:RULES",
        settings=settings.SETTINGS,
        restore=settings.restore,
        required=("subject",),
        flags={"--nats-subject": SettingFlag("subject", "Subject to publish to")},
        reading=READING,
    ),
)
