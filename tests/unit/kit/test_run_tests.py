"""The runner of the tests starts each stage as it wants it, whatever the machine has set."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def run_tests() -> ModuleType:
    """scripts/run_tests.py, as a module."""
    place = ROOT / "scripts" / "run_tests.py"
    spec = importlib.util.spec_from_file_location("run_tests", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_processes_keep_their_bytecode(run_tests: ModuleType, tmp_path: Path) -> None:
    """Also where the environment forbids it: compiled once, not by each process."""
    (tmp_path / "compiled.py").write_text("")
    forbidding = {"PYTHONDONTWRITEBYTECODE": "1"}
    for environ, kept in (forbidding, False), (run_tests.environment(forbidding), True):
        command = [sys.executable, "-c", "import compiled"]
        subprocess.run(command, cwd=tmp_path, env=environ, check=True)
        assert (tmp_path / "__pycache__").exists() is kept
