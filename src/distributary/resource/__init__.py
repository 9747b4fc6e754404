"""Resources that people write: their shape, their defaults and their validation. Pure.

Called by ``control`` (which stores them and makes routes of them), ``pipeline`` (which reads
where and how to deliver) and ``api`` (which renders them). Hides what the revisions of a
specification look like and how a fault is found and named. Knows no filter dialect, no clock
and no store: ``Rules`` brings in what is decided elsewhere.
"""

from distributary.resource import api_subscription, patterns
from distributary.resource._broker_settings import (
    SINK_PORTS,
    TLS_SCHEMES,
    AmqpSettings,
    BrokerSettings,
    HttpSettings,
    KafkaSettings,
    MqttSettings,
    NatsSettings,
)
from distributary.resource._certificates import certificates_in
from distributary.resource._credential import (
    CREDENTIAL_TYPES,
    SECRET_MEMBERS,
    Credential,
    CredentialType,
)
from distributary.resource._faults import FAULTS_MAX, Faults
from distributary.resource._json import JSON_DEPTH_MAX, RESOURCE_BYTES_MAX, decode_json
from distributary.resource._origins import Origin, origin_of
from distributary.resource._own import NOWHERE, IsLocal, OwnAddresses, takes_events
from distributary.resource._places import (
    AMQP_ADDRESS_BYTES_MAX,
    KAFKA_TOPIC_CHARS_MAX,
    MQTT_TOPIC_BYTES_MAX,
    NATS_SUBJECT_BYTES_MAX,
)
from distributary.resource._ports import PORTS_DENIED
from distributary.resource._protocol import Check, Protocol, Reading, load, protocols
from distributary.resource._reach import ErrorData, Reach, protocols_allowed
from distributary.resource._rules import FilterCheck, Rules
from distributary.resource._schema import Schema, closed, published, ref
from distributary.resource._shown import is_secret, shown_uri
from distributary.resource._sinks import (
    DENIED_NETWORKS,
    LOCAL_NETWORKS,
    METADATA_NETWORKS,
    OWN_EVENTS,
    OWN_LISTENER,
    PORT_DENIED,
    SinkRule,
)
from distributary.resource._uri import (
    KAFKA_HOSTS_MAX,
    PLACE_SCHEMES,
    REQUEST_SCHEMES,
    URI_CHARS_MAX,
    SinkUri,
    broker_uri,
)
from distributary.resource.api_subscription import (
    ConfigSpec,
    DeadLetterSpec,
    DeliverySpec,
    SubscriptionSpec,
)

__all__ = [
    "AMQP_ADDRESS_BYTES_MAX",
    "CREDENTIAL_TYPES",
    "DENIED_NETWORKS",
    "FAULTS_MAX",
    "JSON_DEPTH_MAX",
    "KAFKA_HOSTS_MAX",
    "KAFKA_TOPIC_CHARS_MAX",
    "LOCAL_NETWORKS",
    "METADATA_NETWORKS",
    "MQTT_TOPIC_BYTES_MAX",
    "NATS_SUBJECT_BYTES_MAX",
    "NOWHERE",
    "OWN_EVENTS",
    "OWN_LISTENER",
    "PLACE_SCHEMES",
    "PORTS_DENIED",
    "PORT_DENIED",
    "REQUEST_SCHEMES",
    "RESOURCE_BYTES_MAX",
    "SECRET_MEMBERS",
    "SINK_PORTS",
    "TLS_SCHEMES",
    "URI_CHARS_MAX",
    "AmqpSettings",
    "BrokerSettings",
    "Check",
    "ConfigSpec",
    "Credential",
    "CredentialType",
    "DeadLetterSpec",
    "DeliverySpec",
    "ErrorData",
    "Faults",
    "FilterCheck",
    "HttpSettings",
    "IsLocal",
    "KafkaSettings",
    "MqttSettings",
    "NatsSettings",
    "Origin",
    "OwnAddresses",
    "Protocol",
    "Reach",
    "Reading",
    "Rules",
    "Schema",
    "SinkRule",
    "SinkUri",
    "SubscriptionSpec",
    "api_subscription",
    "broker_uri",
    "certificates_in",
    "closed",
    "decode_json",
    "is_secret",
    "load",
    "origin_of",
    "patterns",
    "protocols",
    "protocols_allowed",
    "published",
    "ref",
    "shown_uri",
    "takes_events",
]
