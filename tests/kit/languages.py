"""Tools of other languages for the code of guides: what is missing ends a test as NOT RUN."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from kit.servers.fixtures import not_run

CACHE: Final = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "distributary" / "receivers"
)
"""Where libraries are kept once they are fetched."""
COMMAND_S_MAX: Final = 300.0
"""Longest wait for a package client or a compiler: 40 s were seen on two busy cores."""


def tool(language: str, name: str) -> str:
    """Path of a program; ends the test where there is none."""
    found = shutil.which(name)
    if found is None:
        not_run(language, f"there is no {name} on this machine")
    assert found is not None
    return found


def fetch(language: str, command: list[str], folder: Path) -> None:
    """Run a package client; ends the test where it finds nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        not_run(language, f"its library cannot be had: {command[0]} took too long")
    if done.returncode != 0:
        not_run(language, f"its library cannot be had: {done.stderr.strip()[-200:]}")


def build(command: list[str], folder: Path) -> None:
    """Compile; failing means that the code of the guide is wrong."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:] + done.stdout[-2_000:]
