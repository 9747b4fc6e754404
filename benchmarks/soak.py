"""The long run: kills under load, seeds, the tests of the soak, planted faults, flat memory.

    python benchmarks/run.py --soak [--kills 100] [--broker-kills 20] [--resource-changes 1000]
                                    [--cluster-kills 20] [--cluster-cuts 5] [--cluster-sleeps 5]
                                    [--seeds 1000] [--no-tests] [--no-faults] [--minutes 10]
                                    [--seed N]

A figure of 0 leaves that part out. Prints a table of verdicts; exit code 1 where one of them is
bad. Repeat a run with its seed. An interrupt (Ctrl-C) ends the faults of the cluster early: what
was seen is judged.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import _kit  # noqa: F401 - for the imports of kit
from _rig import Rig
from kit.broker_kills import Silence, run_broker_kills
from kit.broker_scenarios import SCENARIOS
from kit.cluster.faults import ALONE, CUTS, FORGOTTEN, KILLS, LEFT
from kit.cluster.runs import run_faults
from kit.cluster.trial import table
from kit.kills import run_kills
from kit.planted_faults import FAULTS, find
from kit.resource_kills import run_resource_kills
from knative import VICTIMS

SILENCES = dict.fromkeys(SCENARIOS, (Silence(1.0), Silence(30.0), Silence(30.0, answers_only=True)))
"""Of the wire before each broker, after its kills."""

NOTICED_S_MAX = 22.0
"""A half-open wire: two keepalives of 10 s, and the pause before the next dial."""

ROOT = Path(__file__).parents[1]

SAMPLE_S = 10.0
GROWTH_MIB_MAX = 50.0
"""More than the noise of allocators and collectors over ten minutes, less than any real leak of
a byte per event would stay below at 600,000 events (a leaked event alone is 1 KB)."""


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--broker-kills", type=int, default=20, help="of each broker")
    parser.add_argument("--resource-changes", type=int, default=1000, help="while parts are killed")
    parser.add_argument("--cluster-kills", type=int, default=20, help="of each role, and stops")
    parser.add_argument("--cluster-cuts", type=int, default=5, help="of each wire, in each way")
    parser.add_argument("--cluster-sleeps", type=int, default=5, help="of owners, a minute each")
    parser.add_argument("--cluster-faults", default="", help="only those with this in their name")
    parser.add_argument("--seeds", type=int, default=1000, help="of the simulation")
    parser.add_argument("--tests", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--faults", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args(arguments)
    verdicts = []
    if options.kills:
        verdicts += _kills(options.kills, options.seed)
    if options.broker_kills:
        verdicts += _broker_kills(options.broker_kills, options.seed)
    if options.resource_changes:
        verdicts += _resource_kills(options.resource_changes, options.seed)
    if options.cluster_kills or options.cluster_cuts:
        counts = options.cluster_kills, options.cluster_cuts, options.cluster_sleeps
        verdicts += _cluster_faults(*counts, options.cluster_faults, options.seed)
    if options.seeds:
        verdicts += _seeds(options.seeds)
    if options.tests:
        verdicts += _tests()
    if options.faults:
        verdicts += _faults()
    if options.minutes:
        verdicts += _memory(options.minutes)
    table = Table("what", "figure", "verdict", title=f"soak, seed {options.seed}")
    for what, figure, good in verdicts:
        table.add_row(what, figure, "[green]good[/]" if good else "[bold red]bad[/]")
    Console().print(table)
    return 0 if all(good for _, _, good in verdicts) else 1


def _kills(count, seed):
    with tempfile.TemporaryDirectory(prefix="distributary-soak-") as folder:
        report = run_kills(Path(folder), count, seed)
    for kill in report.kills:
        print(
            f"{kill.victim:<11} in flight {kill.in_flight:>4}  accepting {kill.accepting_s:6.2f} s"
            f"  delivering {kill.delivering_s:6.2f} s"
        )
    print(report.checker)
    accepting = max(kill.accepting_s for kill in report.kills)
    delivering = max(kill.delivering_s for kill in report.kills)
    return [
        (f"{count} kills, {report.acked:,} events: every promise held", "", report.passed),
        ("duplicates that no kill explains", str(report.unexplained), not report.unexplained),
        ("longest until accepting again (5 s)", f"{accepting:.2f} s", accepting <= 5.0),
        ("longest until delivering again (20 s)", f"{delivering:.2f} s", delivering <= 20.0),
        ("exit code of the stop", str(report.stop_code), report.stop_code == 0),
    ]


def _broker_kills(count, seed):
    with tempfile.TemporaryDirectory(prefix="distributary-soak-") as folder:
        report = run_broker_kills(
            Path(folder), count, seed, SILENCES, watch=lambda each: print(each, flush=True)
        )
    verdicts = [(f"{name}: NOT RUN", why, True) for name, why in report.not_had.items()]
    for name, verdict in report.verdicts.items():
        kills = [kill for kill in report.kills if kill.broker == name]
        longest = max(kill.reconnected_s for kill in kills)
        noticed_s = next(
            each.noticed_s
            for each in report.silences
            if each.broker == name and each.silence.answers_only
        )
        good = verdict.passed and longest <= 10.0 and len(kills) == count
        good = good and noticed_s is not None and noticed_s <= NOTICED_S_MAX
        copies = report.copies(name)
        noticed = "never noticed" if noticed_s is None else f"noticed in {noticed_s:.1f} s"
        figure = (
            f"{verdict.counts or 'none lost'}, {copies} copies, reconnected in {longest:.2f} s,"
            f" a half-open wire {noticed}"
        )
        verdicts.append((f"{name}: {count} kills, {report.acked:,} events", figure, good))
    return [*verdicts, ("exit code of the stop", str(report.stop_code), report.stop_code == 0)]


def _resource_kills(changes, seed):
    with tempfile.TemporaryDirectory(prefix="distributary-soak-") as folder:
        report = run_resource_kills(Path(folder), changes, VICTIMS, seed)
    print(report, flush=True)
    figure = f"{report.broken} requests broke off, {report.ready} routes ready"
    good = not report.faults and not report.stop_code and report.changes == changes
    what = f"{len(VICTIMS)} kills while {changes} objects of Knative change"
    return [(what, "; ".join(report.faults[:3]) or figure, good)]


def _cluster_faults(kills, cuts, sleeps, only, seed):
    faults = [*(*KILLS, LEFT) * kills, *(*CUTS, *ALONE, FORGOTTEN) * cuts]
    faults = [fault for fault in faults if only in fault.name]
    if not faults:
        raise SystemExit(f"no fault of a cluster has {only!r} in its name")
    random.Random(seed).shuffle(faults)
    with tempfile.TemporaryDirectory(prefix="distributary-soak-") as folder:
        report, woken = run_faults(
            Path(folder), faults, seed, sleeps=sleeps, say=lambda text: print(text, flush=True)
        )
    print(table(report))
    verdict, strays = report.verdict, len(report.unexplained)
    verdicts = [
        (
            f"cluster: {len(report.seen)} faults, {report.acked:,} events",
            "" if len(report.seen) >= len(faults) else f"of {len(faults)}: interrupted",
            verdict.passed,
        ),
        ("copies that no fault explains", str(strays), not strays),
    ]
    late = sum(len(each.late) for each in woken)
    if woken:
        verdicts.append((f"sent by {len(woken)} former owners later than 1 s", str(late), not late))
    for fault in (*KILLS, LEFT):
        waits = [seen.delivering_s for seen in report.seen if seen.fault == fault.name]
        if not waits:
            continue
        longest, bound = max(waits), fault.delivering_s
        within = f" ({bound:g} s)" if bound else ""
        what = f"{fault.name}, {len(waits)} times, until delivering again{within}"
        verdicts.append((what, f"{longest:.2f} s", bound is None or longest <= bound))
    return verdicts


def _seeds(count):
    environ = {"DISTRIBUTARY_SEEDS": str(count), "DISTRIBUTARY_FIRST_SEED": "0"}
    seeds = ["tests/simulation/test_seeds.py", "tests/simulation/test_shared_seeds.py"]
    what = f"simulation: {count} seeds over files and over shared places"
    return [(what, "", _pytest(seeds, environ))]


def _tests():
    moves = _pytest(
        ["-k", "everything", "tests/postgres/test_migrate.py"], {"DISTRIBUTARY_EVENTS": "200000"}
    )
    redrive = _pytest(["tests/crash/test_redrive_kills.py"], {"DISTRIBUTARY_LETTERS": "100000"})
    return [
        ("tests that the gate leaves to the soak", "", _pytest(["-m", "soak", "tests"], {})),
        ("100,000 dead letters, redriven over two kills", "", redrive),
        ("200,000 events, half delivered, moved to shared places", "", moves),
    ]


def _pytest(arguments, environ):
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environ, check=False).returncode == 0


def _faults():
    found = []
    for fault in FAULTS:
        found.append(find(fault))
        print(f"{fault.name}: {found[-1].by or 'NOT FOUND'}", flush=True)
    return [(f"planted: {one.fault.name}", one.by or "NOT FOUND", bool(one.by)) for one in found]


def _memory(minutes):
    """Ten minutes at 1,000 events/s: the second half needs no more than the first."""
    with Rig() as rig:
        sink = rig.sink()
        rig.server.subscribe(sink.url)
        finish = rig.load(
            "open", background=True, connections=64, rate=1000, seconds=60.0 * minutes
        )
        samples, until_s = [], time.monotonic() + 60.0 * minutes
        while time.monotonic() < until_s:
            time.sleep(SAMPLE_S)
            samples.append(rig.pss_mib())
            print(f"{len(samples) * SAMPLE_S:6.0f} s  {samples[-1]:8.1f} MiB", flush=True)
        sent = finish()
        arrived = sink.wait_for(sent["count"])
    half = len(samples) // 2
    # The first quarter is warm-up: code is compiled, arenas and pools find their size.
    early = statistics.median(samples[half // 2 : half])
    late = statistics.median(samples[half + half // 2 :])
    return [
        ("memory, highest (2,048 MiB)", f"{max(samples):,.0f} MiB", max(samples) <= 2048),
        ("its growth", f"{late - early:+.1f} MiB", late - early <= GROWTH_MIB_MAX),
        ("send to arrival, p50", f"{arrived['p50_ms']:.2f} ms", arrived["p50_ms"] <= 10.0),
        ("send to arrival, p99", f"{arrived['p99_ms']:.2f} ms", arrived["p99_ms"] <= 50.0),
    ]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main(sys.argv[1:]))
