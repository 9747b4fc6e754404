"""The transports of an owner, one for each delivery protocol.

Their client libraries are imported when the first connection is opened: an owner that delivers
by HTTP alone holds none of them.
"""

import asyncio
from collections.abc import Callable

from distributary.core.clock import SystemClock
from distributary.core.deliver import UNREADABLE, Destination, Done, Transport
from distributary.core.errors import ProtocolUnavailableError, TransportError
from distributary.core.event import Event
from distributary.core.policy import acknowledgement_rules
from distributary.core.protocol import Reference, load, package, protocols
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from distributary.resource import Reach

_reported: set[str] = set()
"""What was reported by this process: an owner is made anew for every epoch."""


def make_transports(
    loop: asyncio.AbstractEventLoop,
    reach: Reach,
    report: Callable[[str, dict[str, object]], None],
) -> dict[str, Transport]:
    """Transports by delivery protocol, all behind one connector with the address rule.

    A package whose sink cannot be made costs the deliveries of its own protocol alone: each attempt
    fails with the reason, and is made again by the policy of its subscription.

    Args:
        loop: Runs them.
        reach: Where events may go (decision 22).
        report: Takes one line for people about each such package, once a process: (event, fields).

    Raises:
        Exception: The sink of a protocol of this project cannot be made: the installation is
            broken.
    """
    clock = SystemClock()
    connector = Connector(AddressRule.of(reach), CachingResolver(SystemResolver(), clock))
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
                report(refusal.code, {"protocol": name, "reason": str(refusal)})
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
