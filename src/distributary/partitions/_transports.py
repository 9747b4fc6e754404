"""Makes the transports of all delivery protocols.

Client libraries are imported with the first connection: delivery by HTTP alone loads none of them.
"""

import asyncio
from collections.abc import Callable

from distributary.core.clock import SystemClock
from distributary.core.deliver import UNREADABLE, Destination, Done, Transport
from distributary.core.errors import ProtocolUnavailableError, TransportError
from distributary.core.event import Event
from distributary.core.policy import acknowledgement_rules
from distributary.core.protocol import Reference, load, package, protocols
from distributary.net import AddressRule, CachingResolver, Connector, OwnNodes, SystemResolver
from distributary.resource import Reach

_reported: set[str] = set()
"""Packages that this process has reported: every epoch has a new owner."""


def make_transports(
    loop: asyncio.AbstractEventLoop,
    reach: Reach,
    warn: Callable[[str, dict[str, object]], None],
    nodes: OwnNodes | None = None,
) -> dict[str, Transport]:
    """Returns transports by delivery protocol, with one connector that enforces the address rule.

    A package whose sink cannot be made fails the deliveries of its protocol alone: each attempt
    fails with the reason, and is retried by the policy of its subscription.

    Args:
        loop: Event loop of the transports.
        reach: Where events may be sent (decision 22, private addresses).
        warn: Takes a line for people about each such package, once a process: (event, fields).
        nodes: How this server's own receivers are reached from another machine; None: from none.

    Raises:
        Exception: The sink of a protocol of this project cannot be made: the installation is
            broken.
    """
    clock = SystemClock()
    resolver = CachingResolver(SystemResolver(), clock)
    connector = Connector(AddressRule.of(reach), resolver, nodes=nodes)
    made: dict[Reference, Transport] = {}
    transports: dict[str, Transport] = {}
    for name, each in protocols().items():
        try:
            if package(name):
                acknowledgement_rules(name)  # else the first answer would find out
            if each.sink not in made:
                made[each.sink] = load(each.sink)(connector, clock, loop, reach)
            transports[name] = made[each.sink]
        except Exception as error:
            if not package(name):
                raise
            reason = f"{type(error).__name__}: {error}"
            refusal = ProtocolUnavailableError(package(name), each.sink, reason)
            transports[name] = _Unavailable(loop, str(refusal))
            if str(refusal) not in _reported:
                _reported.add(str(refusal))
                warn(refusal.code, {"protocol": name, "reason": str(refusal)})
    return transports


class _Unavailable(Transport):
    """Stands for a transport that cannot be made: every attempt fails, and may be made again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reason: str) -> None:
        self._loop = loop
        self._reason = reason

    def send(
        self,
        event: Event,  # noqa: ARG002
        destination: Destination,  # noqa: ARG002
        timeout_s: float,  # noqa: ARG002
        done: Done,
        identity: str = "",  # noqa: ARG002
        *,
        carried: bytes = b"",  # noqa: ARG002
    ) -> None:
        self._loop.call_soon(done, TransportError(UNREADABLE, self._reason))

    async def close(self) -> None:
        """Nothing is open."""
