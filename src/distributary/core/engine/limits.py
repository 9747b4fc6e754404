"""The limits of the engine of a partition: one record, given to whoever is made for a partition."""

from dataclasses import dataclass

ROW_TASK_BYTES = 2_048
"""What a task holds beside its data (as in ``deliver``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """How much one partition may hold, and do at once."""

    window_events: int = 100_000
    """Most records between cursor and read position (DESIGN rule 1); beyond it the oldest
    unfinished matches move to the retry store."""
    demote_records: int = 10_000
    """Records from the cursor on whose matches are moved at once."""
    window_outcomes: int = 100_000
    """Most finished matches above the cursor (DESIGN rule 1): each is remembered until the cursor
    has passed it, some 180 bytes of memory and 60 of the journal. A record holds up to 1,000
    events, so bounding the records does not bound these."""
    demote_outcomes: int = 10_000
    """Finished matches that the cursor is made to pass at once: as many a second as ten looks
    make."""
    slice_records: int = 128
    """Records taken before the loop gets its turn: under a millisecond, so that answers of sinks
    and timers are never far behind."""
    slice_tasks: int = 256
    """Matches of one record that are made at once, and taken before the loop gets its turn: some
    milliseconds. A batch of 1,000 events that 300 routes see has 300,000, which would hold up all
    sinks for a second, and take 60 MiB."""
    routes_saved_every_s: float = 10.0
    """How often the route table is kept beside the journal: it only shortens a start."""
    unpark_count: int = 64
    """Deferred rows tried when a destination says that it has room."""
    due_count: int = 256
    """Due rows taken before the loop gets its turn."""
    reads_max: int = 64
    """Rows that are read, or wait to be, at a time: each costs some 0.4 ms."""
    row_events_bytes_max: int = 16 * 1024 * 1024
    """Events of waiting rows that are kept in memory: those of two full queues of 1 KB events. The
    others are read from the log again when they are due, one by one, which costs ten times as
    much; the log keeps what a row needs (retention rule)."""
    rows_per_route_max: int = 10_000
    """A route with more rows than this is backfilled instead of making more: some 5 MB of memory.
    It takes new tasks again at half of it."""
    rows_max: int = 100_000
    """Rows of all routes together: some 50 MB. Beyond it a route is backfilled that has its share
    of them, or more: a thousand sinks that fail half the time, which opens no breaker, would have
    ten million."""
    rows_least: int = 4
    """Rows that a route may have, however many there are: a sink that has not failed lately must
    not be backfilled for what others do."""
    reply_bytes_max: int = 32 * 1024 * 1024
    """Replies that wait for room at their destination: some 10,000 small ones, which is more than
    the queues of two busy sinks can bring after their routes have begun to wait for it. What finds
    no room here fails its delivery, which is made again."""
    reply_count: int = 64
    """Held replies offered before the loop gets its turn."""
    counted_rows_share: float = 0.1
    """Of its rows, those that a counted route may have and take more: each of its matches is one.
    1,000 are what 100,000/s bring in the 10 ms that a reservation takes."""
    asking_when_exhausted_max: int = 16
    """Tasks of a route that ask again at once: its thousand rows would all be refused four times a
    second, for a twentieth of the loop's time. Once one is granted the others follow."""
    slice_backfills: int = 64
    """Backfills that have a turn before the loop gets its own: most of them find their sink full,
    which costs some microseconds."""
    wake_count: int = 256
    """Resting backfills that are woken at a tick: with 10,000 of them each is looked at every 4 s,
    for 1 % of the loop's time. Those whose sink tells that it has room do not wait for it."""
    readers_max: int = 16
    """Open readers, each with a file or two: more backfills than these share them, and search
    their place in the log again at each turn."""
    chunks_max: int = 64
    """With more backfills than these, one that rests keeps no chunk: 4 MiB in all."""
    finished_max: int = 100_000
    """Finished matches above the marks of all backfills together, about: each is remembered until
    its mark has passed it, which costs some 180 bytes. One attempt that hangs for ten minutes must
    not make its route remember all that its sink took meanwhile."""
    finished_least: int = 16
    """Finished matches that each backfill may have above its mark, however many there are."""
