"""Benchmarks of a whole server: ``python benchmarks/run.py [groups…] [--quick] [--profile]``.

Each group starts ``distributary serve`` on a fresh data directory, waits until it is ready, warms
it up and measures its lines. Sinks and load run in processes of their own on the same machine, so
the figures hold for all of it together. Backlogs to drain are made while the pipeline's Python
workers are stopped (SIGSTOP): events are accepted, durable, and not yet read.

Prints two tables. Beside each figure stands what is wanted, and the figure in bare units: a rate
as a share of the rate of a bare exchange (``_exchange.py``), CPU in multiples of its CPU; a latency
stands beside ``fdatasync``. The second table splits CPU by process of the server, without load and
sinks. Writes ``benchmarks/results/<date>.json`` with the machine's data. ``--soak`` runs the long
ones instead (``soak.py``).
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import psutil

from distributary.core.errors import DistributaryError

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import _figures  # noqa: E402 - the line above makes this folder a place to import from
import _lines  # noqa: E402
import _machine  # noqa: E402
import _table  # noqa: E402
import _yardsticks  # noqa: E402

BUSY_LOOK_S = 1.0
"""How long to look at what other programs use, before each group."""

FAILURES = (AssertionError, OSError, RuntimeError, subprocess.SubprocessError, DistributaryError)
"""How a group fails: a server that does not answer in time, a check that does not hold, a process
that ends. A bug of the benchmarks ends the run, with its trace."""

QUICK = 0.25
"""Sizes and durations of a quick run, of the full ones: shows that it works, no figures."""


def main():
    if "--soak" in sys.argv[1:]:
        import soak  # noqa: PLC0415 - another program, with options of its own

        return soak.main([argument for argument in sys.argv[1:] if argument != "--soak"])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", help=f"of: {', '.join(_lines.GROUPS)}")
    parser.add_argument("--quick", action="store_true", help="a quarter of everything")
    parser.add_argument("--profile", action="store_true", help="py-spy; figures suffer from it")
    parser.add_argument("--soak", action="store_true", help="kills and memory, a quarter hour")
    options = parser.parse_args()
    unknown = set(options.groups) - set(_lines.GROUPS)
    if unknown:
        parser.error(f"unknown: {' '.join(sorted(unknown))}")
    machine, scale = _machine.describe(), QUICK if options.quick else 1.0
    print(f"Python {machine['python']}; {machine['cores']} cores, {machine['cpu']}", flush=True)
    seen, failed, before = {}, [], _yardsticks.measure(scale)
    for name in options.groups or _lines.GROUPS:
        busy = psutil.cpu_percent(BUSY_LOOK_S)
        about = _lines.GROUPS[name].__doc__.splitlines()[0]
        print(f"==> {name}: {about} (others use {busy:.0f} % CPU)", flush=True)
        machine.setdefault("busy_percent_before", {})[name] = busy
        more = {"profile": True} if options.profile and name in _lines.PROFILED else {}
        try:
            measured = _lines.GROUPS[name](scale, **more)
        except FAILURES as error:  # one group that fails must not cost the others
            failed.append(name)
            print(f"{name} failed: {error!r}", file=sys.stderr, flush=True)
            measured = {}
        after = _yardsticks.measure(scale)
        around, before = before.mean(after), after
        for key, value in measured.items():
            seen[key] = _table.Seen.of(value, around)
            print(f"    {key} = {seen[key].value:,.2f}", flush=True)
    _table.show(seen)
    path = _write(machine, seen, quick=options.quick)
    print(f"written to {path.relative_to(HERE.parent)}")
    return 1 if failed else 0


def _write(machine, seen, *, quick):
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{time.strftime('%Y-%m-%dT%H%M%S')}.json"
    lines = {name: _line(_figures.BY_NAME[name], one) for name, one in seen.items()}
    result = {"machine": machine, "quick": quick, "lines": lines}
    path.write_text(json.dumps(result, indent=2) + "\n")
    return path


def _line(line, one):
    return {
        "value": one.value,
        "unit": line.unit,
        "target": _figures.target(line, one.yardsticks),
        "reached": _figures.reached(line, one.value, one.yardsticks),
        "ratio": _figures.ratio(line, one.value),
        "bare_units": _figures.units(line, one.value, one.yardsticks),
        "by_process": one.by_process,
        "yardsticks": one.yardsticks._asdict(),
    }


if __name__ == "__main__":
    sys.exit(main())
