"""What the answers of MQTT 3.1.1 mean.

The protocol has a no for the login alone (section 3.2.2.3). A message is taken (PUBACK, PUBCOMP)
or the connection ends, which is no answer.
"""

from typing import Final

from distributary.policy.acknowledgements._rule import delivered, retried

RULES: Final = (
    delivered("accepted", "PUBACK (QoS 1) or PUBCOMP (QoS 2): the broker has taken the message"),
    delivered("written", "QoS 0: the message was written and flushed; nothing more is known"),
    retried("CONNACK 1", "Login refused: unacceptable protocol version"),
    retried("CONNACK 2", "Login refused: identifier rejected"),
    retried("CONNACK 3", "Login refused: server unavailable"),
    retried("CONNACK 4", "Login refused: bad user name or password"),
    retried("CONNACK 5", "Login refused: not authorized"),
    retried("other", "A code that the standard does not have"),
)
"""Every answer with what it means; ``other`` stands for the rest."""
