"""Takes tests from other files, to run them with other fixtures: the same store elsewhere."""

import importlib.util
import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from _pytest.fixtures import FixtureFunctionDefinition

TESTS: Final = Path(__file__).resolve().parents[1]


def module_of(path: str) -> ModuleType:
    """The module in the file *path* under ``tests``, made anew."""
    name = "again_" + path.removesuffix(".py").replace("/", "_")
    found = importlib.util.spec_from_file_location(name, TESTS / path)
    assert found is not None
    assert found.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def fixtures_of(path: str, *, but: Iterable[str]) -> dict[str, Any]:
    """Everything in a ``conftest.py`` that fixtures need, without those named in *but*."""
    left = set(but)
    public = vars(module_of(path)).items()
    return {name: each for name, each in public if name not in left and not name.startswith("__")}


OF_FILES: Final = (
    "sqlite",
    "url.database",
    "downgrade",
    "PRAGMA",
    "UNIQUE",
    "readonly",
    "upgraded",
)
"""Words: a test with one of them in its text is about files of SQLite."""


def again(path: str, *, using: Iterable[str]) -> dict[str, Any]:
    """The tests in the file *path*, with its own fixtures.

    Args:
        path: Under ``tests``.
        using: Fixtures: a test that asks for none of them would run the same way.
    """
    wanted = set(using)
    found: dict[str, Any] = {}
    tests = 0
    for name, each in vars(module_of(path)).items():
        if isinstance(each, FixtureFunctionDefinition):
            found[name] = each
        elif name.startswith("test_") and inspect.isfunction(each):
            text = inspect.getsource(each)
            asks = wanted & set(inspect.signature(each).parameters)
            if asks and not any(word in text for word in OF_FILES):
                found[name] = each
                tests += 1
    assert tests > 1, f"{path} has no tests to run again"
    return found
