"""Base classes of the realized ``protocolsettings``, as typed values.

Made by ``subscriptions.resource`` from a subscription; read by the transports. Plain hashable
values, part of a ``Destination``. Each protocol has its own class
(``protocols.<name>.settings``).
"""

import abc
from dataclasses import dataclass
from typing import TypeAlias

Scalar: TypeAlias = str | int | bool | float
"""Type of an entry in a setting that is a map."""


@dataclass(frozen=True, slots=True)
class SinkSettings(abc.ABC):
    """Settings of a delivery protocol."""

    @property
    @abc.abstractmethod
    def place(self) -> str | None:
        """Identifies the sink at its broker; None: the URI alone identifies it."""


@dataclass(frozen=True, slots=True)
class BrokerSettings(SinkSettings):
    """Settings of a delivery protocol with brokers."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """Identifies the sink at its broker."""
