"""Which sources a node runs where several share them: about as many as each other one. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Step(NamedTuple):
    """What a node does next.

    Attributes:
        take: Sources whose leases it tries to take.
        give: Sources that it lets another node have.
    """

    take: tuple[str, ...] = ()
    give: tuple[str, ...] = ()


def next_step(
    names: Sequence[str], held: Mapping[str, str], runners: Mapping[str, int], own: str
) -> Step:
    """Returns what the node *own* does about its sources.

    A node takes as long as it has fewer than its share rounded down, and one more where none has
    fewer. One that has two more than another gives half of the difference: numbers come to differ
    by one at most, and nobody takes back what it gave.

    Args:
        names: Of all sources, as this node's settings have them.
        held: Source -> the node that holds its lease.
        runners: Node -> how many it holds, of all that run sources; this one is among them.
        own: Name of this node.
    """
    mine = [name for name in names if held.get(name) == own]
    fewest = min(runners.values(), default=0)
    excess = (len(mine) - fewest) // 2
    if excess > 0:
        return Step(give=tuple(mine[-excess:]))
    free = [name for name in names if name not in held]
    share = len(names) // max(1, len(runners))
    wanted = max(share - len(mine), 1 if len(mine) <= fewest else 0)
    if not free or wanted <= 0:
        return Step()
    # Nodes begin at different places, so that they seldom want the same one.
    first = sorted(runners).index(own) * max(1, share) % len(free)
    return Step(take=tuple((free[first:] + free[:first])[:wanted]))
