"""Contract suite of ``lease.Lease``."""

from collections.abc import Callable
from typing import Protocol

from distributary.core.errors import FencedError, LogLockedError
from distributary.core.lease import Lease


class Leases(Protocol):
    """The leases under test."""

    def take(self, name: str) -> Lease:
        """The lease *name*.

        Raises:
            LogLockedError: It is held.
        """
        ...

    def usurp(self, name: str) -> None:
        """Make it possible to take *name*, whose holder does not notice."""
        ...


def _locked(leases: Leases, name: str) -> bool:
    try:
        leases.take(name).release()
    except LogLockedError:
        return True
    return False


def _fenced(lease: Lease) -> bool:
    try:
        lease.check()
    except FencedError:
        return True
    return False


def check_one_holder_at_a_time(leases: Leases) -> None:
    """A second holder is refused until the first has released."""
    first = leases.take("a")
    assert _locked(leases, "a")
    first.check()
    first.release()
    leases.take("a").release()


def check_names_are_apart(leases: Leases) -> None:
    """Leases of different names are independent."""
    first, other = leases.take("a"), leases.take("b")
    for lease in (first, other):
        lease.check()
        lease.release()


def check_generations_rise(leases: Leases) -> None:
    """Each holder has a higher generation than all before it."""
    generations = []
    for _ in range(3):
        lease = leases.take("a")
        generations.append(lease.generation)
        lease.release()
    assert generations == sorted(set(generations))
    assert generations[0] >= 1


def check_who_lost_the_name_is_fenced(leases: Leases) -> None:
    """A holder that missed the end of its lease detects it before a write takes effect."""
    old = leases.take("a")
    leases.usurp("a")
    assert _fenced(old)
    new = leases.take("a")
    assert _fenced(old)
    new.check()
    old.release()  # late: without effect
    new.check()
    assert _locked(leases, "a")
    new.release()


CHECKS: tuple[Callable[[Leases], None], ...] = (
    check_one_holder_at_a_time,
    check_names_are_apart,
    check_generations_rise,
    check_who_lost_the_name_is_fenced,
)
"""Every check; each needs new leases."""
