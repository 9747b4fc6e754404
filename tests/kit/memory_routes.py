"""In-memory ``RouteAppender`` and ``TimerEventAppender`` with fault injection."""

from collections.abc import Sequence

from distributary.core.errors import LogUnavailableError
from distributary.core.flow import RouteRecord, TimerEvent, decode_route, decode_timer_event

__all__ = ["MemoryRouteAppender", "MemoryTimerEventAppender"]


class MemoryRouteAppender:
    """A ``RouteAppender`` that keeps route records by partition, as a log would.

    Attributes:
        partitions: Bodies, by partition.
        calls: Count of appends.
        failing: While True, an append fails after ``partial`` bodies.
        partial: Bodies that the first partition accepts before the append fails.
        looks: Count of looks for new paths.
        look_fault: What a look fails with.
    """

    def __init__(self, partition_count: int = 2) -> None:
        self.partitions: list[list[bytes]] = [[] for _ in range(partition_count)]
        self.calls = 0
        self.failing = False
        self.partial = 0
        self.looks = 0
        self.look_fault: LogUnavailableError | None = None

    async def agree(self) -> None:
        """The log has what the store has."""

    async def look_again(self) -> None:
        """Count, or fail."""
        self.looks += 1
        if self.look_fault is not None:
            raise self.look_fault

    async def append_routes(self, bodies: Sequence[bytes]) -> None:
        """Append *bodies* to every partition, or fail."""
        self.calls += 1
        if self.failing:
            self.partitions[0] += bodies[: self.partial]
            raise LogUnavailableError("the memory log was told to fail")
        for partition in self.partitions:
            partition.extend(bodies)

    def applied(self, partition: int) -> list[RouteRecord]:
        """What a reader applies: a record whose number is not above the last one is passed by."""
        found: list[RouteRecord] = []
        for body in self.partitions[partition]:
            record = decode_route(body)
            if not found or record.seq > found[-1].seq:
                found.append(record)
        return found


class MemoryTimerEventAppender:
    """A ``TimerEventAppender`` that keeps timer events, as a log would.

    Attributes:
        timer_events: Partition and event, in the order of the appends.
        calls: Count of appends.
        failing: While True, an append accepts ``partial`` events and then does not answer.
        refusing: While True, an append accepts ``partial`` events and refuses the others.
        partial: Events that an append accepts while it fails or refuses.
    """

    def __init__(self) -> None:
        self.timer_events: list[tuple[int, TimerEvent]] = []
        self.calls = 0
        self.failing = False
        self.refusing = False
        self.partial = 0

    async def append_timer_events(self, timer_events: Sequence[tuple[int, bytes]]) -> int:
        """Append *timer_events*, or fail."""
        self.calls += 1
        taken = list(timer_events)[: self.partial if self.failing or self.refusing else None]
        self.timer_events += [(partition, decode_timer_event(body)) for partition, body in taken]
        if self.failing:
            raise LogUnavailableError("the memory log was told to fail")
        return len(taken)

    def of(self, uid: str) -> list[TimerEvent]:
        """The ticks of one subscription."""
        return [timer_event for _, timer_event in self.timer_events if timer_event.uid == uid]
