"""CPU and bytes of a flush of a partition's owner in PostgreSQL, by how many outcomes it has.

One owner, one flush after the other; the server's CPU is that of all its processes, bytes are those
of its write-ahead log. Run:
``PYTHONPATH=src:benchmarks:tests python benchmarks/shared_store.py [flushes]``.
"""

import os
import sys
import time

import psutil

import _kit  # noqa: F401 - for the imports of kit
from distributary.core import database
from distributary.core.flow import DoneKey, Mark, Stage
from distributary.core.outcome import Batch, Changes, Failure, RetryRow
from distributary.core.outcome.postgres import (
    PartitionFence,
    PostgresOwnership,
    prepare_outcomes,
)
from distributary.core.postgres_lease import PostgresLease, partition_lease, prepare_leases
from kit.servers.postgres import Postgres

ROUTE = "0123456789abcdef0123456789abcdef"


def server_s():
    """CPU of the server's processes that live."""
    total = 0.0
    for child in psutil.Process().children(recursive=True):
        if "postgres" in child.name():
            times = child.cpu_times()
            total += times.user + times.system
    return total


def own_s():
    """CPU of this process."""
    times = os.times()
    return times.user + times.system


def wal_bytes(writer):
    """How far the write-ahead log is."""
    with database.writing(writer) as connection:
        query = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
        return float(connection.exec_driver_sql(query).scalar_one())


def flushes(owned, count, outcomes, rows, offset):
    """Flush *count* times."""
    for _ in range(count):
        done = [(DoneKey(offset + n, 0, ROUTE), 1) for n in range(outcomes)]
        failure = Failure("status-503", "http://s", 503, None)
        changed = {
            key: RetryRow(key, 1, Stage.PRIMARY, 2, 1, failure, done=False)
            for key, _ in done[:rows]
        }
        offset += outcomes
        owned.flush(Batch(Mark(offset, 1), done=done, changes=Changes(rows=changed)))
    return offset


def main():
    """Prints a line for each size of a flush."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    with Postgres() as server:
        url = database.database_url(server.new_database())
        writer = database.open_writer(url, "bench")
        prepare_leases(writer)
        prepare_outcomes(writer)
        lease = PostgresLease(url, partition_lease(0))
        fence = PartitionFence(0, lease.generation, lease.token)
        owned, offset = PostgresOwnership(url, fence), 0
        for outcomes, rows in ((1, 0), (30, 0), (300, 0), (30, 30)):
            offset = flushes(owned, 100, outcomes, rows, offset)
            before = own_s(), server_s(), wal_bytes(writer), time.perf_counter()
            offset = flushes(owned, count, outcomes, rows, offset)
            took = time.perf_counter() - before[3]
            own, its = (own_s() - before[0]) / count, (server_s() - before[1]) / count
            wal = (wal_bytes(writer) - before[2]) / count
            print(
                f"{outcomes} outcomes, {rows} rows: owner {own * 1e6:.0f} us, server"
                f" {its * 1e6:.0f} us, {wal:.0f} bytes of WAL, {count / took:,.0f}/s",
                flush=True,
            )
        owned.close()
        lease.release()


if __name__ == "__main__":
    main()
