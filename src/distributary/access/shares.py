"""What a namespace leaves to the others of places that all of them share.

A holder of places is a namespace, or several, where a sender acts in all of them: see
``Identity.holder``.

Callers: whoever bounds such places: the receivers, the AMQP port, the Kubernetes API.
"""

from typing import Final

TENANT_SHARE: Final = 4
"""Once half of all places are taken, a namespace that has a quarter of all gets no more: another
one finds a place, and one that is alone may have half."""

_SHOWN_MAX: Final = 5
"""Namespaces that a refusal names: a key may be for a hundred."""


def has_its_share(own: int, taken: int, places: int) -> bool:
    """Whether a namespace has to leave the rest to others.

    Args:
        own: Places that it has.
        taken: Places that all have.
        places: All of them.
    """
    return 2 * taken >= places and TENANT_SHARE * own >= places


def whose(holder: str) -> str:
    """Who *holder* is, for people: ``the namespace shop``."""
    first, *others = holder.split(",")
    if not others:
        return f"the namespace {first}"
    shown = ", ".join((first, *others)[:_SHOWN_MAX])
    more = 1 + len(others) - _SHOWN_MAX
    return f"the namespaces {shown} and {more} more" if more > 0 else f"the namespaces {shown}"
