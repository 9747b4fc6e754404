"""The network below the protocols: address rule, resolver, connector, and shared deadlines."""

from distributary.net._addresses import (
    DENIED,
    METADATA,
    OWN,
    AddressRule,
    is_private,
    parse_networks,
)
from distributary.net._connector import Connector, hand_over
from distributary.net._exchange import exchange
from distributary.net._resolver import CachingResolver, Resolver, SystemResolver
from distributary.net._wheel import TICK_S, Wheel
from distributary.net.own_nodes import OwnNodes
