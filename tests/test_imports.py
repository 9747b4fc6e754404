"""The import contracts hold, and each of them can fail."""

import os
import re
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]

ARROWS_MAX = 69
"""Every surface asks ``access``, so that slice alone brings five; and who tells of events asks the
log, the subscriptions and the history. Tables for Spark ask the subscriptions too, and the driver's
process marks the folder of the history for owners on other machines."""


def _lint(folder: Path) -> tuple[int, str]:
    """Exit code and output of lint-imports over the package in *folder*."""
    environ = dict(os.environ, PYTHONPATH=str(folder / "src"))
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [program, "--no-cache", "--config", ROOT / ".importlinter"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def _copy(folder: Path) -> Path:
    """Copies the package into *folder*, where a test may plant what it likes."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.slow
def test_every_contract_is_kept(tmp_path: Path) -> None:
    """The package as it stands breaks no contract."""
    exit_code, output = _lint(_copy(tmp_path))
    assert exit_code == 0, output


PLANTED = {
    "upwards": ("core/_a.py", "distributary.net", "slices are"),
    "strangers": ("knative/_b.py", "distributary.subscriptions", "slices are"),
    "wiring": ("spark/_c.py", "distributary.server", "slices are"),
    "language": ("cesql/_d.py", "distributary.core", "slices are"),
    "unplaced-slice": ("newslice.py", "", "slices are"),
    "siblings": ("core/route/_e.py", "distributary.core.deliver", "parts of the"),
    "core-upwards": ("core/event/_f.py", "distributary.core.flow", "parts of the"),
    "unplaced-part": ("core/newpart.py", "", "parts of the"),
    "engine-clock": ("core/engine/_g.py", "time", "the engine knows"),
    "engine-loop": ("core/engine/_h.py", "asyncio", "the engine knows"),
    "engine-store": ("core/engine/_i.py", "distributary.core.outcome", "the engine knows"),
    "pyspark": ("core/log/_j.py", "pyspark", "only the spark"),
    "py4j": ("server/_k.py", "py4j", "only the spark"),
    "protocols": ("protocols/amqp/_l.py", "distributary.protocols.nats", "protocols do not"),
    "test-kit": ("routes/_m.py", "distributary.testing", "product code"),
}
"""Violation -> the file that is planted, what it imports (empty: nothing), and how the contract
begins that forbids it."""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name of each contract that breaks when all of ``PLANTED`` is there -> what is said of it."""
    copy = _copy(tmp_path_factory.mktemp("planted"))
    for path, imported, _ in PLANTED.values():
        planted = f"import {imported}\n" if imported else ""
        (copy / "src" / "distributary" / path).write_text(f'"""Planted."""\n\n{planted}')
    exit_code, output = _lint(copy)
    assert exit_code == 1, output
    sections = re.split(
        r"^(\S.*)\n-+$", output.partition("Broken contracts")[2], flags=re.MULTILINE
    )
    return dict(zip(sections[1::2], sections[2::2], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("path", "imported", "contract"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_violation_is_caught(
    broken: dict[str, str], path: str, imported: str, contract: str
) -> None:
    """Each contract names the forbidden import, or the module that has no place in it."""
    said = "".join(text for name, text in broken.items() if name.startswith(contract))
    module = "distributary." + path.removesuffix(".py").replace("/", ".")
    wanted = f"{module} -> {imported} (l.3)" if imported else f"- {module}\n"
    assert wanted in said, broken


def test_few_arrows_run_between_the_slices_and_none_in_a_circle() -> None:
    """What imports what can be drawn on a page, and there is an order in which it can be read."""
    graph = grimp.build_graph("distributary", cache_dir=None)
    below: dict[str, set[str]] = {}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            ends = [name.split(".")[1] for name in (module, imported) if "." in name]
            if len(set(ends)) == 2:
                below.setdefault(ends[0], set()).add(ends[1])
    order = list(TopologicalSorter(below).static_order())
    arrows = sum(len(imported) for imported in below.values())
    print(f"{arrows} arrows between {len(order)} slices, from below: {' '.join(order)}")
    assert arrows < ARROWS_MAX


def test_the_test_kit_needs_nothing_private_of_the_command_line() -> None:
    """Who has the package alone can use all of its test kit; drivers stand in ``tests/kit``."""
    kit = (ROOT / "src" / "distributary" / "testing").rglob("*.py")
    needs = re.compile(
        r"^ *(?:from|import) (?:distributary\.cli(?:\._| import _)|kit\b)", re.MULTILINE
    )
    found = [path.name for path in kit if needs.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_every_slice_is_named_in_the_test_kit_contract() -> None:
    """A new slice cannot slip past the contract that lists its sources one by one."""
    contract = (ROOT / ".importlinter").read_text().partition("contract:testing]")[2]
    package = ROOT / "src" / "distributary"
    slices = {path.stem for path in package.glob("[a-z]*.py")}
    slices |= {path.parent.name for path in package.glob("*/__init__.py")}
    missing = [name for name in slices - {"testing"} if f"distributary.{name}\n" not in contract]
    assert missing == []
