"""Classifies the error codes of Kafka as delivered, retried or dead-lettered.

Codes are those of the Kafka protocol, by librdkafka's names. Errors about a record, or about the
right to write it, are permanent; all others are about brokers, and transient.
"""

from typing import Final

from distributary.core.policy.acknowledgements import dead_lettered, delivered, retried

RULES: Final = (
    delivered("NO_ERROR", "As many brokers as `acks` requires have the record"),
    delivered("DUPLICATE_SEQUENCE_NUMBER", "The broker has the record already"),
    dead_lettered("MSG_SIZE_TOO_LARGE", "The record is larger than the limit of the topic"),
    dead_lettered("INVALID_MSG_SIZE", "The size of the record is invalid"),
    dead_lettered("INVALID_RECORD", "The topic refuses such a record (compacted, and no key)"),
    dead_lettered("INVALID_TIMESTAMP", "The time of the record is out of the topic's range"),
    dead_lettered("POLICY_VIOLATION", "A policy of the cluster refuses the record"),
    dead_lettered("TOPIC_EXCEPTION", "The name of the topic is invalid, or the topic is read-only"),
    dead_lettered("TOPIC_AUTHORIZATION_FAILED", "This account must not write to the topic"),
    dead_lettered("INVALID_REQUIRED_ACKS", "The cluster does not know this `acks`"),
    dead_lettered("UNSUPPORTED_FOR_MESSAGE_FORMAT", "The topic is in a format without headers"),
    dead_lettered("UNSUPPORTED_COMPRESSION_TYPE", "The topic refuses this compression"),
    retried("UNKNOWN_TOPIC_OR_PART", "The topic does not exist"),
    retried("UNKNOWN_TOPIC_ID", "The topic was recreated"),
    retried("RECORD_LIST_TOO_LARGE", "The record's batch was too large; the record may not be"),
    retried("INVALID_MSG", "The record arrived damaged"),
    retried("NOT_ENOUGH_REPLICAS", "Fewer replicas are in sync than the topic requires"),
    retried("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "Written, but to fewer replicas than required"),
    retried("REQUEST_TIMED_OUT", "The replicas were too slow"),
    retried("LEADER_NOT_AVAILABLE", "The partition has no leader at the moment"),
    retried("ELIGIBLE_LEADERS_NOT_AVAILABLE", "No replica can become the partition's leader"),
    retried("NOT_LEADER_FOR_PARTITION", "The partition has moved to another broker"),
    retried("FENCED_LEADER_EPOCH", "The partition has moved to another broker"),
    retried("UNKNOWN_LEADER_EPOCH", "The broker does not know yet that it leads the partition"),
    retried("REPLICA_NOT_AVAILABLE", "The partition's replica is not there"),
    retried("BROKER_NOT_AVAILABLE", "The broker is not available"),
    retried("STALE_BROKER_EPOCH", "The broker has just restarted"),
    retried("NETWORK_EXCEPTION", "The broker lost a connection to another broker"),
    retried("KAFKA_STORAGE_ERROR", "The broker's disk fails"),
    retried("LOG_DIR_NOT_FOUND", "The broker's disk is not there"),
    retried("THROTTLING_QUOTA_EXCEEDED", "More than this client may send"),
    retried("COORDINATOR_LOAD_IN_PROGRESS", "The cluster is not ready yet"),
    retried("COORDINATOR_NOT_AVAILABLE", "The cluster is not ready yet"),
    retried("NOT_COORDINATOR", "Another broker coordinates now"),
    retried("NOT_CONTROLLER", "Another broker is the controller now"),
    retried("REBOOTSTRAP_REQUIRED", "The brokers of the cluster have changed"),
    retried(
        "OUT_OF_ORDER_SEQUENCE_NUMBER", "The broker misses earlier records; the client reconnects"
    ),
    retried("UNKNOWN_PRODUCER_ID", "The broker has forgotten this producer; the client reconnects"),
    retried("INVALID_PRODUCER_ID_MAPPING", "The broker has forgotten this producer"),
    retried("INVALID_PRODUCER_EPOCH", "This producer was replaced; the client reconnects"),
    retried("PRODUCER_FENCED", "This producer was replaced; the client reconnects"),
    retried("CLUSTER_AUTHORIZATION_FAILED", "This account may not use the cluster"),
    retried("SASL_AUTHENTICATION_FAILED", "The account or its password or token is refused"),
    retried("UNSUPPORTED_SASL_MECHANISM", "The cluster does not support this SASL mechanism"),
    retried("ILLEGAL_SASL_STATE", "The cluster expects another SASL exchange"),
    retried("UNSUPPORTED_VERSION", "The broker is too old or too new"),
    retried("INVALID_REQUEST", "The broker refuses the request as a whole"),
    retried("UNKNOWN", "The broker failed"),
    retried("other", "An unknown answer"),
)
"""Every answer with its meaning; ``other`` stands for the rest."""
