"""What a namespace leaves to the others of places that all of them share.

Callers: whoever bounds such places: the receivers, the AMQP port, the Kubernetes API.
"""

from typing import Final

TENANT_SHARE: Final = 4
"""Once half of all places are taken, a namespace that has a quarter of all gets no more: another
one finds a place, and one that is alone may have half."""


def has_its_share(own: int, taken: int, places: int) -> bool:
    """Whether a namespace has to leave the rest to others.

    Args:
        own: Places that it has.
        taken: Places that all have.
        places: All of them.
    """
    return 2 * taken >= places and TENANT_SHARE * own >= places
