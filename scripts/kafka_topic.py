"""The settings of the topics on Kafka, as tables for people."""

import clauses

from distributary.core.log.kafka import recalled_topic
from distributary.core.log.kafka.topics import MADE, REQUIRED


def draw() -> str:
    """What each setting is in a topic that is made, and what becomes of one that differs."""
    rows = (
        (f"`{name}`", f"`{value}`", "refused" if name in REQUIRED else _OTHERWISE[name][0], why)
        for name, value in MADE.items()
        for why in (REQUIRED.get(name) or _OTHERWISE[name][1],)
    )
    return clauses.table(("Setting", "Made as", "Another value is", "Since otherwise"), rows)


def draw_recalled() -> str:
    """What each setting is in the topic of recalled events, when it is made."""
    rows = ((f"`{name}`", f"`{value}`") for name, value in recalled_topic.MADE.items())
    return clauses.table(("Setting", "Made as"), rows)


_OTHERWISE = {
    "max.message.bytes": ("refused if smaller", "records that the receiver accepts are refused"),
    "compression.type": ("warned about", "brokers compress all again"),
}
