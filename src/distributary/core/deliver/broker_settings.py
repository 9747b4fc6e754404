"""How a sink is spoken to: the realized ``protocolsettings`` as typed values.

Made by ``subscriptions.resource`` from a subscription; read by the transports.
Hides nothing; they are plain values, hashable, and part of a ``Destination``. Each protocol has a
class of its own (``protocols.<name>.settings``).
"""

import abc
from dataclasses import dataclass
from typing import TypeAlias

Scalar: TypeAlias = str | int | bool | float
"""What an entry of a setting that is a map may be."""


@dataclass(frozen=True, slots=True)
class SinkSettings(abc.ABC):
    """Settings of a delivery protocol."""

    @property
    @abc.abstractmethod
    def place(self) -> str | None:
        """What tells one sink at the broker from another; None: the URI names the whole sink."""


@dataclass(frozen=True, slots=True)
class BrokerSettings(SinkSettings):
    """Settings of a delivery protocol whose sinks are places at a broker."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """What tells one sink at the broker from another."""
