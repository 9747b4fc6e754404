"""Run the test suite in stages, each with its own pytest, and sum up.

    python scripts/run_tests.py all [pytest arguments]
    python scripts/run_tests.py STAGE [pytest arguments]

The stages are ``fast``, ``e2e``, ``spark``, ``brokers``, ``cluster``, ``laws`` and ``crash``.

``fast`` is two stages, ``fast`` and ``laws``. A few stages run at a time; the next begins when one
has ended. Without the archive that ``distributary archive-classes`` makes, JVMs start more slowly.

Every stage runs even when one before it failed; the exit code is 0 only if all passed. Stages
are processes of their own, so that a Spark session or a killed server of one cannot reach the
next.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]

STAGES = {
    "fast": (
        "test_tidy.py",
        "test_imports.py",
        "test_protocol_names.py",
        "unit",
        "simulation",
        "docs",
        "supply",
    ),
    "e2e": ("e2e",),
    "spark": ("spark", "spark_cluster"),
    "brokers": ("brokers", "postgres"),
    "cluster": ("cluster",),
    "laws": ("property", "contract", "conformance"),
    "crash": ("crash",),
}
"""Stage -> what it runs, under tests/. They begin in this order: first what says soonest that
something is wrong, then the longer ones first: none is to be left alone at the end."""

PARTS = {"e2e": 3, "crash": 3}
"""Stage -> into how many runs its files are dealt: a long one must not be left alone at the end,
when half of a machine would wait for it. Each part of ``e2e`` starts its own shared server."""

AT_ONCE = 3
"""Stages that run at the same time. Half of the time of a stage that starts servers is waiting, so
three keep two cores busy: for 93 to 100 % of the time, so a fourth would end nothing sooner. None
says that something must be quick (some that it must not come too early; those of brokers give a
deadline a quarter of a second more)."""

NO_TESTS_COLLECTED = 5
"""pytest's exit code; with ``-m`` a stage may rightly be empty."""


class Result(NamedTuple):
    """How a stage went."""

    stage: str
    exit_code: int
    passed: int
    failed: int
    skipped: int
    duration_s: float
    not_run: dict[str, int]
    """Why tests were skipped -> how many."""


def main(arguments: Sequence[str]) -> int:
    """Run the stage named first, or all; the rest goes to pytest."""
    wanted = arguments[0] if arguments else "all"
    if wanted != "all" and wanted not in STAGES:
        print(f"no stage {wanted}: all, {', '.join(STAGES)}", file=sys.stderr)
        return 2
    # A shell starts what it runs in the background with SIGINT ignored, and so would be all that
    # the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _refuse_forgotten_folders()
    started_s = time.monotonic()
    stages = {"all": tuple(STAGES), "fast": ("fast", "laws")}.get(wanted, (wanted,))
    results = _run_all(stages, arguments[1:])
    print(f"\n{'stage':<8}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for result in results:
        print(
            f"{result.stage:<8}{result.passed:>8}{result.failed:>8}{result.skipped:>9}"
            f"{result.duration_s:>9.1f}{'' if result.exit_code == 0 else '   FAILED'}"
        )
    for result in results:
        for reason, count in result.not_run.items():
            print(f"NOT RUN ({result.stage}, {count}): {reason.removeprefix('NOT RUN: ')}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy_s = used.ru_utime + used.ru_stime  # without what outlived those who started it
    print(f"all of it: {time.monotonic() - started_s:.0f} s; processors: {busy_s:.0f} s")
    print(_total(results))  # the last line, alone: what a reader of the record looks for
    return 0 if all(result.exit_code == 0 for result in results) else 1


def _run_all(stages: Sequence[str], pytest_arguments: Sequence[str]) -> list[Result]:
    # The output of all but the first comes when they have ended.
    runs = [
        partial(_run, stage, part, pytest_arguments, aside=(stage, part) != (stages[0], 0))
        for stage in stages
        for part in range(PARTS.get(stage, 1))
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda run: run(), runs))


def _total(results: Sequence[Result]) -> str:
    passed, failed, skipped = (sum(result[i] for result in results) for i in (2, 3, 4))
    return f"{passed} passed, {failed} failed, {skipped} skipped"


def _paths(stage: str, part: int) -> Iterator[Path]:
    """What a part of a stage runs; folders whose tests share a server stay together.

    They come last: a match for a Secret that came late is tried again a minute later, and a module
    that leaves nothing under way on the same server would wait for it.
    """
    for name in STAGES[stage]:
        path = ROOT / "tests" / name
        found = [path]
        if stage in PARTS:
            found = sorted(path.iterdir(), key=lambda one: (one.is_dir(), one))
        found = [one for one in found if one.match("test_*.py") or any(one.rglob("test_*.py"))]
        yield from found[part :: PARTS.get(stage, 1)]


def _refuse_forgotten_folders() -> None:
    """A test outside every stage would never run, and nobody would notice."""
    placed = {name for names in STAGES.values() for name in names}
    for test in (ROOT / "tests").rglob("test_*.py"):
        top = test.relative_to(ROOT / "tests").parts[0]
        assert top in placed, f"tests/{top} is in no stage of {__file__}"


def _run(stage: str, part: int, pytest_arguments: Sequence[str], *, aside: bool) -> Result:
    name = f"{stage} {part + 1}" if stage in PARTS else stage
    print(f"\n==> {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        paths = [str(path.relative_to(ROOT)) for path in _paths(stage, part)]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--durations=12",
            f"--junitxml={report}",
            *paths,
        ]
        started_s = time.monotonic()
        ran = subprocess.run(
            [*command, *pytest_arguments],
            check=False,
            cwd=ROOT,
            env=environment(os.environ),
            stdout=subprocess.PIPE if aside else None,
            text=True,
        )
        code = ran.returncode
        if aside:
            print(f"\n==> {name}, all of it\n{ran.stdout}", flush=True)
        duration_s = time.monotonic() - started_s
        total, failed, skipped = _counts(report)
        not_run = _not_run(report)
    if code == NO_TESTS_COLLECTED:
        code = 0 if "-m" in pytest_arguments or "-k" in pytest_arguments else code
    passed = total - failed - skipped
    return Result(name, code, passed, failed, skipped, duration_s, not_run)


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """What a stage gets of *ours*: its processes keep the bytecode that they compile.

    Images of containers like to forbid it. Each of the thousands of processes that the tests start
    would then compile the package anew: a fifth of the CPU of a stage that starts servers.
    """
    return {name: text for name, text in ours.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _counts(report: Path) -> tuple[int, int, int]:
    """(all, failed or in error, skipped) of pytest's report; zeros if pytest died before it."""
    if not report.exists():
        return 0, 0, 0
    suites = list(ET.parse(report).getroot().iter("testsuite"))  # noqa: S314 - our own pytest's

    def count(name: str) -> int:
        return sum(int(suite.get(name, 0)) for suite in suites)

    return count("tests"), count("failures") + count("errors"), count("skipped")


def _not_run(report: Path) -> dict[str, int]:
    """Reason -> how many tests pytest skipped for it."""
    if not report.exists():
        return {}
    skips = ET.parse(report).getroot().iter("skipped")  # noqa: S314 - our own pytest's
    return dict(Counter(skip.get("message", "") for skip in skips))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
