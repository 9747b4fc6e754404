"""Which module reads which protocol; each is imported when the first source of it is made.

Client libraries cost 5 to 40 MB and tenths of a second each, and most servers have one or none.
"""

import importlib
from typing import Final, Protocol, cast

from distributary.clock import Clock
from distributary.consumer import Consumer, SourceSpec
from distributary.deliver import Connector

_MODULES: Final = {
    "MQTT3": "mqtt",
    "MQTT5": "mqtt",
    "AMQP": "amqp",
    "KAFKA": "kafka",
    "NATS": "nats",
}


class _Module(Protocol):
    def make(self, spec: SourceSpec, connector: Connector, clock: Clock) -> Consumer: ...


def make_consumer(spec: SourceSpec, connector: Connector, clock: Clock) -> Consumer:
    """A consumer for *spec*, by the module of its protocol.

    Args:
        spec: Checked.
        connector: Dials; decides which addresses are allowed.
        clock: For deadlines.

    Raises:
        ImportError: The client library is not installed.
    """
    name = f"distributary.protocols.{_MODULES[spec.protocol]}.source"
    return cast("_Module", importlib.import_module(name)).make(spec, connector, clock)
