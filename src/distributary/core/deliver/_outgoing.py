"""What a delivery adds to its event: the delivery's identity, and the hops that are left.

Called by ``_queue`` for each attempt.
"""

from distributary.core.event import Event
from distributary.core.flow import TTL_ATTRIBUTE, Task


def identity_of(task: Task, *, at_broker: bool) -> str:
    """The identity of the delivery *task*: equal for all its attempts, also after a crash.

    Two events that are equal byte for byte have different ones (decision 24, identity), and so have
    the deliveries of one event to two subscriptions. A replay keeps that of the delivery before
    (decision 16), so that whoever asks for it can tell; but not at a broker, which would take the
    message for one that it has and store nothing.
    """
    partition, offset, index = task.position
    identity = f"{task.route}.{partition}.{offset}.{index}.{task.checksum:x}.{task.stage:d}"
    return f"{identity}.{task.replay}" if at_broker and task.replay else identity


def with_passes_left(event: Event, ttl: int) -> Event:
    """*event* with its hop count, for a Broker or Channel of this server.

    Source:
        Decision 17 (hop limit): subscribers do not see ``knativebrokerttl``.
    """
    return Event({**event.attributes, TTL_ATTRIBUTE: ttl}, event.data)
