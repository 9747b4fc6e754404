"""Old and new side by side: ``make bench AGAINST=COMMIT``.

Runs ``run.py`` of the old commit and of this tree in turn, old first in one pair and new first in
the next, so that a machine that slows down slows both. Each runs its own programs and its own
source with the packages of this environment. Lines that only one of them has are left out.

For each line: the ratio new to old of every pair, written so that more than 1 is worse, its median,
and an interval that holds the true median with at least 95 %: order statistics, which assume
nothing about how the figures scatter. A line fails when its median is worse by more than it may be.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import _figures  # noqa: E402 - the line above makes this folder a place to import from

PAIRS = 10
"""Enough for an interval of 97.9 % from the second to the ninth of the ratios."""

GROUPS = ("accept", "one", "ten", "none")
"""What runs where nobody names groups: the path of an event. All groups would take many hours."""

WORSE_MAX = 1.03
"""A median ratio above this is a loss of speed; below, ten pairs cannot tell it from noise."""

WORSE_MAX_P99 = 1.25
"""The same for a p99, which a single pause of the machine moves."""

CONFIDENCE = 0.95


def main(arguments):
    """Run the pairs, print the table; 1 where a line is worse than it may be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what to compare with: anything that git can name")
    parser.add_argument("groups", nargs="*", help=f"as of run.py; default: {' '.join(GROUPS)}")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="how many (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a quarter of everything")
    options = parser.parse_intermixed_args(arguments)
    if options.pairs < 1:
        parser.error("--pairs: at least 1")
    runs = ["--quick"] if options.quick else []
    runs += options.groups or GROUPS
    with tempfile.TemporaryDirectory(prefix="against-") as folder:
        old = _checked_out(options.commit, Path(folder))
        pairs = []
        for number in track(range(options.pairs), "pairs", console=Console(stderr=True)):
            order = (old, ROOT) if number % 2 == 0 else (ROOT, old)
            figures = {tree: _run(tree, runs) for tree in order}
            pairs.append((figures[old], figures[ROOT]))
            _write(options, pairs)
    rows = [_row(line, pairs) for line in _figures.LINES if _comparable(line.name, pairs)]
    _show(rows, options)
    return 1 if any(row["worse"] for row in rows) else 0


def _checked_out(commit, folder):
    """The tree of *commit* below *folder*; leaves no trace in the repository."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        raise SystemExit(f"git cannot read {commit}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder


def _run(tree, runs):
    """Figures of one run of *tree*'s own ``run.py``: line -> value."""
    environ = os.environ | {"PYTHONPATH": str(tree / "src")}
    ran = subprocess.run(
        [sys.executable, str(tree / "benchmarks" / "run.py"), *runs],
        cwd=tree,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise SystemExit(f"a run of {tree} failed:\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}")
    newest = max((tree / "benchmarks" / "results").glob("2*.json"), key=lambda path: path.name)
    lines = json.loads(newest.read_text())["lines"]
    return {name: line["value"] for name, line in lines.items()}


def _comparable(name, pairs):
    """Whether every run has the line, with a value that a ratio can be made of."""
    return all(run.get(name, 0) > 0 for pair in pairs for run in pair)


def _row(line, pairs):
    def worse(old, new):
        return old / new if line.at_least else new / old

    ratios = sorted(worse(old[line.name], new[line.name]) for old, new in pairs)
    middle = statistics.median(ratios)
    limit = WORSE_MAX_P99 if "p99" in line.name else WORSE_MAX
    return {
        "line": line,
        "old": statistics.median(old[line.name] for old, _ in pairs),
        "new": statistics.median(new[line.name] for _, new in pairs),
        "ratio": middle,
        "interval": interval(ratios),
        "worse": middle > limit,
    }


def interval(ratios):
    """(low, high) around the median of the sorted *ratios*, with at least ``CONFIDENCE``.

    The true median lies below the k-th smallest of n values with the chance that fewer than k of n
    fair coins show heads. None where so few values cannot say it: fewer than six.
    """
    count, below, chosen = len(ratios), 0.0, None
    for rank in range(count // 2):
        below += math.comb(count, rank) / 2**count
        if 1.0 - 2.0 * below < CONFIDENCE:
            break
        chosen = rank
    return None if chosen is None else (ratios[chosen], ratios[count - 1 - chosen])


def _show(rows, options):
    table = Table(
        "line",
        title=f"against {options.commit}: {options.pairs} pairs; a ratio above 1 is worse",
    )
    for column in ("old", "new", "median ratio", "95 % interval", "verdict"):
        table.add_column(column, justify="right")
    for row in rows:
        low_high = row["interval"]
        table.add_row(
            row["line"].about,
            f"{row['old']:,.2f} {row['line'].unit}",
            f"{row['new']:,.2f} {row['line'].unit}",
            f"{row['ratio']:.3f}",
            "too few pairs" if low_high is None else f"{low_high[0]:.3f} to {low_high[1]:.3f}",
            "[bold red]worse[/]" if row["worse"] else "[green]holds[/]",
        )
    console = Console()
    console.width = max(console.width, 130)
    console.print(table)


def _write(options, pairs):
    """Every figure so far: a run that is ended keeps what it measured."""
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    path = folder / f"against-{options.commit.replace('/', '-')}.json"
    path.write_text(json.dumps([{"old": old, "new": new} for old, new in pairs], indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
