"""Reconnects that start with a window of 1, to isolate a poison message.

Called by the transports whose brokers end a connection over one message (MQTT, AMQP).
"""

from collections.abc import Hashable
from typing import Final

SLOW_START_S: Final = 10.0
"""Duration of a slow start; and lifetime below which the end of a connection (or a link) is
attributed to a message, whatever the reason given: a restarting broker ends no two connections
within this."""

SLOW_START_KEYS_MAX: Final = 1_024
"""Keys whose next connection is to slow-start; the oldest is dropped."""


class SlowStart:
    """The keys (see ``BrokerTransport``) whose next connection is to slow-start."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[Hashable, None] = {}

    def __contains__(self, key: Hashable) -> bool:
        """Whether the next connection of *key* is to slow-start."""
        return key in self._keys

    def note(self, key: Hashable, slow_start: bool) -> None:
        """Record whether the next connection of *key* is to slow-start."""
        self._keys.pop(key, None)
        if slow_start:
            if len(self._keys) >= SLOW_START_KEYS_MAX:
                del self._keys[next(iter(self._keys))]
            self._keys[key] = None
