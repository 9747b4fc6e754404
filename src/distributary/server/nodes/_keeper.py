"""Keeps a node among the others: its sign of life, and copies of what all share for its receivers.

Runs in a thread: it asks the database, which may hang. Receivers ask files and a status page alone.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from distributary.core.errors import DistributaryError, StoreError
from distributary.core.postgres_nodes import LIVE_S
from distributary.datadir import DataDir, MappedStatusPage, NodeUse, PolledFile, StatusField
from distributary.server.nodes._leader import NOBODY, Leader, LeaderFile
from distributary.server.nodes._rows import MARGIN_S, SIGN_S, NodeRow, Nodes, NodeSign, live

STOP_S: Final = 5.0
"""Longest wait for the thread at a stop."""


class FiledAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of Brokers and Channels, for the receivers of a node.

    Attributes:
        number: Rises with each change.
        paths: Address by path; see ``server.ingest.EventPaths``.
    """

    number: int
    paths: dict[str, str]


class NodeKeeper:
    """The thread.

    Args:
        paths: Paths of the data directory.
        nodes: The table of nodes; for the thread alone, which closes it.
        sign: Returns what this node says of itself; the keeper adds what its receivers serve.
        leader: Returns who leads; asks the database.
        receivers: Number of receivers.
        now_s: ``boot_s``.
        log: Takes lines for people.
        run: Names this start of the node: rates of tenants are exchanged with the others. Empty:
            they are not.
    """

    def __init__(
        self,
        paths: DataDir,
        nodes: Nodes,
        sign: Callable[[], NodeSign],
        leader: Callable[[], Leader],
        *,
        receivers: int,
        now_s: Callable[[], float],
        log: Any,
        run: str = "",
    ) -> None:
        self._nodes = nodes
        self._run_name = run
        self._use = NodeUse(paths.tenant_counts, receivers, now_s) if run else None
        self._sign = sign
        self._ask_leader = leader
        self._now_s = now_s
        self._log = log
        self._page = MappedStatusPage(paths.node_page)
        self._pages = [MappedStatusPage(paths.ingest_page(each)) for each in range(receivers)]
        self._access = PolledFile(paths.access)
        self._addresses = PolledFile(paths.addresses)
        self._leader_file = LeaderFile(paths.leader)
        self._access_number = self._addresses_number = -1
        self._otherwise: list[str] = []
        self._stopping = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)
        self.rows: tuple[NodeRow, ...] = ()
        self.leader = NOBODY
        self.partitions = 0
        """How many partitions of the log are in use; 0: not known."""
        self.trouble: str | None = None
        """Why the database cannot be asked; None: it can."""

    def start(self) -> None:
        """Begin, with a first turn that must succeed.

        Raises:
            NodeTakenError: Another node lives under this name.
            StoreError: The database cannot be asked.
        """
        self.turn()
        self._thread.start()

    def hurry(self) -> None:
        """Take the next turn now."""
        self._hurry.set()

    @property
    def fresh(self) -> bool:
        """Whether what was read counts."""
        return self._now_s() * 1000 < self._page[StatusField.FRESH_UNTIL_MS]

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._hurry.wait(SIGN_S)
            self._hurry.clear()
            try:
                self.turn()
            except DistributaryError as error:
                if self.trouble is None:
                    self._log.warning("node-alone", reason=str(error))
                self.trouble = str(error)
            except Exception:  # noqa: BLE001 - said: without this thread the node is dead
                self._log.exception("bug", where="node")
            else:
                if self.trouble is not None:
                    self._log.info("node-back")
                self.trouble = None
        self._nodes.close()

    def turn(self) -> None:
        """Give a sign of life; write down what is new.

        Raises:
            DistributaryError: The database cannot be asked, or a file not be written.
        """
        began_s = self._now_s()
        sign = msgspec.structs.replace(
            self._sign(),
            access=_served(page[StatusField.ACCESS] for page in self._pages),
            addresses=_served(page[StatusField.ADDRESSES] for page in self._pages),
        )
        seen = self._nodes.sign(sign, access=self._access_number, addresses=self._addresses_number)
        if seen.access is not None:
            self._access.write(seen.access)
            self._access_number = seen.access_number
        if seen.addresses is not None:
            filed = FiledAddresses(number=seen.addresses_number, paths=seen.addresses)
            self._addresses.write(msgspec.json.encode(filed))
            self._addresses_number = seen.addresses_number
        self._exchange(sign.name)
        self.rows = seen.nodes
        self._compare(sign)
        self.partitions = max(self.partitions, seen.partitions)
        leader = self._ask_leader()
        if leader != self.leader:
            self._leader_file.write(leader)
            if leader.known:
                self._log.info("leader", node=leader.name, generation=leader.generation)
            self.leader = leader
        fresh_until_s = began_s + LIVE_S - MARGIN_S
        self._page[StatusField.FRESH_UNTIL_MS] = int(fresh_until_s * 1000)

    def _exchange(self, name: str) -> None:
        """Have the rates of tenants hold over all nodes; asks nothing where none is used here."""
        report = b"" if self._use is None else self._use.report()
        if report and self._use is not None:
            with contextlib.suppress(StoreError):  # no reason to take this node for dead
                self._use.hear(self._nodes.exchange(name, self._run_name, report))

    def _compare(self, sign: NodeSign) -> None:
        """Tell of living nodes that take events otherwise: an event may be taken twice."""
        others = [row.sign for row in live(self.rows) if row.sign.once != sign.once]
        if [each.name for each in others] != self._otherwise:
            self._otherwise = [each.name for each in others]
            if others:
                windows = {each.name: each.once.age_max_s for each in others}
                self._log.warning("once-window-differs", here=sign.once.age_max_s, nodes=windows)


def _served(numbers: Iterable[int]) -> int:
    """The number that all receivers serve at least."""
    return min(numbers, default=0)


class NodePaths:
    """The Brokers and Channels of a receiver, as its node process has written them.

    As ``server.processes._channel_paths.ChannelPaths``; never asks the database.

    Args:
        paths: Paths of the data directory.
        number: Number of the receiver.
        now_s: ``boot_s``.
        fresh: Called with whether what was read counts, at each change.

    Attributes:
        paths: Address by path; None: unknown.
    """

    def __init__(
        self,
        paths: DataDir,
        number: int,
        now_s: Callable[[], float],
        fresh: Callable[[bool], None],
    ) -> None:
        self.paths: dict[str, str] | None = None
        self._file = PolledFile(paths.addresses)
        self._node = MappedStatusPage(paths.node_page)
        self._page = MappedStatusPage(paths.ingest_page(number))
        self._now_s = now_s
        self._told_fresh = fresh
        self._fresh = True
        self._learn: Callable[[dict[str, str] | None], None] = lambda _paths: None

    def tell(self, learn: Callable[[dict[str, str] | None], None]) -> None:
        """Call *learn* with the paths, now and after each change; None: they are unknown."""
        self._learn = learn
        learn(self.paths if self._fresh else None)

    def look(self) -> None:
        """Look what is new; cheap.

        Raises:
            OSError: A file cannot be read.
        """
        data = self._file.look()
        fresh = self._now_s() * 1000 < self._node[StatusField.FRESH_UNTIL_MS]
        if data is not None:
            filed = msgspec.json.decode(data, type=FiledAddresses)
            self.paths = filed.paths
            if fresh:
                self._learn(filed.paths)
            self._page[StatusField.ADDRESSES] = filed.number
        if fresh != self._fresh:
            self._fresh = fresh
            self._told_fresh(fresh)
            self._learn(self.paths if fresh else None)

    def close(self) -> None:
        """Close the pages."""
        self._node.close()
        self._page.close()
