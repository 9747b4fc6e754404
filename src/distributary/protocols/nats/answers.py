"""Classifies the answers of NATS as delivered, retried or dead-lettered.

Codes are the server's: the text of an ``-ERR`` line in lower case with hyphens, and the
``err_code`` of JetStream's ``errors.json`` for a publish; three have no name there (``stored``,
``flushed``, ``no-stream``).
"""

from typing import Final

from distributary.core.policy.acknowledgements import dead_lettered, delivered, retried

RULES: Final = (
    # Answers to a message.
    delivered("stored", "PubAck: a stream has stored the message"),
    delivered("duplicate", "PubAck with duplicate: the stream stored it at an earlier attempt"),
    delivered("flushed", "Core NATS: written, and the server has answered a PING behind it"),
    retried("no-stream", "No stream holds the subject, and jetstream: true requires one"),
    retried("no-responders", "Status 503: no subscribers, and no stream holds the subject"),
    retried("no-puback", "The reply is not the acknowledgement of a stream"),
    dead_lettered("maximum-payload-violation", "The message is larger than max_payload"),
    dead_lettered("permissions-violation-for-publish", "This user may not publish there"),
    dead_lettered("invalid-publish-subject", "The subject cannot be published to"),
    # JetStream's err_code.
    retried("10002", "Resource limits of the account are exceeded"),
    retried("10003", "Bad request"),
    retried("10004", "Incomplete results: a part of the cluster does not answer"),
    retried("10008", "JetStream is temporarily unavailable"),
    retried("10009", "The cluster has no leader for this"),
    retried("10023", "Insufficient resources"),
    retried("10028", "Insufficient memory resources"),
    retried("10035", "The account is not found"),
    retried("10039", "JetStream is not enabled for this account"),
    retried("10047", "Insufficient storage resources"),
    retried("10051", "General failure of the stream"),
    dead_lettered("10054", "The message is larger than max_msg_size of the stream"),
    retried("10059", "The stream is not found"),
    retried("10060", "Another stream than the expected one holds the subject"),
    retried("10070", "The last message id of the stream is another one"),
    retried("10071", "The last sequence of the stream is another one"),
    retried("10074", "Replicas are not supported by this server"),
    retried("10076", "JetStream is not enabled"),
    retried("10077", "The stream cannot store it: it is full (discard new), or its disk failed"),
    dead_lettered("10097", "The headers are larger than 64 KiB"),
    dead_lettered("10109", "The stream is sealed: it never accepts a message again"),
    retried("10118", "The stream is offline"),
    retried("10158", "The same message id is being stored"),
    retried("10164", "The last sequence of the stream is another one"),
    retried("10167", "Too many requests"),
    retried("10194", "The stream is offline"),
    # Answers to the connection.
    retried("authorization-violation", "The user, password or token is refused"),
    retried("authentication-timeout", "The server did not finish the login in time"),
    retried("authentication-failure", "The login failed"),
    retried("user-authentication-expired", "The user's permission has expired"),
    retried("user-authentication-revoked", "The user's permission was revoked"),
    retried("account-authentication-expired", "The account has expired"),
    retried("credentials-revoked", "The credentials were revoked"),
    retried("failed-account-registration", "The account cannot be used now"),
    retried(
        "permissions-violation-for-subscription", "This user may not subscribe to acknowledgements"
    ),
    retried("maximum-connections-exceeded", "The server has reached its limit of connections"),
    retried(
        "maximum-account-active-connections-exceeded",
        "The account has reached its limit of connections",
    ),
    retried(
        "maximum-subscriptions-exceeded", "The connection has reached its limit of subscriptions"
    ),
    retried("maximum-control-line-exceeded", "The subject is too long for the server"),
    retried("connection-throttling-is-active-try-again-later", "The server is busy with logins"),
    retried("slow-consumer", "We did not read acknowledgements in time"),
    retried("stale-connection", "The server received nothing from the client for too long"),
    retried("server-shutdown", "The server is shutting down"),
    retried("secure-connection-tls-required", "The server requires TLS"),
    retried(
        "message-headers-not-supported",
        "The server does not support headers, which the event needs",
    ),
    retried("no-responders-requires-headers-support", "The server does not support headers"),
    retried("bad-message-header-detected", "The server cannot read the headers"),
    retried("reserved-internal-subject", "The subject belongs to the server"),
    retried("invalid-client-protocol", "The server does not speak this version"),
    retried("unknown-protocol-operation", "The server cannot parse the client's input"),
    retried("parser-error", "The server cannot parse the client's input"),
    retried("invalid-subject", "The server cannot read the subject"),
    retried("other", "An unknown answer"),
)
"""Every answer with its meaning; ``other`` stands for the rest."""
