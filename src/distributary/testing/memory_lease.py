"""Leases in memory, for holders in one process. Passes ``check_leases``."""

from distributary.core.errors import FencedError, LogLockedError


class MemoryLeases:
    """The holder and the newest generation of each name."""

    def __init__(self) -> None:
        self._holders: dict[str, MemoryLease] = {}
        self._generations: dict[str, int] = {}

    def take(self, name: str) -> "MemoryLease":
        """The lease *name*.

        Raises:
            LogLockedError: It is held.
        """
        if name in self._holders:
            raise LogLockedError(f"{name} is held")
        generation = self._generations[name] = self._generations.get(name, 0) + 1
        lease = self._holders[name] = MemoryLease(self, name, generation)
        return lease

    def usurp(self, name: str) -> None:
        """Take *name* from its holder without notice, as when a lease expires."""
        self._holders.pop(name)

    def holder(self, name: str) -> "MemoryLease | None":
        """Returns the current holder of *name*."""
        return self._holders.get(name)


class MemoryLease:
    """One holder; see ``lease.Lease``."""

    def __init__(self, leases: MemoryLeases, name: str, generation: int) -> None:
        self.generation = generation
        self._leases = leases
        self._name = name

    @property
    def lapsing(self) -> bool:
        """Whether another holder has it."""
        return self._leases.holder(self._name) is not self

    def check(self) -> None:
        """See ``Lease``."""
        if self._leases.holder(self._name) is not self:
            raise FencedError(f"{self._name} has another holder than {self.generation}")

    def release(self) -> None:
        """See ``Lease``."""
        if self._leases.holder(self._name) is self:
            self._leases.usurp(self._name)
