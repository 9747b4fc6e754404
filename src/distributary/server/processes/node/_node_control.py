"""The control part of a node, as the node process starts and ends it while it leads."""

import contextlib
import functools
import os
import pickle
import signal
from collections.abc import Callable
from typing import Final

from distributary.core.cluster import SharedPlaces, encode_places
from distributary.core.files import PRIVATE_MODE, write_atomically
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from distributary.server.nodes import Election, Gateway, Purpose, stop_led
from distributary.server.processes.node.led import EXIT_LAPSED, EXIT_LED, LedStart
from distributary.server.processes.supervision.children import Child, program
from distributary.server.processes.supervision.ends import EXIT_CANNOT_RUN
from distributary.server.processes.supervision.listeners import Listeners
from distributary.server.settings import Settings
from distributary.sources import secret_variables

UNFIT_S: Final = 60.0
"""How long a node whose control part cannot run leaves the lead to others. It goes on as a
receiver, and tries again: a setting may have been corrected, a port be free."""

CONTROL_STOP_S: Final = 25.0
"""Longest orderly stop of the control part, beyond ``drain_s``."""


class NodeControl:
    """The process, one at a time. For the event loop.

    Args:
        paths: The data directory of the node.
        places: Where log and store lie.
        listeners: Of the receivers, for their addresses.
        node: Name of the node.
        receivers: Number of its receivers.
        line: Takes lines of the process.

    Attributes:
        child: The process; None: this node does not lead.
        ended: Whether it ended by itself, at the end of the lease or where it could not go on.
        failed: Whether it could not go on: another node might.
        unfit: Whether no restart would mend that, as its line says: a setting, or a port that is
            taken.
    """

    def __init__(
        self,
        paths: DataDir,
        places: SharedPlaces,
        listeners: Listeners,
        *,
        node: str,
        receivers: int,
        line: Callable[[str], None],
    ) -> None:
        self._paths, self._places, self._listeners = paths, places, listeners
        self._node, self._receivers, self._line = node, receivers, line
        page = self._page = MappedStatusPage(paths.node_page)
        page[StatusField.FRESH_UNTIL_MS] = page[StatusField.LEADS_UNTIL_MS] = 0
        self.child: Child | None = None
        self.ended = self.failed = self.unfit = False

    @property
    def leads(self) -> bool:
        """Whether this node leads."""
        return self.child is not None

    def tell_until(self, until_s: float) -> None:
        """Tell the control part until when it may go on."""
        self._page[StatusField.LEADS_UNTIL_MS] = int(until_s * 1000)

    def begin(self, generation: int, until_s: float, settings: Settings) -> None:
        """Start it, by the lease of this *generation*, which holds until *until_s*."""
        self._write(settings)
        self.tell_until(until_s)
        start = LedStart(
            data_dir=str(self._paths.root),
            node=self._node,
            generation=generation,
            receivers=self._receivers,
            http_fd=self._listeners.http.fileno(),
            own_fd=self._listeners.own.fileno(),
        )
        self.ended = self.failed = self.unfit = False
        control = Child(
            "control",
            program("distributary.server.processes.control_process", start),
            line=self._line,
            environ=encode_places(self._places),
            pass_fds=(start.http_fd, start.own_fd),
            withheld=secret_variables(settings.sources),
            ended=self._on_ended,
        )
        control.start()  # here: a stop between start and the next line would leave it alone
        self.child = control

    def replace_settings(self, settings: Settings) -> None:
        """Have it apply changed settings, now if it runs."""
        self._write(settings)
        child = self.child
        if child is not None and child.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGHUP)

    def _write(self, settings: Settings) -> None:
        path = self._paths.control_settings
        write_atomically(path, pickle.dumps(settings), mode=PRIVATE_MODE)

    def _on_ended(self, code: int) -> bool:
        """Called in the child's thread; returns whether to start it again."""
        if code not in {EXIT_LED, EXIT_LAPSED, EXIT_CANNOT_RUN}:
            return True
        self.unfit = code == EXIT_CANNOT_RUN
        self.ended, self.failed = True, code != EXIT_LAPSED
        return False

    async def end(self, wait_s: float, election: Election, gateway: Gateway) -> None:
        """End it within *wait_s* seconds; nothing new is passed on to it meanwhile.

        Requests under way that other nodes have passed on are answered, where there is time: it
        closes each connection after its response.
        """
        control, self.child = self.child, None
        self.ended = self.failed = self.unfit = False
        try:
            if control is not None:
                if not wait_s:
                    gateway.cut(Purpose.CONTROL)
                stop = functools.partial(control.stop, wait_s)
                await stop_led(stop, election, self.tell_until)
                gateway.cut(Purpose.CONTROL)
        finally:  # one that could not be ended ends by this
            self._page[StatusField.LEADS_UNTIL_MS] = 0
