"""Every error of librdkafka comes to an answer of the cluster, or to why there was none."""

import pytest
from confluent_kafka import KafkaError

from distributary.core.errors import TransportError
from distributary.core.policy import Acknowledgement
from distributary.core.policy.acknowledgements import acknowledgement_rule
from distributary.protocols.kafka import answers as kafka
from distributary.protocols.kafka.sink import answer_of

REASONS = {"refused", "reset", "timeout", "dns", "tls", "protocol", "closed"}

ERRORS = {
    name: KafkaError(getattr(KafkaError, name))
    for name in dir(KafkaError)
    if name.lstrip("_")[:1].isupper() and isinstance(getattr(KafkaError, name), int)
}


def test_there_are_errors_to_look_at():
    """The names are those of the library."""
    assert len(ERRORS) > 150


@pytest.mark.parametrize("name", [row.code for row in kafka.RULES if row.code != "other"])
def test_every_row_is_the_name_of_an_error(name):
    """So that no row waits for what never comes."""
    assert ERRORS[name].name() == name
    assert acknowledgement_rule(answer_of(ERRORS[name])).code == name


def test_every_error_has_an_answer():
    """What brokers say is an acknowledgement, what the client finds by itself an error."""
    for name, error in ERRORS.items():
        answer = answer_of(error)
        if isinstance(answer, TransportError):
            assert name.startswith("_")
            assert answer.reason in REASONS
            assert answer.retryable
        else:
            assert isinstance(answer, Acknowledgement)
            assert answer.protocol == "KAFKA"
            assert not answer.code.startswith("_")


@pytest.mark.parametrize(
    ("name", "reason", "dialling"),
    [
        ("_MSG_TIMED_OUT", "timeout", "timeout"),
        ("_TIMED_OUT", "timeout", "timeout"),
        ("_TRANSPORT", "reset", "refused"),
        ("_ALL_BROKERS_DOWN", "reset", "refused"),
        ("_RESOLVE", "dns", "dns"),
        ("_SSL", "tls", "tls"),
        ("_PURGE_QUEUE", "closed", "closed"),
        ("_PURGE_INFLIGHT", "closed", "closed"),
        ("_BAD_MSG", "protocol", "protocol"),
    ],
)
def test_reasons(name, reason, dialling):
    """A connection that breaks before it stands was refused."""
    assert answer_of(ERRORS[name]).reason == reason
    assert answer_of(ERRORS[name], dialling=True).reason == dialling


@pytest.mark.parametrize("dialling", [False, True])
def test_a_handshake_that_failed_is_told_by_its_text(dialling):
    """Its code is that of a connection that has ended, where both came at once."""
    text = (
        "sasl_ssl://localhost:9093/bootstrap: error:0A000086:SSL routines::certificate verify"
        " failed (after 6ms in state SSL_HANDSHAKE)"
    )
    error = KafkaError(KafkaError._TRANSPORT, text)

    assert answer_of(error, dialling=dialling).reason == "tls"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART"),
        ("_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART"),
        ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"),
        ("_ISR_INSUFF", "NOT_ENOUGH_REPLICAS"),
        ("_FENCED", "PRODUCER_FENCED"),
    ],
)
def test_conclusions_of_the_client_are_the_brokers_word(name, code):
    """Whichever of the two says it, the same row stands."""
    assert answer_of(ERRORS[name]).code == code


def test_a_code_that_nobody_knows_is_other():
    """A newer broker than the library."""
    assert acknowledgement_rule(answer_of(KafkaError(999))).code == "other"


def test_text_is_cut():
    """Whatever the broker says, a line of a log is enough."""
    error = KafkaError(KafkaError.POLICY_VIOLATION, "x" * 1_000)

    assert len(answer_of(error).text) == 256
