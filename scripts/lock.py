"""Write the lock files from pyproject.toml, or check that they satisfy it.

    python scripts/lock.py             # write; keeps a version that still fits (make lock)
    python scripts/lock.py --upgrade   # write; takes the newest versions
    python scripts/lock.py --check     # offline: exit code 1, and every fault (make lint)

A lock names, for every Python and platform at once (by markers), one version of each package and
the SHA-256 of each of its files, and no index: pip gets the files from whatever index it is set up
with, and refuses others. ``uv`` resolves; ``make install`` needs pip alone. Why it is done like
this: docs/decisions/0060-locked-supply.md.
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "locks"

DAYS_DEFAULT = 7
"""Days that a file must have been on the index: malicious releases are mostly found, and taken
down, within days. ``--days 0`` is for the release that mends a vulnerability."""

RESOLVE_S_MAX = 300.0
"""Longest run of the resolver, seconds: it takes a few, and a slow index some tens."""

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")
"""Where the locks must be installable: tried, without a download, when they are written. Elsewhere
a package may have no wheel. pip then stops, and ``make install LOCKED=no`` resolves anew."""

COMMON = "runtime.txt"
"""The lock that dev.txt is installed with: what stands there is not repeated."""

ALONE = "client.txt"
"""The lock that is installed without runtime.txt."""

SDISTS = ("pyspark", "python-qpid-proton")
"""Packages that are built on the spot, with what build.txt names: no wheels, or none for Linux."""

HEADER = """\
# {what}
# Written by `make lock` from pyproject.toml; do not edit.
# pip install --require-hashes --no-build-isolation -r locks/{name}
"""

ENTRY = re.compile(r"^\S.*\n(?:[ \t].*\n)*", re.MULTILINE)
"""A pinned package with the lines of its hashes, as uv writes it."""

WHAT = {
    "build.txt": "What installs and builds; first of all, and with build isolation off after it.",
    "client.txt": "What the commands need that talk to a server.",
    "runtime.txt": "What the server needs, client.txt included.",
    "amqp.txt": "What the extra amqp adds; needs a C compiler.",
    "java.txt": "What the extra java adds.",
    "otel.txt": "What the extra otel adds.",
    "dev.txt": "What tests and checks add to runtime.txt.",
}


class Pin(NamedTuple):
    """One entry of a lock."""

    requirement: Requirement
    hashes: tuple[str, ...]
    """``sha256:...`` of each file."""

    @property
    def name(self) -> str:
        """Its normalised name."""
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        """The one version that it allows; empty if it does not say ``==``."""
        specifiers = list(self.requirement.specifier)
        exact = len(specifiers) == 1 and re.fullmatch(r"==[^*]+", str(specifiers[0]))
        return specifiers[0].version if exact else ""


def wanted(pyproject: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Name of a lock -> the requirements that it must satisfy."""
    project, groups = pyproject["project"], pyproject["dependency-groups"]
    assert isinstance(project, dict)
    assert isinstance(groups, dict)
    extras = project["optional-dependencies"]
    return {
        "build.txt": tuple(groups["build"]),
        "client.txt": tuple(project["dependencies"]),
        "runtime.txt": (*project["dependencies"], *extras["server"]),
        "amqp.txt": tuple(extras["amqp"]),
        "java.txt": tuple(extras["java"]),
        "otel.txt": tuple(extras["otel"]),
        "dev.txt": tuple(extras["dev"]),
    }


def read(text: str) -> tuple[list[Pin], list[str]]:
    """The entries of a lock, and the lines that do not belong into one."""
    pins, faults = [], []
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        entry, *hashes = re.split(r"\s+--hash=", line.strip())
        try:
            pins.append(Pin(Requirement(entry), tuple(hashes)))
        except InvalidRequirement:
            faults.append(f"not a pinned package: {entry}")
    return pins, faults


def check(pyproject: Mapping[str, object], locks: Mapping[str, str]) -> list[str]:
    """Every fault of the *locks* (name -> text); needs no index.

    It cannot see whether the dependencies of dependencies are all there: pip refuses to install
    what a lock lacks.
    """
    faults = [f"{name}: there is no such lock" for name in wanted(pyproject) if name not in locks]
    versions: dict[tuple[str, str], dict[str, str]] = {}  # (name, marker) -> version -> lock
    common = read(locks.get(COMMON, ""))[0]
    for name, requirements in wanted(pyproject).items():
        pins, strange = read(locks.get(name, ""))
        faults += [f"{name}: {fault}" for fault in strange]
        faults += [f"{name}: {fault}" for pin in pins for fault in _faults_of(pin)]
        if name in locks:
            whole = pins if name == ALONE else [*common, *pins]
            faults += [f"{name}: {fault}" for fault in _unsatisfied(requirements, whole)]
        for pin in pins:
            key = pin.name, str(pin.requirement.marker or "")
            versions.setdefault(key, {}).setdefault(pin.version, name)
    for (package, _), by_version in versions.items():
        if len(by_version) > 1:
            places = ", ".join(f"{version} in {lock}" for version, lock in by_version.items())
            faults.append(f"{package} has several versions: {places}")
    backend = pyproject["build-system"]
    assert isinstance(backend, dict)
    outside = set(backend["requires"]) - set(wanted(pyproject)["build.txt"])
    faults += [f"build-system: {one} is not in the dependency group build" for one in outside]
    faults += [
        f"build-system: {one} is not exact" for one in backend["requires"] if "==" not in one
    ]
    return faults


def _faults_of(pin: Pin) -> Iterator[str]:
    if not pin.version or pin.requirement.url:
        yield f"{pin.name} is not pinned by =="
    if not pin.hashes:
        yield f"{pin.name} has no hash"
    for one in pin.hashes:
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", one):
            yield f"{pin.name} has a hash that is not a SHA-256"


def _unsatisfied(requirements: Sequence[str], pins: Sequence[Pin]) -> Iterator[str]:
    for requirement in map(Requirement, requirements):
        found = [pin for pin in pins if pin.name == canonicalize_name(requirement.name)]
        if not found:
            yield f"{requirement} of pyproject.toml is missing"
        for pin in found:
            if pin.version and not requirement.specifier.contains(pin.version, prereleases=True):
                yield f"{pin.name} {pin.version} is not {requirement}, as pyproject.toml wants"


def write(days: int, *, upgrade: bool) -> None:
    """Resolve everything together, then write each lock with the versions found."""
    by_lock = wanted(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        together = Path(folder) / "together.txt"
        if not upgrade:
            # The resolver keeps what stands in the file that it is to write.
            pins = {str(pin.requirement) for lock in by_lock for pin in _pins_of(FOLDER / lock)}
            together.write_text("\n".join(sorted(pins)))
        everything = [one for requirements in by_lock.values() for one in requirements]
        _compile(everything, together, days=days)
        for name, requirements in by_lock.items():
            path = FOLDER / name
            path.unlink(missing_ok=True)  # else the resolver keeps its versions
            constraint = ("--constraint", str(together), "--generate-hashes")
            _compile(requirements, path, *constraint, days=days)
            entries = ENTRY.findall(path.read_text())
            if name == "dev.txt":
                common = set(ENTRY.findall((FOLDER / COMMON).read_text()))
                entries = [entry for entry in entries if entry not in common]
            path.write_text(HEADER.format(what=WHAT[name], name=name) + "".join(entries))


def _pins_of(path: Path) -> list[Pin]:
    return read(path.read_text())[0] if path.exists() else []


def _compile(requirements: Sequence[str], path: Path, *options: str, days: int) -> None:
    fixed = ("--universal", "--no-header", "--no-annotate", "--no-emit-package", "distributary")
    fixed = (*fixed, "--python-version", PYTHONS[0], "--allow-unsafe", "--output-file", str(path))
    if days:
        fixed = (*fixed, "--exclude-newer", f"{days} days")
    _uv("pip", "compile", "-", *fixed, *options, text="\n".join(requirements))


def try_everywhere() -> list[str]:
    """Where the locks cannot be installed; asks the index which files there are, fetches none."""
    entries = "".join("".join(ENTRY.findall((FOLDER / name).read_text())) for name in WHAT)
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder) / "wheels.txt"
        built = re.compile(rf"^({'|'.join(SDISTS)})==.*\n(?:[ \t].*\n)*", re.MULTILINE)
        wheels.write_text(built.sub("", entries))
        how = ("--dry-run", "--require-hashes", "--no-deps", "--only-binary", ":all:")
        what = ("--target", str(Path(folder) / "nowhere"), "-r", str(wheels))
        for python, platform in itertools.product(PYTHONS, PLATFORMS):
            where = ("--python-version", python, "--python-platform", platform)
            try:
                _uv("pip", "install", *how, *where, *what)
            except subprocess.CalledProcessError as error:
                faults.append(f"not installable on Python {python}, {platform}: {error.stderr}")
    return faults


def _uv(*arguments: str, text: str | None = None) -> None:
    """Run uv with the index and the certificates that pip is set up with."""
    environment = dict(os.environ) | {"UV_NO_CONFIG": "1", "UV_NO_PROGRESS": "1"}
    for variable, setting in (
        ("UV_DEFAULT_INDEX", "index-url"),
        ("UV_INDEX", "extra-index-url"),
        ("SSL_CERT_FILE", "cert"),
    ):
        if variable not in environment and (value := _pip_setting(setting)):
            environment[variable] = value
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    subprocess.run(
        command,
        check=True,
        input=text,
        env=environment,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=RESOLVE_S_MAX,
    )


def _pip_setting(name: str) -> str | None:
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        if key.rpartition(".")[2] == name:
            return value.strip("'\"")
    return None


def main() -> int:
    """Write or check; the exit code says whether the locks are as they should be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only look; offline")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    parser.add_argument("--days", type=int, default=DAYS_DEFAULT, help="least age of a file, days")
    arguments = parser.parse_args()
    try:
        if not arguments.check:
            write(arguments.days, upgrade=arguments.upgrade)
    except subprocess.CalledProcessError as error:
        print(f"the locks could not be resolved:\n{error.stderr}", file=sys.stderr)
        return 1
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    locks = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.txt"))}
    faults = check(pyproject, locks)
    if not arguments.check:
        faults += try_everywhere()
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults and arguments.check:
        print(
            "the locks do not fit pyproject.toml: run `make lock` (scripts/lock.py)",
            file=sys.stderr,
        )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
