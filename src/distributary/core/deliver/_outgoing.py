"""What goes out with a delivery that is not its event's own: its name, and its passes.

Called by ``_queue`` for each attempt.
"""

from distributary.core.event import Event
from distributary.core.flow import TTL_ATTRIBUTE, Task


def identity_of(task: Task) -> str:
    """The name of the delivery *task*: the same for each of its attempts, also after a crash.

    Two events that are equal byte for byte have two (decision 24), and so have one event's
    deliveries to two subscriptions.
    """
    partition, offset, index = task.position
    return f"{task.route}.{partition}.{offset}.{index}.{task.checksum:x}.{task.stage:d}"


def with_passes_left(event: Event, ttl: int) -> Event:
    """*event* as it goes to a Broker or Channel of this server: there alone it tells its passes.

    Source:
        Decision 17: subscribers do not see ``knativebrokerttl``.
    """
    return Event({**event.attributes, TTL_ATTRIBUTE: ttl}, event.data)
