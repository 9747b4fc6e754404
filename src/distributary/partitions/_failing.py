"""Writes the file of failing routes, which ``knative`` shows in conditions of its objects."""

from typing import Final

from distributary.core.engine.failing import Failing
from distributary.core.errors import StoreError
from distributary.core.outcome import read_failing, write_failing
from distributary.partitions.context import PartitionContext

TOLD_EVERY_S: Final = 1.0
"""Shortest interval between two writes of the file."""


class FailingFile:
    """Writes the file after changes, in a thread.

    Args:
        context: Ports of the consumer.
        failing: The engine's failing routes; loaded from the previous owner's file.
    """

    def __init__(self, context: PartitionContext, failing: Failing) -> None:
        self._context = context
        self._failing = failing
        self._path = context.failing_path
        self._told = read_failing(self._path)
        self._told_s = float("-inf")
        self._telling = False
        failing.load(self._told)

    def tick(self) -> None:
        """Write the file if that is due."""
        now_s = self._context.clock.monotonic_s()
        if self._telling or now_s - self._told_s < TOLD_EVERY_S:
            return
        if not self._failing.any and not self._told:
            return
        self._told_s = now_s
        rows = self._failing.rows(now_s)
        if rows == self._told:
            return
        self._telling = True
        self._told = rows
        self._context.aside.run(lambda: write_failing(self._path, rows), self._written)

    def _written(self, error: StoreError | None) -> None:
        self._telling = False
        if error is not None:
            self._told = []  # It is told again; a full disk must not stop deliveries.
            self._context.report("failing-not-told", {"error": str(error)})
