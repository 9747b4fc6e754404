"""Ask for advisories about every package of the locks, and report.

    python scripts/audit.py [--osv-url URL]     (make audit)

Exit code 1 for a finding without an exception in locks/exceptions.toml, and for an exception that
is over. Where no source of advisories can be reached the line begins with NOT RUN, and the exit
code is 0: no news is not bad news, and not good news either. ``pip-audit`` asks; it knows packages
of Python only, so what is known about Spark's jars is to be asked with the bill of materials.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
EXCEPTIONS = ROOT / "locks" / "exceptions.toml"

AUDIT_S_MAX = 45.0
"""Longest time for all of it, seconds: a source that hangs holds up continuous integration no
longer. A hundred packages take some ten."""

ANSWER_S_MAX = 10
"""Longest wait for a source's answer about one package, seconds."""

EXCEPTION_DAYS_MAX = 180
"""Days that an exception may still run: who sets one decides again within half a year."""

CANARY = ("jinja2", "2.4.1")
"""A release with advisories since 2014. A source that knows none of it (an index mirror often has
the packages alone, and ``pip-audit`` then finds nothing and reports success) is no source."""


class Finding(NamedTuple):
    """An advisory that concerns a locked version."""

    package: str
    version: str
    ids: tuple[str, ...]
    """Its id and its aliases (PYSEC-, GHSA-, CVE-)."""
    fixed_in: tuple[str, ...]

    def __str__(self) -> str:
        fixed = f"fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "not fixed yet"
        return f"{self.package} {self.version}: {', '.join(self.ids)} ({fixed})"


class Exemption(NamedTuple):
    """A finding that we live with, until a day."""

    package: str
    id: str
    reason: str
    until: date

    def covers(self, finding: Finding) -> bool:
        """Whether *finding* is the one meant; an alias will do."""
        same = canonicalize_name(self.package) == canonicalize_name(finding.package)
        return same and self.id in finding.ids


class NotRunError(Exception):
    """Advisories cannot be had; says why."""


def read_exceptions(text: str, today: date) -> tuple[list[Exemption], list[str]]:
    """The exceptions of the file, and its faults; one that is over is a fault."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return [], [f"no TOML: {error}"]
    faults = [f"unknown key {key}" for key in document if key != "exception"]
    exceptions = []
    for number, entry in enumerate(document.get("exception", ()), 1):
        own = list(_faults_of(entry, today))
        faults += [f"exception {number} ({entry.get('id', '?')}): {fault}" for fault in own]
        if not own:
            exceptions.append(Exemption(**entry))
    return exceptions, faults


def _faults_of(entry: Mapping[str, Any], today: date) -> Iterator[str]:
    yield from (f"unknown key {key}" for key in entry if key not in Exemption._fields)
    for key in ("package", "id", "reason"):
        if not (isinstance(entry.get(key), str) and entry[key].strip()):
            yield f"{key} is missing"
    until = entry.get("until")
    if not isinstance(until, date) or isinstance(until, datetime):
        yield "until is not a day such as 2026-12-31"
    elif until < today:
        yield f"it was until {until}: mend it, or decide again"
    elif until > today + timedelta(EXCEPTION_DAYS_MAX):
        yield f"until is more than {EXCEPTION_DAYS_MAX} days away"


def judge(
    findings: Iterable[Finding], exceptions: Sequence[Exemption]
) -> tuple[list[str], list[str]]:
    """(failures, notes): what is not excepted; what is, and exceptions that nothing needs."""
    failures, notes, used = [], [], set()
    for finding in findings:
        covering = next((one for one in exceptions if one.covers(finding)), None)
        if covering is None:
            failures.append(str(finding))
        else:
            used.add(covering)
            notes.append(f"{finding}; excepted until {covering.until}: {covering.reason}")
    unused = [one for one in exceptions if one not in used]
    notes += [f"the exception for {one.package}, {one.id} is no longer needed" for one in unused]
    return failures, notes


def pins_of(locks: Iterable[str]) -> list[tuple[str, str]]:
    """(name, version) of every package in the texts of *locks*; a name may have several."""
    found = (re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE) for text in locks)
    return sorted({(canonicalize_name(name), version) for one in found for name, version in one})


def rounds_of(pins: Iterable[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """*pins* in groups in which each name occurs once: one audit takes one version of each."""
    rounds: list[dict[str, str]] = []
    for name, version in pins:
        free = next((one for one in rounds if name not in one), None)
        if free is None:
            rounds.append(free := {})
        free[name] = version
    return [list(one.items()) for one in rounds]


def ask(
    pins: Sequence[tuple[str, str]], source: Sequence[str], until_s: float
) -> tuple[list[Finding], list[str]]:
    """Findings about *pins*, and names that the source does not know.

    Raises:
        NotRunError: the source cannot be reached, or does not answer in time.
    """
    findings, unknown = [], []
    for one in rounds_of(pins):
        for dependency in _run(one, source, until_s):
            if "skip_reason" in dependency:
                unknown.append(dependency["name"])
                continue
            for found in dependency["vulns"]:
                ids = found["id"], *sorted(set(found["aliases"]) - {found["id"]})
                fixed_in = tuple(found["fix_versions"])
                name, version = dependency["name"], dependency["version"]
                findings.append(Finding(name, version, ids, fixed_in))
    return findings, unknown


def _run(
    pins: Sequence[tuple[str, str]], source: Sequence[str], until_s: float
) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "pins.txt"
        listed.write_text("".join(f"{name}=={version}\n" for name, version in pins))
        command = [sys.executable, "-m", "pip_audit", "--requirement", str(listed)]
        command += ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
        command += ["--timeout", str(ANSWER_S_MAX), "--cache-dir", str(Path(folder) / "c"), *source]
        try:
            ran = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                timeout=max(1.0, until_s - time.monotonic()),
                env=os.environ | {"PYTHONWARNINGS": "ignore"},
            )
        except subprocess.TimeoutExpired as error:
            raise NotRunError(f"no answer within {AUDIT_S_MAX:.0f} s") from error
    try:
        # Findings are exit code 1, and so are errors: the report tells them apart.
        dependencies = json.loads(ran.stdout)["dependencies"]
    except (ValueError, KeyError) as error:
        said = ran.stderr.strip().splitlines() or ["no report"]
        raise NotRunError(said[-1]) from error
    assert isinstance(dependencies, list)
    return dependencies


def audit(
    pins: Sequence[tuple[str, str]], sources: Mapping[str, Sequence[str]]
) -> tuple[str, list[Finding], list[str]]:
    """Ask the first source that knows the canary: its name, the findings, unknown names.

    Raises:
        NotRunError: none does; says why, for each.
    """
    until_s = time.monotonic() + AUDIT_S_MAX
    reasons = []
    for name, source in sources.items():
        try:
            if ask([CANARY], source, until_s)[0]:
                return name, *ask(pins, source, until_s)
            reasons.append(f"{name}: no advisory about {' '.join(CANARY)}, which has several")
        except NotRunError as error:
            reasons.append(f"{name}: {error}")
    raise NotRunError("; ".join(reasons))


def main() -> int:
    """Ask, compare, report; the exit code says whether somebody has to act."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--osv-url", help="ask this OSV service alone, such as http://.../v1/query")
    parser.add_argument("--exceptions", type=Path, default=EXCEPTIONS)
    arguments = parser.parse_args()
    osv = ["--vulnerability-service", "osv"]
    sources = {"the package index": ["--vulnerability-service", "pypi"], "OSV": osv}
    if arguments.osv_url:
        sources = {"OSV": [*osv, "--osv-url", arguments.osv_url]}
    today = datetime.now(UTC).date()
    exceptions, failures = read_exceptions(arguments.exceptions.read_text(), today)
    pins = pins_of(path.read_text() for path in sorted((ROOT / "locks").glob("*.txt")))
    try:
        source, findings, unknown = audit(pins, sources)
    except NotRunError as error:
        print(f"NOT RUN (audit of {len(pins)} packages): {error}")
    else:
        wrong, notes = judge(findings, exceptions)
        failures += wrong
        for note in notes:
            print(f"audit: {note}")
        if unknown:
            print(f"NOT RUN (audit, {len(unknown)} packages unknown there): {', '.join(unknown)}")
        print(f"audit of {len(pins)} packages by {source}: {len(findings)} findings")
    for failure in failures:
        print(f"audit: {failure}", file=sys.stderr)
    if failures:
        print("renew with `make lock ARGS='--upgrade --days 0'`, or except in", file=sys.stderr)
        print(f"{arguments.exceptions}, with a reason and until when", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
