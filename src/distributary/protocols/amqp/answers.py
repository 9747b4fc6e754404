"""Classifies the answers of AMQP as delivered, retried or dead-lettered.

Codes are outcomes (``accepted``), or the origin of an error condition and the condition: the
outcome ``rejected``, the end of the ``link`` or of the ``connection``; ``sasl-`` codes are those of
the login. An error condition without its own row has the row of its origin.

Source:
    OASIS AMQP 1.0, 2.8.14 to 2.8.18 (error conditions), 3.4 (outcomes), 5.3.3.6 (SASL codes).
"""

from typing import Final

from distributary.core.policy.acknowledgements import dead_lettered, delivered, retried

RULES: Final = (
    delivered("accepted", "The broker has accepted the message"),
    retried("released", "The broker did not accept the message, without a reason"),
    retried("modified", "The broker did not accept the message, but may do so later"),
    dead_lettered("modified undeliverable-here", "The message cannot be delivered at this address"),
    retried("settled", "The broker settled the message without an outcome"),
    retried("rejected", "No reason given: RabbitMQ 4 does so when a queue is full"),
    dead_lettered("rejected other", "Refused with an unknown error condition"),
    retried("rejected amqp:internal-error", "The broker failed"),
    retried("rejected amqp:not-found", "The address, or what it leads to, does not exist"),
    retried("rejected amqp:resource-deleted", "The address was deleted"),
    retried("rejected amqp:resource-limit-exceeded", "The queue is full, or a quota is used up"),
    retried("rejected amqp:resource-locked", "Another client has exclusive access to the queue"),
    retried("rejected amqp:illegal-state", "Not possible in the broker's present state"),
    dead_lettered("rejected amqp:unauthorized-access", "This user may not send there"),
    dead_lettered("rejected amqp:not-allowed", "Such messages are not allowed there"),
    dead_lettered("rejected amqp:decode-error", "The message cannot be read"),
    dead_lettered("rejected amqp:invalid-field", "A field of the message is not valid there"),
    dead_lettered(
        "rejected amqp:not-implemented", "The message needs a feature that the broker lacks"
    ),
    dead_lettered("rejected amqp:precondition-failed", "A condition of the message does not hold"),
    dead_lettered("rejected amqp:link:message-size-exceeded", "The message is too large"),
    retried("link", "The broker has ended the link, for an unknown reason"),
    retried("link amqp:internal-error", "The broker failed"),
    retried("link amqp:not-found", "The address does not exist"),
    retried("link amqp:resource-deleted", "The address was deleted"),
    retried("link amqp:resource-limit-exceeded", "The queue is full, or a quota is used up"),
    retried("link amqp:resource-locked", "Another client has exclusive access to the address"),
    retried("link amqp:illegal-state", "Not possible in the broker's present state"),
    retried("link amqp:link:detach-forced", "An operator has ended the link, or it was idle"),
    retried("link amqp:link:transfer-limit-exceeded", "More was sent than the broker allowed"),
    retried("link amqp:link:redirect", "The address has moved; redirects are not followed"),
    retried("link amqp:link:stolen", "Another client has taken the link by its name"),
    dead_lettered("link amqp:unauthorized-access", "This user may not send to this address"),
    dead_lettered("link amqp:not-allowed", "Sending to this address is not allowed"),
    dead_lettered("link amqp:not-implemented", "The broker lacks a feature that the link requires"),
    dead_lettered("link amqp:invalid-field", "The address or a property of the link is not valid"),
    dead_lettered(
        "link amqp:precondition-failed", "The address does not meet a condition of the link"
    ),
    dead_lettered("link amqp:decode-error", "The message cannot be read"),
    dead_lettered("link amqp:link:message-size-exceeded", "The message is too large"),
    retried("connection", "The broker has closed the connection"),
    retried("connection amqp:connection:forced", "An operator closes connections"),
    retried("connection amqp:resource-limit-exceeded", "The broker has too many connections"),
    retried("connection amqp:unauthorized-access", "The broker does not authorize this login"),
    retried("connection amqp:not-allowed", "The broker does not allow this connection"),
    retried("connection amqp:not-found", "The broker does not know the host of the URI"),
    retried("connection amqp:internal-error", "The broker failed"),
    retried(
        "connection amqp:connection:redirect", "The broker has moved; redirects are not followed"
    ),
    retried("sasl-auth", "User, password or token are wrong"),
    retried("sasl-sys", "The broker could not check the login"),
    retried("sasl-sys-perm", "The broker cannot check the login: a permanent fault"),
    retried("sasl-sys-temp", "The broker cannot check the login for now"),
    retried("sasl-mechanism", "The broker offers no way to log in with this credential"),
    retried("other", "An unknown answer"),
)
"""Every answer with its meaning; ``other`` stands for the rest."""
