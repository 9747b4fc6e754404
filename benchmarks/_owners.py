"""Owners of a partition, one after the other in this process; prints how much memory stayed.

python _owners.py DATA_DIR COUNT
"""

import sys
from pathlib import Path

import msgspec

from distributary.datadir import ConsumerPhase, DataDir, MappedStatusPage, StatusField
from distributary.partitions import SessionSettings
from distributary.spark import _delivery_task

WARM_UP = 3


def main():
    settings = SessionSettings(data_dir=sys.argv[1], log_level="error")
    words = msgspec.json.encode(settings).decode()
    status_page = MappedStatusPage(DataDir.of(sys.argv[1]).status_page(0))
    _delivery_task.ROW_S = 0.0  # look at each
    for epoch in range(1, WARM_UP + 1):
        _own(words, status_page, epoch)
    before = _rss_mib()
    for epoch in range(WARM_UP + 1, WARM_UP + 1 + int(sys.argv[2])):
        _own(words, status_page, epoch)
    print(_rss_mib() - before)


def _own(words, status_page, epoch):
    for _ in _delivery_task.rows(words, 0, epoch):
        if status_page[StatusField.PHASE] == ConsumerPhase.RUNNING:
            status_page[StatusField.END_EPOCH] = epoch


def _rss_mib():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


main()
