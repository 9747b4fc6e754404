"""Writes the file of failing routes, which people see in the status of what they made."""

from typing import Final

from distributary.core.engine.failing import Failing
from distributary.core.errors import StoreError
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
        self._reports = context.failing
        self._told = self._reports.read()
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
        rows = self._failing.rows()
        if rows == self._told:
            return
        self._telling = True
        self._told = rows
        self._context.aside.run(lambda: self._reports.write(rows), self._written)

    def _written(self, error: StoreError | None) -> None:
        self._telling = False
        if error is not None:
            self._told = []  # It is told again; a full disk must not stop deliveries.
            self._context.warn("failing-not-told", {"error": str(error)})
