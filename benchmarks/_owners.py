"""Owners of a partition, one after the other in this process; prints how much memory stayed.

python _owners.py DATA_DIR COUNT
"""

import sys
from contextlib import closing
from pathlib import Path

import msgspec

from distributary.core.log import Reader
from distributary.datadir import DataDir, MappedStatusPage, Phase, StatusField
from distributary.partitions import SessionSettings
from distributary.spark import _delivery_task

WARM_UP = 3


def main():
    settings = SessionSettings(data_dir=sys.argv[1], log_level="error")
    words = msgspec.json.encode(settings).decode()
    paths = DataDir.of(sys.argv[1])
    status_page = MappedStatusPage(paths.status_page(0))
    with closing(Reader(paths.log, 0)) as records:
        end = records.durable_end()
    _delivery_task.ROW_S = 0.0  # look at each
    for epoch in range(1, WARM_UP + 1):
        _own(words, status_page, epoch, end)
    before = _rss_mib()
    for epoch in range(WARM_UP + 1, WARM_UP + 1 + int(sys.argv[2])):
        _own(words, status_page, epoch, end)
    print(_rss_mib() - before)


def _own(words, status_page, epoch, end):
    """Own the partition until all of its log has been read: the first owner builds the routes."""
    for _ in _delivery_task.rows(words, 0, epoch):
        running = status_page[StatusField.PHASE] == Phase.RUNNING
        if running and status_page[StatusField.LIVE_OFFSET] >= end:
            status_page[StatusField.END_EPOCH] = epoch


def _rss_mib():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


main()
