"""Maps a ``KafkaError`` to an answer of the cluster or a transport error."""

from typing import Any, Final

from distributary.core.errors import TransportError
from distributary.core.policy import Acknowledgement, Answer
from distributary.core.policy.acknowledgements import TEXT_CHARS_MAX

ACCEPTED: Final = Acknowledgement("KAFKA", "NO_ERROR")

_ANSWERS: Final = {
    "_UNKNOWN_TOPIC": "UNKNOWN_TOPIC_OR_PART",
    "_UNKNOWN_PARTITION": "UNKNOWN_TOPIC_OR_PART",
    "_AUTHENTICATION": "SASL_AUTHENTICATION_FAILED",
    "_ISR_INSUFF": "NOT_ENOUGH_REPLICAS",
    "_FENCED": "PRODUCER_FENCED",
}
"""Local codes that librdkafka derives from brokers' responses -> the equivalent code of Kafka."""

_REASONS: Final = {
    "_MSG_TIMED_OUT": "timeout",
    "_TIMED_OUT": "timeout",
    "_TIMED_OUT_QUEUE": "timeout",
    "_TRANSPORT": "reset",
    "_ALL_BROKERS_DOWN": "reset",
    "_DESTROY": "closed",
    "_DESTROY_BROKER": "closed",
    "_PURGE_QUEUE": "closed",
    "_PURGE_INFLIGHT": "closed",
    "_RESOLVE": "dns",
    "_SSL": "tls",
}
"""Local codes of librdkafka without an answer -> reason of the transport error. All others are
faults of the protocol: ``protocol``."""

_OF_OPENSSL: Final = ": error:", ":SSL routines:"
"""What OpenSSL writes about a handshake. Where the connection has ended by then too, librdkafka
tells it with the code of that, in some tenth of all cases on a busy machine."""


def answer_of(error: Any, *, dialling: bool = False) -> Answer:
    """Returns the answer for *error*, a ``KafkaError``.

    Args:
        error: Of a delivery report or a connection; librdkafka's local codes begin with ``_``.
        dialling: Whether there was no connection yet; then a reset counts as refused.
    """
    name = error.name()
    text = error.str()[:TEXT_CHARS_MAX]
    code = _ANSWERS.get(name, name)
    if not code.startswith("_"):
        return Acknowledgement("KAFKA", code, text)
    reason = _REASONS.get(code, "protocol")
    if reason == "reset" and all(part in text for part in _OF_OPENSSL):
        reason = "tls"
    if dialling and reason == "reset":
        reason = "refused"
    return TransportError(reason, f"Kafka: {text}")
