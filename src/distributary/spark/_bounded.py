"""Bounded reads for Spark's reader classes: push-down of conditions, and tables of plain tasks.

Called by ``format`` and ``_log_reads``. Hides: what Spark asks of a reader.
"""

import functools
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition


@functools.cache
def settle() -> None:
    """Take what this worker has imported out of the collections of garbage; once in a process.

    PySpark's worker collects after each task. Over all that is imported this takes 70 ms, ten times
    as long as a search in a file of the archive.
    """
    gc.collect()
    gc.freeze()


class Table(Protocol):
    """A bounded read of one table, which executors get a copy of."""

    def plan(self) -> Sequence[Any]:
        """Returns what each task reads."""

    def read(self, task: Any, /) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task."""


class PushFilters:
    """The method ``pushFilters`` of a reader, which Spark calls where push-down is switched on.

    Where it is off, Spark refuses every reader that has the method, instead of not calling it. By
    ``__func__`` it looks like the one that a reader inherits, so such a session reads as well, and
    evaluates all conditions itself.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, take: Callable[[list[Filter]], list[Filter]]) -> None:
        self._take = take

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        """Take what the reader can decide of *filters*; returns the others."""
        return self._take(filters)


class TableReader(DataSourceReader):
    """Reads a table; one for each action.

    Args:
        table: The table.
        take: Takes conditions, and returns those that Spark must decide; None: takes none.
    """

    def __init__(
        self, table: Table, take: Callable[[list[Filter]], list[Filter]] | None = None
    ) -> None:
        self._table = table
        if take is not None:
            self.pushFilters = PushFilters(take)  # type: ignore[method-assign]  # see the class

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task. Runs once, when planning."""
        return [InputPartition([task]) for task in self._table.plan()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task. Runs on an executor, again if the task is retried."""
        settle()
        # If nothing was planned, Spark makes one task with an empty ``InputPartition``.
        for task in partition.value or ():
            yield from self._table.read(task)
