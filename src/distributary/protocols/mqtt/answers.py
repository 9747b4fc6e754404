"""Classifies the reason codes of MQTT (section 2.4) as delivered, retried or dead-lettered.

A bare code (``0x87``) is the answer to one message: from PUBACK, PUBREC or PUBCOMP, or for a limit
that the broker named in CONNACK. In CONNACK and DISCONNECT the same code is about the connection,
and retried. A DISCONNECT is the answer to a message only if that was alone in flight and the code
can mean nothing else.
"""

from typing import Final

from distributary.core.policy.acknowledgements import dead_lettered, delivered, retried

_LOGIN: Final = {
    0x01: "unacceptable protocol version (a broker of MQTT 3)",
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "implementation specific error",
    0x84: "unsupported protocol version",
    0x85: "client identifier not valid",
    0x86: "bad user name or password",
    0x87: "not authorized",
    0x88: "server unavailable",
    0x89: "server busy",
    0x8A: "banned",
    0x8C: "bad authentication method",
    0x90: "topic name invalid",
    0x95: "packet too large",
    0x97: "quota exceeded",
    0x99: "payload format invalid",
    0x9A: "retain not supported",
    0x9B: "QoS not supported",
    0x9C: "use another server",
    0x9D: "server moved",
    0x9F: "connection rate exceeded",
}
"""Codes of CONNACK (section 3.2.2.2)."""

_ENDS: Final = {
    0x00: "normal disconnection",
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "implementation specific error",
    0x87: "not authorized",
    0x89: "server busy",
    0x8B: "server shutting down",
    0x8C: "bad authentication method",
    0x8D: "keep alive timeout",
    0x8E: "session taken over",
    0x8F: "topic filter invalid",
    0x90: "topic name invalid",
    0x93: "receive maximum exceeded",
    0x94: "topic alias invalid",
    0x95: "packet too large",
    0x96: "message rate too high",
    0x97: "quota exceeded",
    0x98: "administrative action",
    0x99: "payload format invalid",
    0x9A: "retain not supported",
    0x9B: "QoS not supported",
    0x9C: "use another server",
    0x9D: "server moved",
    0x9E: "shared subscriptions not supported",
    0x9F: "connection rate exceeded",
    0xA0: "maximum connect time",
    0xA1: "subscription identifiers not supported",
    0xA2: "wildcard subscriptions not supported",
}
"""Codes of a broker's DISCONNECT (section 3.14.2.1)."""

RULES_5: Final = (
    delivered("0x00", "Success: PUBACK (QoS 1) or PUBCOMP (QoS 2)"),
    delivered("0x10", "Accepted; the topic has no subscribers"),
    delivered("written", "QoS 0: the message was written and flushed; there is no acknowledgement"),
    retried("0x80", "Unspecified error"),
    retried("0x83", "Implementation specific error"),
    dead_lettered("0x87", "Not authorized to publish there"),
    dead_lettered("0x90", "Topic name invalid"),
    retried("0x91", "Packet identifier in use"),
    retried("0x92", "Packet identifier not found: the broker has forgotten the message"),
    dead_lettered("0x95", "Packet too large for the broker"),
    retried("0x97", "Quota exceeded"),
    dead_lettered("0x99", "Payload format invalid"),
    dead_lettered("0x9A", "Retain not supported"),
    dead_lettered("0x9B", "QoS not supported"),
    *(retried(f"CONNACK 0x{code:02X}", f"Login refused: {why}") for code, why in _LOGIN.items()),
    *(retried(f"DISCONNECT 0x{code:02X}", f"Ended: {why}") for code, why in _ENDS.items()),
    retried("other", "A code that the standard does not have"),
)
"""Every answer of MQTT 5 with its meaning; ``other`` stands for the rest."""

RULES_3: Final = (
    delivered("accepted", "PUBACK (QoS 1) or PUBCOMP (QoS 2): the broker has accepted the message"),
    delivered("written", "QoS 0: the message was written and flushed; there is no acknowledgement"),
    retried("CONNACK 1", "Login refused: unacceptable protocol version"),
    retried("CONNACK 2", "Login refused: identifier rejected"),
    retried("CONNACK 3", "Login refused: server unavailable"),
    retried("CONNACK 4", "Login refused: bad user name or password"),
    retried("CONNACK 5", "Login refused: not authorized"),
    retried("other", "A code that the standard does not have"),
)
"""Every answer of MQTT 3.1.1, which can refuse only the login (section 3.2.2.3). A message is
acknowledged (PUBACK, PUBCOMP) or the connection ends, which is no answer."""
