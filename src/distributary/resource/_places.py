"""How long the names of places at brokers may be: topics, addresses, subjects."""

from typing import Final

MQTT_TOPIC_BYTES_MAX: Final = 65_535
"""Longest MQTT topic in UTF-8: what its two bytes of length can say (MQTT 5, section 1.5.4)."""

AMQP_ADDRESS_BYTES_MAX: Final = 1024
"""Longest AMQP address in UTF-8. Brokers keep names of at most 255 bytes; some address forms have
two of them and a prefix."""

KAFKA_TOPIC_CHARS_MAX: Final = 249
"""Longest name of a Kafka topic: Kafka's own limit."""

NATS_SUBJECT_BYTES_MAX: Final = 2048
"""Longest NATS subject in UTF-8: with a reply subject it fits into the 4 KiB that servers take for
one line of their protocol."""
