"""The table of nodes, and the lease by which one leads, in memory and in virtual time."""

from collections.abc import Callable

from distributary.core.errors import LogLockedError, StoreError
from distributary.server.nodes import LIVE_S, NodeRow, NodeSign, Seen

TTL_S = 6.0
MARGIN_S = 1.0


class MemoryNodes:
    """``Nodes`` that several tests' nodes share.

    Args:
        now_s: Virtual time: of all of them, and of the database.

    Attributes:
        away: Whether the database cannot be asked.
        addresses: Paths of Brokers and Channels, and their number.
        reports: What tenants use, by node, with the time and the run.
        reports_away: Whether that alone cannot be exchanged.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._signs: dict[str, tuple[float, NodeSign]] = {}
        self.reports_away = False
        self.reports: dict[str, tuple[float, str, bytes]] = {}
        self._access: tuple[int, bytes | None] = (0, None)
        self.addresses: tuple[int, dict[str, str]] = (0, {})
        self.away = False

    def _ask(self) -> None:
        if self.away:
            raise StoreError("the database does not answer")

    def sign(self, sign: NodeSign, *, access: int, addresses: int) -> Seen:
        """See ``Nodes``."""
        self._ask()
        self._signs[sign.name] = self._now_s(), sign
        number, snapshot = self._access
        newest, paths = self.addresses
        return Seen(
            self.rows(),
            snapshot if number > access else None,
            number,
            paths if newest != addresses else None,
            newest,
        )

    def exchange(self, name: str, run: str, report: bytes) -> dict[str, bytes]:
        """See ``Nodes``."""
        self._ask()
        if self.reports_away:
            raise StoreError("the table does not answer")
        now_s = self._now_s()
        self.reports[name] = now_s, run, report
        return {
            run: report
            for other, (seen_s, run, report) in self.reports.items()
            if other != name and now_s - seen_s < LIVE_S
        }

    def rows(self) -> tuple[NodeRow, ...]:
        """See ``Nodes``."""
        self._ask()
        now_s = self._now_s()
        signs = sorted(self._signs.items())
        return tuple(NodeRow(sign, now_s - seen_s) for _, (seen_s, sign) in signs)

    def access_number(self) -> int:
        """See ``Nodes``."""
        self._ask()
        return self._access[0]

    def publish_access(self, number: int, snapshot: bytes) -> None:
        """See ``Nodes``."""
        self._ask()
        if number > self._access[0]:
            self._access = number, snapshot

    def close(self) -> None:
        """See ``Nodes``."""


class MemoryControl:
    """The lease ``control``.

    Args:
        now_s: Virtual time.

    Attributes:
        away: Whether it cannot be asked: nothing is taken, renewed or released.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self.generation = 0
        self.until_s = 0.0
        self.away = False

    def left_s(self) -> float:
        """How long it holds."""
        if self.away:
            raise StoreError("the database does not answer")
        return self.until_s - self.now_s()

    def take(self) -> "MemoryMandate":
        """Take it, for one node."""
        self.left_s()
        if self.now_s() < self.until_s:
            raise LogLockedError(f"generation {self.generation} holds it")
        self.generation += 1
        self.until_s = self.now_s() + TTL_S
        return MemoryMandate(self)


class MemoryMandate:
    """``Mandate`` of a ``MemoryControl``."""

    def __init__(self, control: MemoryControl) -> None:
        self._control = control
        self.generation = control.generation
        self._until_s = control.until_s
        self._lost = False

    @property
    def until_s(self) -> float:
        """See ``Mandate``."""
        return self._until_s - MARGIN_S

    @property
    def lapsing(self) -> bool:
        """See ``Mandate``."""
        return self._lost or self._control.now_s() >= self.until_s

    @property
    def lost(self) -> bool:
        """See ``Mandate``."""
        return self._lost

    def renew(self) -> None:
        """As the thread of a real one does, where the database answers."""
        if self._control.away:
            return
        self._lost = self._control.generation != self.generation
        if not self._lost:
            self._control.until_s = self._until_s = self._control.now_s() + TTL_S

    def release(self) -> None:
        """See ``Mandate``."""
        if not self._control.away and self._control.generation == self.generation:
            self._control.until_s = self._control.now_s()
