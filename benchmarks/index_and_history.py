"""What the index of ids and the history cost: pairs of servers with and without, in turn.

    python benchmarks/index_and_history.py [PAIRS] [EVENTS] [FLAG ...]

Each flag is left out of one side; by default ``--event-index off --history off`` is the side
without. Both servers run at once, and one is measured while the other one has nothing to do: how
fast EVENTS are accepted while no owner reads, how fast they drain, and the CPU of all processes for
an event, the index process's until it has made its files. Prints each pair, and the medians of
their ratios.
"""

import statistics
import sys
import time

from _rig import Rig

SETTLE_S = 3.0
"""Until the index has what the log has: it looks once a second."""


def main():
    """Measure all pairs."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    flags = sys.argv[3:] or ["--event-index", "off", "--history", "off"]
    with Rig() as on, Rig(*flags) as off:
        sides = {"with": (on, on.sink()), "without": (off, off.sink())}
        for rig, sink in sides.values():
            rig.server.subscribe(sink.url)
            for _ in range(2):
                _turn(rig, sink, count)
        found = {name: [] for name in sides}
        for pair in range(pairs):
            for name in sorted(sides, reverse=bool(pair % 2)):
                found[name].append(_turn(*sides[name], count))
            each = {name: found[name][-1] for name in sides}
            print(
                *(f"{name}: {_shown(figures)}" for name, figures in each.items()),
                sep=" | ",
                flush=True,
            )
        for figure in ("accept", "drain", "cpu"):
            ratios = [
                a[figure] / b[figure] for a, b in zip(found["with"], found["without"], strict=True)
            ]
            low, high = min(ratios), max(ratios)
            print(f"{figure}: {statistics.median(ratios):.3f} of without ({low:.3f} to {high:.3f})")
        for name, runs in found.items():
            roles = sorted({role for run in runs for role in run["by"]})
            each = (
                f"{role} {statistics.median(run['by'].get(role, 0.0) for run in runs):.1f}"
                for role in roles
            )
            print(f"{name}, us an event:", *each, sep=" ")


def _turn(rig, sink, count):
    sink.reset()
    used = rig.meter()
    with rig.stopped_pipeline():
        sent = rig.load("closed", connections=64, count=count)
    arrived = sink.wait_for(count)
    rig.settle()
    time.sleep(SETTLE_S)
    by = {role: each / count * 1e6 for role, each in used().items()}
    return {
        "accept": count / sent["seconds"],
        "drain": count / ((arrived["last_ns"] - arrived["first_ns"]) / 1e9),
        "cpu": sum(by.values()),
        "by": by,
    }


def _shown(figures):
    accept, drain, cpu = figures["accept"], figures["drain"], figures["cpu"]
    return f"accept {accept:,.0f}/s drain {drain:,.0f}/s cpu {cpu:.1f} us"


if __name__ == "__main__":
    main()
