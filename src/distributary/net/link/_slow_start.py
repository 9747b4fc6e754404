"""Reconnects that start with a window of 1, to isolate a poison message.

Called by the transports whose brokers end a connection over one message (MQTT, AMQP).
"""

from collections.abc import Hashable
from typing import Final

SLOW_START_S: Final = 10.0
"""How long a connection (or a link) takes one message at a time after one that a message may have
ended; and how soon after its beginning an end is put down to a message, whatever the broker says:
one that restarts does not end two connections within this."""

SLOW_START_KEYS_MAX: Final = 1_024
"""Connections of which is remembered that the next one is to slow-start; the oldest goes."""


class SlowStart:
    """The keys (see ``BrokerTransport``) whose next connection is to slow-start."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[Hashable, None] = {}

    def __contains__(self, key: Hashable) -> bool:
        """Whether the next connection of *key* is to slow-start."""
        return key in self._keys

    def note(self, key: Hashable, slow_start: bool) -> None:
        """Remember how the next connection of *key* is to begin."""
        self._keys.pop(key, None)
        if slow_start:
            if len(self._keys) >= SLOW_START_KEYS_MAX:
                del self._keys[next(iter(self._keys))]
            self._keys[key] = None
