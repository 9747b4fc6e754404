"""What nodes tell each other: a row each, with a sign of life.

A node that has given none for ``LIVE_S`` counts as dead: nobody waits for what it serves. So it
must know by itself that it may be taken for dead, and serve no more what may have changed
(``Seen.fresh``).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

import msgspec

from distributary.core.errors import SettingsError
from distributary.core.log.taken import OnceLimits
from distributary.core.postgres_nodes import LIVE_S


class NodeTakenError(SettingsError):
    """Another node lives under the name of this one."""


SIGN_S: Final = 0.5
"""Interval of a node's transactions: its sign of life, and a look at what has changed."""

MARGIN_S: Final = 1.0
"""How much sooner a node takes itself for dead, and serves nothing that may have changed: clocks
may run at different speeds."""

FORGOTTEN_S: Final = 7 * 86_400.0
"""Rows without a sign of life for so long are deleted: that node is gone."""


class NodeSign(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself.

    Attributes:
        name: Its name: one at a time.
        address: ``host:port`` at which others reach it.
        version: Of its software.
        started_ms: Wall-clock time of its start, milliseconds.
        role: ``leader`` or ``follower``.
        access: Number of the snapshot of access by which all of its receivers decide.
        addresses: Number of the addresses that all of its receivers serve.
        takes: Whether its receivers accept events.
        run: Of this start alone: another one under this name is another machine's.
        once: The window in which its receivers take an event once.
        reaches_log: Whether the leaders of all partitions of the log answer it.
    """

    name: str
    address: str
    version: str
    started_ms: int
    role: str
    access: int = 0
    addresses: int = 0
    takes: bool = False
    run: str = ""
    once: OnceLimits = OnceLimits()
    reaches_log: bool = False


class NodeRow(NamedTuple):
    """A node, as others see it.

    Attributes:
        sign: What it said last.
        age_s: How long ago, by the database's clock.
    """

    sign: NodeSign
    age_s: float

    @property
    def is_live(self) -> bool:
        """Whether others wait for it."""
        return self.age_s < LIVE_S


class Seen(NamedTuple):
    """What a node has found out.

    Attributes:
        nodes: All nodes, by name.
        access: Newest snapshot of access; None: as known.
        access_number: Its number; 0: there is none.
        addresses: Paths of Brokers and Channels; None: as known.
        addresses_number: Their number.
        partitions: How many partitions of the log are in use; 0: as known.
    """

    nodes: tuple[NodeRow, ...]
    access: bytes | None
    access_number: int
    addresses: dict[str, str] | None
    addresses_number: int
    partitions: int = 0


class Nodes(Protocol):
    """The table of nodes, and what is shared beside it. For one thread; every call may block."""

    def sign(self, sign: NodeSign, *, access: int, addresses: int) -> Seen:
        """Write a sign of life, and look what is new.

        Args:
            sign: Of this node.
            access: Number of the snapshot that is known.
            addresses: Number of the addresses that are known.

        Raises:
            NodeTakenError: Another node lives under this name.
            StoreError: The database cannot be asked now.
        """

    def exchange(self, name: str, run: str, report: bytes) -> dict[str, bytes]:
        """Say what tenants use at a node; returns what they use at the other living ones, by run.

        Args:
            name: Of the node.
            run: Of this start of it.
            report: ``NodeUse.report``.

        Raises:
            StoreError: As for ``sign``.
        """

    def rows(self) -> tuple[NodeRow, ...]:
        """All nodes, by name.

        Raises:
            StoreError: As for ``sign``.
        """

    def access_number(self) -> int:
        """Number of the snapshot of access that nodes are told of; 0: there is none.

        Raises:
            StoreError: As for ``sign``.
        """

    def publish_access(self, number: int, snapshot: bytes) -> None:
        """Tell every node who may do what.

        Raises:
            FencedError: Another node leads: nobody was told.
            StoreError: As for ``sign``.
        """

    def close(self) -> None:
        """Close the connections."""


def live(rows: Iterable[NodeRow]) -> list[NodeRow]:
    """Those that others wait for."""
    return [row for row in rows if row.is_live]
