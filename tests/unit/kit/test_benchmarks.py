"""Benchmarks are programs that no other test runs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

TABLE = """
import _figures, _table, _yardsticks
units = _yardsticks.Yardsticks(50_000.0, 40.0, 1.0, 2.0)
seen = {line.name: _table.Seen.of(7.0, units) for line in _figures.LINES}
seen["through_rate"] = _table.Seen.of(15_000.0, units)
seen["through_cpu"] = _table.Seen.of({"ingest": 60.0, "owner 0": 60.0}, units)
_table.show(seen)
"""


def _run(program: str) -> str:
    """What *program* prints that imports from the folder of the benchmarks."""
    places = os.pathsep.join(str(ROOT / name) for name in ("benchmarks", "src"))
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": places},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_every_line_can_be_loaded() -> None:
    """What they import is where they look for it."""
    _run("import run, soak, against, large_bodies")


def test_figures_stand_beside_what_is_wanted_in_bare_units() -> None:
    """Targets follow the units of the run; a rate is a share of one, CPU a multiple."""
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in _run(TABLE).splitlines()
        if line.startswith("│")
    ]
    by_name: dict[str, list[list[str]]] = {}
    for name, *cells in rows:
        by_name.setdefault(name, []).append(cells)
    (rate,) = by_name["1 match, in and out"]
    assert rate[:4] == [
        "≥ 14,000 events/s (0.28 bare, aim 0.33)", "15,000 events/s", "0.30 rate", "reached",
    ]  # fmt: skip
    figure, by_process = by_name["1 match, in and out: CPU an event"]
    assert figure[:4] == ["≤ 100 us (2.5 bare, aim 2)", "120 us", "3.00 CPU", "missed"]
    assert by_process == ["3.00", "1.50", "1.50"]
    (slow,) = by_name["send to arrival p99 at 500/s"]
    assert slow[:3] == ["≤ 7 ms (fdatasync + 5)", "7 ms", "fdatasync 2 ms"]


STOPPED = """
import subprocess, psutil, _rig
from kit.running_server import wait_until

class Server:
    partition_count = staticmethod(lambda: 1)

def stands(process, still):
    wait_until(lambda: (process.status() == psutil.STATUS_STOPPED) is still, 30, str(still))

rig = _rig.Rig.__new__(_rig.Rig)
rig.server = Server()
first, second = (psutil.Popen(["sleep", "60"], stdout=subprocess.DEVNULL) for _ in range(2))
rig._owners = lambda: [first, second]
try:
    with rig.stopped_pipeline():
        stands(first, True)
        stands(second, True)
        first.kill()
        first.wait()
    stands(second, False)
    with rig.stopped_pipeline():
        second.kill()
        second.wait()
except AssertionError as error:
    print(error)
finally:
    for process in (first, second):
        if process.is_running():
            process.kill()
"""


def test_a_stopped_pipeline_goes_on_although_a_worker_has_ended() -> None:
    """The others are continued; where too few are left, an owner was among those that ended."""
    assert _run(STOPPED).splitlines() == ["an owner ended while it was stopped"]
