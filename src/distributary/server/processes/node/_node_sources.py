"""The sources process of a node: each node has one, and leases say which sources it runs."""

import threading
from collections.abc import Callable

from distributary.core.cluster import SharedPlaces, encode_places
from distributary.core.deliver.endpoint import UNIX
from distributary.datadir import DataDir
from distributary.server.processes.source.sources import STOP_S, sources_child
from distributary.server.processes.supervision.children import Child
from distributary.server.processes.supervision.watchdog import WatchedProcess, watched_sources
from distributary.server.settings import Settings


class NodeSources:
    """Starts, replaces and stops it.

    Args:
        paths: Paths of the data directory.
        places: Where the leases lie.
        node: Name of the node.
        loopback_only: Whether the server listens on loopback alone.
        line: Called with each line of its standard error.

    Attributes:
        child: The process; None: no sources are configured.
    """

    def __init__(
        self,
        paths: DataDir,
        places: SharedPlaces,
        node: str,
        *,
        loopback_only: bool,
        line: Callable[[str], None],
    ) -> None:
        self._paths = paths
        self._places = places
        self._node = node
        self._loopback_only = loopback_only
        self._line = line
        self.child: Child | None = None
        self._turn = threading.Lock()
        self._over = False

    @property
    def children(self) -> list[Child]:
        """The process, if there is one."""
        return [] if self.child is None else [self.child]

    def start(self, settings: Settings) -> None:
        """Start it, where sources are configured."""
        self.child = sources_child(
            settings,
            self._paths,
            f"{UNIX}{self._paths.own_socket}",
            loopback_only=self._loopback_only,
            line=self._line,
            node=self._node,
            environ=encode_places(self._places),
        )
        if self.child is not None:
            self.child.start()

    def stop(self) -> None:
        """Stop it in good order: other nodes take its sources at once. May block."""
        self._over = True
        with self._turn:
            self._end()

    def _end(self) -> None:
        child, self.child = self.child, None
        if child is not None:
            child.stop(STOP_S)

    def watched(self) -> WatchedProcess:
        """For the watchdog."""
        return watched_sources(self._paths, lambda: self.child)

    def replace(self, settings: Settings) -> None:
        """Start it anew with changed *settings*, in a thread that waits for its end."""

        def work() -> None:
            with self._turn:
                self._end()
                if not self._over:
                    self.start(settings)

        threading.Thread(target=work, name="sources").start()
