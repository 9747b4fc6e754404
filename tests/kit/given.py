"""Finds test data outside the repository: texts of specifications, conformance cases.

A test without its data is reported as NOT RUN, like one without its broker; if the variable
``TESTS_REQUIRE`` names ``given``, it fails.
"""

from pathlib import Path
from typing import Final

from kit.servers.fixtures import not_run

__all__ = ["CESQL", "CLOUDEVENTS", "TEXTS", "needed"]

_BESIDE: Final = Path(__file__).resolve().parents[3] / "shared"

TEXTS: Final = _BESIDE / "spec"
"""The texts of the specifications."""

CLOUDEVENTS: Final = _BESIDE / "conformance" / "cloudevents"
"""The official conformance files of CloudEvents."""

CESQL: Final = _BESIDE / "conformance" / "cesql_tck"
"""The public cases of the CESQL test kit."""


def needed(folder: Path) -> Path:
    """*folder*, one of the above, where it is there; else the test ends."""
    if not folder.is_dir():
        not_run("given", f"{folder.parent.name}/{folder.name} is not beside this repository")
    return folder
