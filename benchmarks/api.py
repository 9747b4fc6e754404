"""The lines of the Subscriptions API: changes and reads, and a list of 100,000.

The list is written to the store before the server starts, and counts as appended to the log: what
the pipeline does with 100,000 routes is measured elsewhere.
"""

import json
import subprocess
import sys
from pathlib import Path

import psutil

import _api_load
import _kit  # noqa: F401 - for the imports of kit
from _rig import Rig
from distributary.core.database import sqlite_url
from distributary.resource import SinkRule
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.service import rules
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Put
from kit.running_server import Role

HERE = Path(__file__).parent
LISTED = 100_000
BATCH = 1000
REPEATS = 3
"""The median of so many runs counts."""


def measure(scale):
    """The Subscriptions API: 16 clients, then a list of 100,000 subscriptions."""
    return _changes(scale) | _lists(scale)


def _changes(scale):
    count = int(4000 * scale)
    rates = {mode: [] for mode in _api_load.METHODS}
    with Rig() as rig:
        for _ in range(REPEATS):
            for mode, found in rates.items():
                found.append(_load(rig, mode, count=count)["rate"])
    return {f"api_{mode}": sorted(found)[REPEATS // 2] for mode, found in rates.items()}


def _lists(scale):
    with Rig(prepare=_fill) as rig:
        control = rig.server.processes(Role.SERVE)[0]
        _load(rig, "create", count=1)
        before = _rss_mib(control)
        figures = {}
        for limit in (100, 1000):
            found = _load(rig, "page", limit=limit, count=int(90 * scale))
            assert found["total"] > LISTED
            figures[f"api_page_{limit}"] = found["p50_ms"]
            figures[f"api_page_{limit}_p99"] = found["p99_ms"]
        found = _load(rig, "stream")
        figures["api_stream"] = found["seconds"]
        figures["api_stream_beside"] = found["p99_ms"]
        figures["api_stream_memory"] = _rss_mib(control) - before
        return figures


def _fill(paths):
    paths.root.mkdir()
    store = Store(sqlite_url(paths.state_db))
    checked = rules(SinkRule(local_allowed=True))
    spec = api_subscription.parse(json.loads(_api_load.PROPOSAL), checked)
    for first in range(0, LISTED, BATCH):
        numbers = range(first, first + BATCH)
        made = store.apply([Put(f"listed-{n:07d}", spec, f"{n:032x}") for n in numbers], 0)
        store.mark_appended(made[-1].seq)
    store.close()


def _load(rig, mode, **options):
    words = [sys.executable, str(HERE / "_api_load.py"), str(rig.server.port), mode]
    for name, value in options.items():
        words += [f"--{name}", str(value)]
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)


def _rss_mib(process: psutil.Process):
    return process.memory_info().rss / 2**20
