"""How a sink is spoken to: the realized ``protocolsettings`` as typed values.

Made by ``subscriptions.resource`` from a subscription; read by the transports.
Hides nothing; they are plain values, hashable, and part of a ``Destination``. Each protocol beside
HTTP has a class of its own (``protocols.<name>.settings``).
"""

import abc
from dataclasses import dataclass, field
from typing import TypeAlias

Scalar: TypeAlias = str | int | bool | float
"""What an entry of a setting that is a map may be."""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """How an event is sent by HTTP.

    Attributes:
        method: ``POST``, ``PUT`` or ``PATCH``.
        headers: Custom header fields, in the order of the subscription. May hold credentials,
            so they are left out of the ``repr``.
    """

    method: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class BrokerSettings(abc.ABC):
    """Settings of a delivery protocol beside HTTP."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """What tells one sink at the broker from another."""
