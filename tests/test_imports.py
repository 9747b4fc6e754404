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

ARROWS_MAX = 68
"""Every surface asks ``access``, so that slice alone brings five; and who tells of events asks the
log, the subscriptions and the history. Tables for Spark ask the subscriptions too."""


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


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package in which a test may plant what it likes."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignored)
    return tmp_path


@pytest.mark.slow
def test_every_contract_is_kept(copy: Path) -> None:
    """The package as it stands breaks no contract."""
    exit_code, output = _lint(copy)
    assert exit_code == 0, output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "planted", "contract"),
    [
        pytest.param("core/_x.py", "import distributary.net", "slices are", id="upwards"),
        pytest.param(
            "knative/_x.py", "import distributary.subscriptions", "slices are", id="strangers"
        ),
        pytest.param("spark/_x.py", "import distributary.server", "slices are", id="wiring"),
        pytest.param("cesql/_x.py", "import distributary.core", "slices are", id="language"),
        pytest.param("newslice.py", "", "slices are", id="unplaced-slice"),
        pytest.param(
            "core/route/_x.py", "import distributary.core.deliver", "parts of the", id="siblings"
        ),
        pytest.param(
            "core/event/_x.py", "import distributary.core.flow", "parts of the", id="core-upwards"
        ),
        pytest.param("core/newpart.py", "", "parts of the", id="unplaced-part"),
        pytest.param("core/engine/_x.py", "import time", "the engine knows", id="engine-clock"),
        pytest.param("core/engine/_x.py", "import asyncio", "the engine knows", id="engine-loop"),
        pytest.param(
            "core/engine/_x.py",
            "from distributary.core.outcome import DeliveryStore",
            "the engine knows",
            id="engine-store",
        ),
        pytest.param("core/log/_x.py", "import pyspark", "only the spark", id="pyspark"),
        pytest.param("server/_x.py", "from py4j import version", "only the spark", id="py4j"),
        pytest.param(
            "protocols/amqp/_x.py",
            "import distributary.protocols.nats",
            "protocols do not",
            id="protocols",
        ),
        pytest.param("routes/_x.py", "import distributary.testing", "test kit", id="test-kit"),
    ],
)
def test_a_planted_violation_is_caught(copy: Path, path: str, planted: str, contract: str) -> None:
    """Each contract breaks, by its name, when one forbidden import is added."""
    package = copy / "src" / "distributary"
    (package / path).write_text(f'"""Planted."""\n\n{planted}\n')
    exit_code, output = _lint(copy)
    broken = [line for line in output.splitlines() if " BROKEN" in line]
    assert exit_code == 1, output
    assert any(contract in line for line in broken), output


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
