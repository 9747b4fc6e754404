"""The transports of an owner, one for each delivery protocol.

Their client libraries are imported when the first connection is opened: an owner that delivers
by HTTP alone holds none of them.
"""

import asyncio

from distributary.core.clock import SystemClock
from distributary.core.deliver import Transport
from distributary.core.protocol import load, protocols
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from distributary.resource import Reach


def make_transports(loop: asyncio.AbstractEventLoop, reach: Reach) -> dict[str, Transport]:
    """Transports by delivery protocol, all behind one connector with the address rule.

    Args:
        loop: Runs them.
        reach: Where events may go (decision 22).
    """
    clock = SystemClock()
    connector = Connector(AddressRule.of(reach), CachingResolver(SystemResolver(), clock))
    sinks = {each.sink for each in protocols().values()}
    made = {sink: load(sink)(connector, clock, loop, reach) for sink in sinks}
    return {name: made[each.sink] for name, each in protocols().items()}
