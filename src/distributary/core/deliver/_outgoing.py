"""What a delivery adds to its event: the delivery's identity, and the hops that are left.

Called by ``_queue`` for each attempt.
"""

from distributary.core.event import Event
from distributary.core.flow import TTL_ATTRIBUTE, Task


def identity_of(task: Task) -> str:
    """The identity of the delivery *task*: equal for all its attempts, also after a crash.

    Two events that are equal byte for byte have different ones (decision 24, identity), and so have
    the deliveries of one event to two subscriptions.
    """
    partition, offset, index = task.position
    return f"{task.route}.{partition}.{offset}.{index}.{task.checksum:x}.{task.stage:d}"


def with_passes_left(event: Event, ttl: int) -> Event:
    """*event* with its hop count, for a Broker or Channel of this server.

    Source:
        Decision 17 (hop limit): subscribers do not see ``knativebrokerttl``.
    """
    return Event({**event.attributes, TTL_ATTRIBUTE: ttl}, event.data)
