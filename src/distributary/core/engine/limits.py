"""The limits of a partition's engine, in one record that its parts share."""

from dataclasses import dataclass

ROW_TASK_BYTES = 2_048
"""Memory of a task besides its data (as in ``deliver``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Bounds on the memory of one partition, and on the work of one turn of its loop."""

    partitions: int = 1
    """Partitions of the log, which share what each sink takes."""
    window_events: int = 100_000
    """Most records between cursor and read position (DESIGN rule 1, the cursor); beyond it the
    oldest unfinished matches move to the retry store."""
    demote_records: int = 10_000
    """Records, from the cursor on, whose matches are moved at once."""
    window_outcomes: int = 100_000
    """Most finished matches above the cursor (DESIGN rule 1, the cursor): each takes some 180 bytes
    of memory and 60 of the journal until the cursor has passed it. A record holds up to 1,000
    events, so a bound on records is no bound on these."""
    demote_outcomes: int = 10_000
    """Finished matches that the cursor passes in one step, which runs ten times a second."""
    slice_records: int = 128
    """Records taken before yielding to the event loop: under a millisecond, so that answers of
    sinks and timers are not delayed."""
    slice_tasks: int = 256
    """Matches made and taken before yielding to the event loop: some milliseconds. A batch of 1,000
    events that match 300 routes has 300,000, which would delay all sinks for a second and take
    60 MiB."""
    routes_saved_every_s: float = 10.0
    """Interval of saving the route table beside the journal, which shortens the next start."""
    unpark_count: int = 64
    """Deferred rows tried when a destination reports room."""
    due_count: int = 256
    """Due rows taken before yielding to the event loop."""
    reads_max: int = 64
    """Most rows being read or queued for reading: each costs some 0.4 ms."""
    row_events_bytes_max: int = 16 * 1024 * 1024
    """Most bytes of events of waiting rows in memory: two full queues of 1 KB events. Other events
    are reread from the log when their rows are due, one by one, at ten times the cost; retention
    keeps what a row needs."""
    rows_per_route_max: int = 10_000
    """Most rows of a route, some 5 MB of memory; beyond it the route is backfilled. It takes new
    tasks again at half of it."""
    rows_max: int = 100_000
    """Rows of all routes together, some 50 MB; beyond it each route with its fair share or more is
    backfilled. A thousand sinks that fail half the time, which opens no breaker, would have ten
    million."""
    rows_least: int = 4
    """Rows that a route may always have: a sink that has not failed lately must not be backfilled
    because of others."""
    reply_bytes_max: int = 32 * 1024 * 1024
    """Bytes of replies that wait for room at their destination: some 10,000 small ones, more than
    the queues of two busy sinks return once their routes have begun to wait. A reply without room
    here fails its delivery, which is retried."""
    reply_count: int = 64
    """Held replies offered before yielding to the event loop."""
    counted_rows_share: float = 0.1
    """Share of the row limit at which a counted route takes no more: each of its matches is a row.
    1,000 rows are what 100,000/s bring in the 10 ms of a reservation."""
    asking_when_exhausted_max: int = 16
    """Rows of an exhausted route that ask again together: all its thousand would be refused four
    times a second, for a twentieth of the loop's time. Once one is granted the others follow."""
    slice_backfills: int = 64
    """Backfills advanced before yielding to the event loop: most find their sink full, which costs
    some microseconds."""
    wake_count: int = 256
    """Resting backfills woken at a tick: of 10,000, each is checked every 4 s, for 1 % of the
    loop's time. A sink that reports room wakes its backfills at once."""
    readers_max: int = 16
    """Open readers, each with a file or two: more backfills than this share them, and search their
    position in the log again at each turn."""
    chunks_max: int = 64
    """With more backfills than this, a resting one keeps no chunk: 4 MiB in all."""
    backfill_tasks_bytes_max: int = 16 * 1024 * 1024
    """Decoded matches that resting backfills hold, in all: 5,000 of small events. A thousand routes
    that wait for room at slow sinks would hold a batch of a thousand events each, or a megabyte.
    What has no room here is read and decoded again when the queue has."""
    replay_tasks_bytes_max: int = 8 * 1024 * 1024
    """Matches that replays have chosen and not sent, in all, beyond which none reads on that cannot
    send: a slice of the log that is sent, and one that is read meanwhile. A thousand replays to
    sinks that hang would hold a megabyte each."""
    finished_max: int = 100_000
    """Finished matches above the marks of all backfills together, about: each takes some 180 bytes
    until its mark has passed it. While one attempt hangs for ten minutes, its route must not
    accumulate all that its sink accepts."""
    finished_least: int = 16
    """Finished matches that each backfill may always have above its mark."""
