"""Owners of a partition, one after the other in this process; prints how much memory stayed.

python _owners.py DATA_DIR COUNT
"""

import sys
from pathlib import Path

import msgspec
import pyarrow as pa

from distributary.partitions import SessionSettings
from distributary.spark import _delivery_task

WARM_UP = 3


def main():
    settings = SessionSettings(data_dir=sys.argv[1], log_level="error")
    words = msgspec.json.encode(settings).decode()
    for epoch in range(1, WARM_UP + 1):
        _delivery_task.run(iter([_row(epoch)]), words)
    before = _rss_mib()
    for epoch in range(WARM_UP + 1, WARM_UP + 1 + int(sys.argv[2])):
        _delivery_task.run(iter([_row(epoch)]), words)
    print(_rss_mib() - before)


def _row(epoch):
    kinds = (pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.binary())
    names = ["partition", "epoch", "reader", "to_offset", "chunk"]
    values = (0, epoch, 1, 0, b"")
    columns = [pa.array([value], kind) for value, kind in zip(values, kinds, strict=True)]
    return pa.record_batch(columns, names=names)


def _rss_mib():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


main()
