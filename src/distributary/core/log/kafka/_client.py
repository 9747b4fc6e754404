"""What all clients of the cluster share: how librdkafka is set up, and what its errors mean.

The library is imported by the first client, not before: a server whose log is a folder never
loads it.
"""

import importlib
from typing import Any, Final, TypeAlias

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogError, LogUnavailableError, RecordTooLargeError
from distributary.core.log.frame import BODY_BYTES_MAX

Settings: TypeAlias = dict[str, Any]
"""Settings of librdkafka: strings, numbers and callbacks."""

RECORD_BYTES_MAX: Final = BODY_BYTES_MAX + 64 * 1024
"""Largest record that the topic must take: a body, its prefix, its headers, and what Kafka adds."""

SILENCE_MS_MAX: Final = 4_000
"""A broker that owes a response for so long is given up, and asked again where its partitions are:
longer than a session timeout of 3 s, after which a cluster names another leader. Brokers wait less
than this for records or for replicas of healthy brokers."""

SETUP_MS_MAX: Final = 2_000
"""Longest time for TCP, TLS and login of one connection: a broker whose machine is cut off answers
nothing, and the others must not wait for it."""

PAUSE_MS_FIRST: Final = 50
"""First back-off, doubled up to ``PAUSE_MS_MAX``: one lost connection is made again at once."""
PAUSE_MS_MAX: Final = 500
"""Back-off between attempts to connect: each failed one has the leaders looked up again, so a new
leader is known half a second after the cluster has it. Two attempts a second load nobody."""

METADATA_MS_MAX: Final = 10_000
"""Age of what a client knows of brokers and leaders: added partitions are seen within this."""

FULL_MS: Final = 10
"""Pause of a reader that has fetched as much ahead as it may: by default it is a second, in which a
partition that catches up runs dry."""

ANSWER_S_MAX: Final = 15.0
"""Longest wait for one answer of the cluster, however often it is asked: more than the 12 s in
which a cluster with its default session timeout of 9 s has another leader."""

HOPELESS: Final = {
    "TOPIC_AUTHORIZATION_FAILED",
    "SASL_AUTHENTICATION_FAILED",
    "_AUTHENTICATION",
    "_SSL",
}
"""What waiting does not cure. A topic that is not known may have been made a moment ago."""


def library() -> Any:
    """The client library; it ships no complete type information."""
    return importlib.import_module("confluent_kafka")


def admin_library() -> Any:
    """Its part that administers."""
    return importlib.import_module("confluent_kafka.admin")


def topic_of(place: KafkaPlace) -> str:
    """The name of the topic that holds the log."""
    return f"{place.prefix}.events"


def settings_of(place: KafkaPlace) -> Settings:
    """How any client reaches the cluster; the result holds the password: never show it."""
    settings: Settings = {
        "bootstrap.servers": ",".join(place.servers),
        "client.id": "distributary",
        "log_level": 0,  # errors reach callbacks and callers; log lines would go to stderr
        "socket.keepalive.enable": True,
        "socket.nagle.disable": True,
        "socket.timeout.ms": SILENCE_MS_MAX,
        "socket.connection.setup.timeout.ms": SETUP_MS_MAX,
        "reconnect.backoff.ms": PAUSE_MS_FIRST,
        "reconnect.backoff.max.ms": PAUSE_MS_MAX,
        "topic.metadata.refresh.interval.ms": METADATA_MS_MAX,
        "metadata.max.age.ms": 3 * METADATA_MS_MAX,
        "enable.metrics.push": False,  # brokers must not collect our metrics
        "security.protocol": _protocol(place),
    }
    if place.tls:
        settings["ssl.endpoint.identification.algorithm"] = "https"
        files = {
            "ssl.ca.location": place.ca_file,
            "ssl.certificate.location": place.certificate_file,
            "ssl.key.location": place.key_file,
        }
        settings |= {name: path for name, path in files.items() if path}
    if place.sasl_mechanism:
        settings["sasl.mechanism"] = place.sasl_mechanism
        settings["sasl.username"] = place.user
        settings["sasl.password"] = place.password
    return settings


def _protocol(place: KafkaPlace) -> str:
    encrypted = "SSL" if place.tls else "PLAINTEXT"
    return f"SASL_{encrypted}" if place.sasl_mechanism else encrypted


def log_error(error: Any, doing: str) -> LogError:
    """The error of the log for *error*, a ``KafkaError``.

    Args:
        error: What librdkafka or the cluster says.
        doing: What was tried, for people: ``append to partition 3``.
    """
    if error.name() == "MSG_SIZE_TOO_LARGE":
        return RecordTooLargeError(f"Kafka: cannot {doing}: {error.str()}")
    return LogUnavailableError(f"Kafka: cannot {doing}: {error.str()} ({error.name()})")
