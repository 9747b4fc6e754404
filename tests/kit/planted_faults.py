"""Mutation tests: plants known faults in a copy of the tree, which the fast stage must detect.

A fault is data: a text that occurs once in the package, and its replacement. It names no file, so
code may move. ``tests/unit/kit/test_planted_faults.py`` reports texts that no longer occur: adapt
the fault to the changed line.

Callers: the soak run, ``python -m kit.planted_faults [NAME…]``. Hides: the copy, and the order of
the tests.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kit.owner_faults import OWNERS, Fault

__all__ = ["FAULTS", "Found", "find", "main", "places_of", "plant"]

ROOT: Final = Path(__file__).resolve().parents[2]

NEEDED: Final = ("src", "tests", "docs", "scripts", "examples", "benchmarks")
"""Folders of a copy, beside the files of the root."""

SUITES: Final = ("unit", "simulation", "property", "contract", "conformance/cesql")
"""Of the fast stage, what starts no server; the quickest to find something first."""

RUN_S_MAX: Final = 1_800.0
"""Longest run of a suite over one fault: the slowest takes some minutes on a busy machine."""

TEST_S_MAX: Final = 180
"""Longest test over one fault: the slowest takes 20 s. A test that does not end has found it."""

MEMORY_BYTES_MAX: Final = 4 << 30
"""Most address space of the tests over one fault: what goes on for ever may fill the machine."""


_BEGUN: Final = re.compile(r"(tests/\S+\.py::.*?)(?: (?:Timeout|Fatal) .*)?\s*$")
_NO_TESTS: Final = 5
_NOT_UNDERSTOOD: Final = 4
"""What pytest ends with where it has nothing to run, and where it does not understand what to."""


class Found(NamedTuple):
    """The result for one fault.

    Attributes:
        fault: The fault.
        by: The first test that failed; "" if none did.
        took_s: Duration, seconds.
    """

    fault: Fault
    by: str
    took_s: float


FAULTS: Final = (
    *OWNERS,
    # -- the log ------------------------------------------------------------------------------
    Fault("acknowledged before the sync", "log", "self._disk.fdatasync(self._handle)", "pass"),
    Fault(
        "a log goes on after a sync that failed",
        "log",
        'failed = unavailable(error, self._folder, "sync")\n            self._die(failed)',
        'failed = unavailable(error, self._folder, "sync")',
    ),
    Fault(
        "times go back with the clock",
        "log",
        "time_ms = max(self._clock.wall_ms(), self._time_ms)",
        "time_ms = self._clock.wall_ms()",
    ),
    Fault(
        "a segment is not rolled when it is full",
        "log",
        "if self._position + size > self._capacity:",
        "if self._position > self._capacity:",
    ),
    Fault(
        "the name of a segment is not synced",
        "log",
        "target)\n            self._disk.fsync_dir(self._folder)",
        "target)",
    ),
    Fault(
        "offsets that were lost are used again",
        "log",
        "wanted = max(hint, min_next_offset, self.next_offset, *cuts)",
        "wanted = max(self.next_offset, 0, *cuts)",
    ),
    Fault(
        "what retention gave up is still read",
        "log",
        "return max(firsts[0], cuts[-1]) if cuts else firsts[0]",
        "return firsts[0]",
    ),
    Fault(
        "a damaged head of a record passes",
        "log",
        "if zlib.crc32(block[position : position + _COVERED_BYTES]) != fields[8]:",
        "if not fields:",
    ),
    Fault(
        "a damaged body passes",
        "log",
        "return zlib.crc32(body, _SEALED) == header.body_crc",
        "return len(body) == header.length",
    ),
    Fault(
        "retention does not look again before it deletes",
        "log",
        "if keep_from_again is not None and keep_from_again() < cut:",
        "if keep_from_again is None and cut < 0:",
    ),
    Fault(
        "a full queue takes more",
        "log",
        "or self._pending_count >= self._queue_count_max\n        ):",
        "or self._closing\n        ):",
    ),
    # -- filters ------------------------------------------------------------------------------
    Fault(
        "all means any",
        "filter",
        "return tests[0]\n    if len(tests) == 2:\n        first, second = tests\n"
        "        return lambda attributes: first(attributes) and second(attributes)",
        "return tests[0]\n    if len(tests) == 2:\n        first, second = tests\n"
        "        return lambda attributes: first(attributes) or second(attributes)",
    ),
    Fault(
        "not means nothing",
        "filter",
        "return lambda attributes: not test(attributes)",
        "return lambda attributes: bool(test(attributes))",
    ),
    Fault(
        "exact passes an event without the attribute",
        "filter",
        "return value == text or (",
        "return value is None or value == text or (",
    ),
    Fault(
        "prefix of a number never matches",
        "filter",
        "return value is not None and canonical(value).startswith(text)",
        "return False",
    ),
    Fault(
        "suffix is prefix", "filter", "return value.endswith(text)", "return value.startswith(text)"
    ),
    Fault(
        "an error of CESQL passes",
        "filter",
        "return result.value is True and result.error is None",
        "return result.value is True or result.error is not None",
    ),
    Fault("a comparison with nothing is taken", "filter", "elif not text:", "elif text is None:"),
    Fault(
        "a filter with faults is compiled",
        "filter",
        "faults = check(filters)\n    if faults:",
        "faults = check(filters)\n    if faults and not filters:",
    ),
    # -- the engine ---------------------------------------------------------------------------
    Fault(
        "the cursor passes matches that are open",
        "engine",
        "return Mark(*order[0][:2]) if order else Mark(self._next, self._checksum)",
        "return Mark(self._next, self._checksum)",
    ),
    Fault(
        "a gap in the log is not passed",
        "engine",
        "if offset > self._next:\n            self._next = offset",
        "if offset > self._next + 1:\n            self._next = offset",
    ),
    Fault(
        "a match that is done counts twice",
        "engine",
        "if not tasks and offset != self._partial:",
        "if len(tasks) <= 1 and offset != self._partial:",
    ),
    Fault(
        "an outcome is believed whatever the record is now",
        "engine",
        "if checksum is not None and checksum != task.checksum:\n"
        "            self._void(key)\n        return checksum == task.checksum",
        "return checksum is not None",
    ),
    Fault(
        "ticks pass a filter that refuses them",
        "engine",
        "if held.address != TOLD and not self._table.matches(route, event):",
        "if not self._table:",
    ),
    Fault(
        "a damaged frame of the journal passes",
        "journal",
        "if zlib.crc32(body) != checksum:",
        "if not checksum:",
    ),
    Fault(
        "a row on its way to the store loses its event",
        "partitions",
        "if row.event == IN_STORE and row.key in self._changes.rows:",
        "if row.event == IN_STORE and row.key not in self._changes.rows:",
    ),
    Fault(
        "one route may keep all the rows",
        "engine",
        "if count >= limits.rows_per_route_max * share:",
        "if count >= limits.rows_max * share:",
    ),
    Fault(
        "a backfill that ended goes on",
        "engine",
        "if row.to_offset is not None and row.from_offset >= row.to_offset:",
        "if row.to_offset is not None and row.from_offset > row.to_offset:",
    ),
    Fault(
        "an attempt too many",
        "policy",
        "if attempt > policy.retry:",
        "if attempt > policy.retry + 1:",
    ),
    Fault(
        "Retry-After shortens a wait",
        "policy",
        "wait_s = max(wait_s, min(asked_s, policy.asked_wait_s_max))",
        "wait_s = min(asked_s, policy.asked_wait_s_max)",
    ),
    Fault(
        "the wait doubles once too often",
        "policy",
        "2.0 ** min(attempt - 2, _DOUBLINGS_MAX)",
        "2.0 ** min(attempt - 1, _DOUBLINGS_MAX)",
    ),
    Fault(
        "a redirect counts as delivered",
        "policy",
        "return 200 <= answer.status < 300",
        "return 200 <= answer.status < 400",
    ),
    Fault(
        "a dead letter never leaves",
        "engine",
        "if task.stage is Stage.PRIMARY and target.dead_letter is not None:",
        "if task.stage is Stage.PRIMARY and target.dead_letter is None and target.reply is task:",
    ),
    # -- tokens -------------------------------------------------------------------------------
    Fault(
        "token: the issuer's algorithms do not count",
        "access",
        "if algorithm not in one.issuer.algorithms:",
        "if False:",
    ),
    Fault(
        "token: the key need not fit the algorithm",
        "access",
        "found = [key for key in named if algorithm in key.fits]",
        "found = list(named)",
    ),
    Fault(
        "token: any signature counts",
        "access",
        "if not jwks.is_signed(key, algorithm, parts.signed, parts.signature):",
        "if False:",
    ),
    Fault(
        "token: one without an end counts for ever",
        "access",
        'if not all(map(_is_time, (claims.get("exp"), *begins))):',
        'if not all(map(_is_time, (claims.setdefault("exp", 9e10), *begins))):',
    ),
    Fault(
        "token: one for another audience counts",
        "access",
        "return tuple(target for target in targets if target) or TokenFault.AUDIENCE",
        "return tuple(target for target in targets if target) or None",
    ),
    Fault(
        "token: bits beyond its end are ignored",
        "access",
        'return raw if base64.urlsafe_b64encode(raw).rstrip(b"=") == part else None',
        "return raw",
    ),
    Fault(
        "token: critical extensions are ignored",
        "access",
        'if "crit" in header or "b64" in header:',
        "if False:",
    ),
    Fault(
        "token: keys of any size are read",
        "access",
        "RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX",
        "True",
    ),
    Fault(
        "token: a claim can name all namespaces",
        "access",
        "if isinstance(name, str) and is_namespace(name))",
        "if isinstance(name, str))",
    ),
    Fault(
        "token: withdrawn keys are remembered",
        "access",
        "if _trusted(snapshot) == _trusted(before):",
        "if True:",
    ),
    Fault(
        "issuer: a discovery document of another is believed",
        "issuers",
        'if found.get("issuer") != url:',
        "if False:",
    ),
    Fault(
        "issuer: whoever sends tokens decides how often it is asked",
        "issuers",
        "may_ask = self.asked_s is None or now_s >= self.asked_s + ASKED_S_MIN",
        "may_ask = True",
    ),
    # -- keys ---------------------------------------------------------------------------------
    Fault(
        "key: it allows more than its maker may do",
        "access",
        "return [each for each in wanted if not giver.may(each)]",
        "return []",
    ),
    Fault(
        "key: an administrator sees those of other namespaces",
        "subscriptions",
        "if oversees(reader, key.record.grants)]",
        "if reader]",
    ),
    Fault(
        "key: it outlives the key that made it",
        "subscriptions",
        "proposal.until_ms is None or proposal.until_ms > ends",
        "False",
    ),
    Fault(
        "key: a change is answered before receivers know it",
        "processes",
        "while self.decided() < number:",
        "while False:",
    ),
    Fault(
        "key: a full disk delays a revocation in the control process too",
        "processes",
        "            self.gate.replace(snapshot)\n"
        "            if self._policies_number:\n"
        "                self._board.publish(snapshot.number, snapshot.encode())",
        "            if self._policies_number:\n"
        "                self._board.publish(snapshot.number, snapshot.encode())\n"
        "            self.gate.replace(snapshot)",
    ),
    Fault(
        "key: it goes wherever the operator's variable is set",
        "cli",
        "    if token_from is None:\n        return {}",
        "    if token_from is None and read_token(None) is None:\n        return {}",
    ),
)


def places_of(text: str, root: Path = ROOT) -> list[Path]:
    """The modules below *root* with *text*, one entry for each occurrence.

    Of the package, and of the database that stands for one of the package in the simulation.
    """
    folders = root / "src" / "distributary", root / "tests" / "kit" / "simulation"
    modules = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return [path for path in modules for _ in range(path.read_text("utf-8").count(text))]


def plant(fault: Fault, root: Path) -> Path:
    """Plant *fault* below *root*; the file that has it."""
    (path,) = places_of(fault.old, root)
    path.write_text(path.read_text("utf-8").replace(fault.old, fault.new), "utf-8")
    return path


def find(fault: Fault) -> Found:
    """Plant *fault* in a copy and run the tests there until one fails."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        left_out = shutil.ignore_patterns("__pycache__", "results", ".*")
        for name in NEEDED:
            shutil.copytree(ROOT / name, copy / name, ignore=left_out)
        for path in ROOT.iterdir():
            if path.is_file() and (path.suffix or path.name in {"Makefile", ".importlinter"}):
                shutil.copy(path, copy)
        by = _asked(fault, copy)
    return Found(fault, by, time.monotonic() - began_s)


def _asked(fault: Fault, copy: Path) -> str:
    """The first test in *copy* that fails with *fault* and passes without it; "" if none does."""
    spoilt: list[str] = []
    for paths in _rounds(fault, copy):
        while failed := _with(fault, copy, [*paths, *(f"--deselect={name}" for name in spoilt)]):
            if failed in spoilt or not _failed(copy, [failed]):
                return failed
            spoilt.append(failed)
    return ""


def _with(fault: Fault, copy: Path, arguments: Sequence[Path | str]) -> str:
    (path,) = places_of(fault.old, copy)
    whole = path.read_text("utf-8")
    plant(fault, copy)
    try:
        return _failed(copy, arguments)
    finally:
        path.write_text(whole, "utf-8")


def _rounds(fault: Fault, root: Path) -> Iterator[list[Path]]:
    """Folders of tests, those of the fault's room first; then whole suites."""
    tests = root / "tests"
    near = [path for suite in SUITES for path in sorted((tests / suite).rglob(fault.room))]
    if near:
        yield near
    for suite in SUITES:
        yield [tests / suite]


def _failed(root: Path, arguments: Sequence[Path | str]) -> str:
    """The first test of *arguments*, places and options, that fails or does not end; "": none.

    Raises:
        RuntimeError: The tests did not run; the message has their output.
    """
    options = ("-x", "-v", "-p", "no:cacheprovider", "--no-header", "--tb=no")
    ends = (f"faulthandler_timeout={TEST_S_MAX}", "faulthandler_exit_on_timeout=true")
    command = [sys.executable, "-m", "pytest", *options, *(f"-o{end}" for end in ends)]
    with subprocess.Popen(
        [*command, *map(str, arguments)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as tests:
        resource.prlimit(tests.pid, resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
        try:
            told, _ = tests.communicate(timeout=RUN_S_MAX)
        except subprocess.TimeoutExpired:
            tests.kill()
            raise
    if tests.returncode in {0, _NO_TESTS}:
        return ""
    lines = told.splitlines()
    failed = [line.split(" ", 1)[1] for line in lines if line.startswith(("FAILED", "ERROR "))]
    begun = [found[1] for line in lines if (found := _BEGUN.match(line))]
    if failed:
        return failed[0].partition(" - ")[0]
    if begun and tests.returncode != _NOT_UNDERSTOOD:
        return begun[-1]
    raise RuntimeError(f"pytest ended with {tests.returncode}:\n{told[-2000:]}")


def main(arguments: Sequence[str]) -> int:
    """Plant the faults whose names hold a word of *arguments*, or all; 1 where one is not found."""
    chosen = [
        fault for fault in FAULTS if not arguments or any(word in fault.name for word in arguments)
    ]
    missed = 0
    for fault in chosen:
        found = find(fault)
        missed += not found.by
        print(f"{fault.name:<52} {found.took_s:6.0f} s  {found.by or 'NOT FOUND'}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} planted faults were found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
