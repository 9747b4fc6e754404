"""Subscriptions added, changed and removed while events flow; the checker has the last word.

    python benchmarks/churn.py [--subscriptions 1000] [--seconds 60] [--rate 1000] [--kills 0]

Every event must have been evaluated by exactly the routes that stood before it in the log. Exit
code 1 where one was not. ``--kills`` kills owners of partitions meanwhile.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import _kit  # noqa: F401 - for the imports of kit
from kit.check_routes import shown
from kit.churn import Plan, run_churn


def measure(scale=1.0):
    """A thousand subscriptions come, change and go at 1,000 events/s."""
    report = _run(Plan(subscriptions=int(1000 * scale), seconds=60.0 * scale, rate_per_s=1000.0))
    return {
        "churn_wrong": sum(report.routes.counts.values()),
        "churn_verdicts": report.routes.verdicts,
        "churn_changes": report.changes,
        "churn_rate": report.rate_per_s,
        "churn_longest": report.longest_s * 1000,
    }


def _run(plan):
    with tempfile.TemporaryDirectory(prefix="distributary-churn-") as folder:
        report = run_churn(Path(folder), plan)
    print(shown(report.routes), flush=True)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--subscriptions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=1000.0, help="events a second")
    parser.add_argument("--kills", type=int, default=0, help="of owners of partitions")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = _run(
        Plan(
            subscriptions=options.subscriptions,
            seconds=options.seconds,
            rate_per_s=options.rate,
            kills=options.kills,
            seed=options.seed,
        )
    )
    print(
        f"{report.acked:,} events acknowledged at {report.rate_per_s:,.0f}/s; {report.changes:,}"
        f" changes, the longest {report.longest_s * 1000:,.0f} ms; {options.kills} kills; exit"
        f" code of the stop {report.stop_code}; seed {options.seed}"
    )
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
