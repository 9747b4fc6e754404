"""The log as a table reads it: the folder of a data directory, or the topic that nodes share.

Called by ``_log_reads``. Both give records of one form, so everything above reads either. Plain and
picklable: what is open stays where it was opened.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError
from distributary.core.flow import Logged
from distributary.core.log import Damage, Reader, read_folder
from distributary.core.log.copying import intact_end
from distributary.spark._places import Places
from distributary.spark._ranges import Extent

if TYPE_CHECKING:  # the client of Kafka is imported where a log is there
    from distributary.core.log.kafka import KafkaEnds


class Records(Extent, Protocol):
    """A reader of one partition; close it."""

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Yields records of ``from_offset <= offset < to_offset``; skips gaps."""

    def offset_within(self, bytes_max: int) -> int:
        """Returns the start of the newest records of at most *bytes_max* bytes; at least of one."""

    def damages(self) -> tuple[Damage, ...]:
        """Returns every damaged record that this reader has met."""

    def close(self) -> None:
        """Close what is open."""


CLOCKS_MS: Final = 60_000
"""By how much the clocks of brokers may differ. A query up to a time reads what was appended in
the minute after it too, and drops that by its times."""


CERTAIN_S: Final = 20.0
"""How long the end of a partition on Kafka is asked for that is below an earlier one, seconds: a
broker that does not know yet that it leads no more tells an older end."""

_AGAIN_S: Final = 0.5


class TableLog(Protocol):
    """A log of which a table is made.

    Attributes:
        goes_back_ms: By how much the time of a record may be less than that of one before it.
    """

    @property
    def goes_back_ms(self) -> int: ...

    def extents(self) -> AbstractContextManager[Mapping[int, Extent]]:
        """Returns number -> what there is of every partition, inside the ``with``.

        Raises:
            LogError: There is no log, it cannot be reached, or a newer version wrote it.
        """

    def certain_ends(self, wanted: Mapping[int, int]) -> dict[int, int]:
        """Returns the durable end of each partition; one below that of *wanted* is certain.

        Raises:
            LogError: The log cannot be read, or it is not known yet where it ends.
        """

    def open(self, partition: int) -> Records:
        """Returns a reader of *partition*.

        Raises:
            LogError: It cannot be read.
        """


def table_log(places: Places) -> TableLog:
    """Returns the log that *places* name."""
    if places.log is not None:
        return TopicLog(places.log)
    assert places.data_dir is not None
    return FolderLog(places.data_dir / "log")


class FolderLog:
    """The log of a data directory.

    Args:
        log_dir: ``{data}/log``.
    """

    goes_back_ms: Final = 0

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir

    @contextlib.contextmanager
    def extents(self) -> Iterator[Mapping[int, Extent]]:
        """See ``TableLog``."""
        with contextlib.ExitStack() as stack:
            yield {
                number: stack.enter_context(contextlib.closing(self.open(number)))
                for number in range(read_folder(self._log_dir))
            }

    def certain_ends(self, wanted: Mapping[int, int]) -> dict[int, int]:
        """See ``TableLog``: after a power cut the end is older until the server has started."""
        with self.extents() as log:
            ends = {number: each.durable_end() for number, each in log.items()}
        for number, end in ends.items():
            at = wanted.get(number, 0)
            if end < at <= intact_end(self._log_dir, number):
                raise LogUnavailableError(
                    f"partition {number} of {self._log_dir} ends at {end} until the server has read"
                    f" it again, and {at} is wanted: start the server"
                )
        return ends

    def open(self, partition: int) -> Reader:
        """See ``TableLog``."""
        return Reader(self._log_dir, partition)


class TopicLog:
    """The log on a Kafka cluster. A client that plans is kept for the next plan of a stream.

    Records that retention has cut off are rows until they are deleted, seconds later: no store has
    to be asked where the cut is.

    Args:
        place: The cluster.
    """

    goes_back_ms: Final = CLOCKS_MS
    """The leader of a partition gives the times, and the next leader has another clock."""

    def __init__(self, place: KafkaPlace) -> None:
        self._place = place
        self._ends: KafkaEnds | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the place alone."""
        return TopicLog, (self._place,)

    @contextlib.contextmanager
    def extents(self) -> Iterator[Mapping[int, Extent]]:
        """See ``TableLog``: asks for all partitions at once."""
        asked = _Asked(self._asked_by())
        yield {number: _TopicExtent(asked, number) for number in range(asked.partitions)}

    def certain_ends(self, wanted: Mapping[int, int]) -> dict[int, int]:
        """See ``TableLog``: asks for ``CERTAIN_S``."""
        asked = self._asked_by()
        until_s = time.monotonic() + CERTAIN_S
        while True:
            ends = dict(enumerate(asked.read(asked.count())))
            reached = all(ends.get(number, 0) >= at for number, at in wanted.items())
            if reached or time.monotonic() >= until_s:
                return ends
            time.sleep(_AGAIN_S)

    def _asked_by(self) -> "KafkaEnds":
        from distributary.core.log.kafka import KafkaEnds  # noqa: PLC0415 - see above

        if self._ends is None:
            self._ends = KafkaEnds(self._place)
        return self._ends

    def open(self, partition: int) -> Records:
        """See ``TableLog``."""
        from distributary.core.log.kafka import (  # noqa: PLC0415 - see above
            KafkaRecords,
            MemorySnapshots,
        )

        return KafkaRecords(self._place, partition, MemorySnapshots())


class _Asked:
    """What the cluster says of all partitions during one plan: each question is put once."""

    def __init__(self, ends: "KafkaEnds") -> None:
        self.partitions = ends.count()
        self._ends = ends
        self._answers: dict[object, list[int]] = {}

    def starts(self) -> list[int]:
        return self._once("start", lambda: self._ends.starts(self.partitions))

    def ends(self) -> list[int]:
        return self._once("end", lambda: self._ends.read(self.partitions))

    def offsets_at(self, time_ms: int) -> list[int]:
        return self._once(time_ms, lambda: self._ends.offsets_at(self.partitions, time_ms))

    def _once(self, question: object, ask: Callable[[], list[int]]) -> list[int]:
        if question not in self._answers:
            self._answers[question] = ask()
        return self._answers[question]


class _TopicExtent:
    """What there is of one partition."""

    def __init__(self, asked: _Asked, number: int) -> None:
        self._asked = asked
        self._number = number

    def start(self) -> int:
        return self._asked.starts()[self._number]

    def durable_end(self) -> int:
        return self._asked.ends()[self._number]

    def offset_at(self, time_ms: int) -> int:
        found = self._asked.offsets_at(time_ms)[self._number]
        return self.durable_end() if found < 0 else found
