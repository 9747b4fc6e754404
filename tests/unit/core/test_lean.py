"""Programs of the server load no library for terminals."""

import subprocess
import sys

import pytest

LOADED = "import sys; print(sorted({'rich', 'structlog'} & set(sys.modules)))"


def loaded(program: str) -> str:
    """Which of the two libraries are loaded after *program*, in a process of its own."""
    words = [sys.executable, "-c", f"{program}; {LOADED}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_a_receiver_loads_none() -> None:
    """Nor do the other processes, whose package does this."""
    assert loaded("import distributary.server.processes.ingest_process") == "['structlog']"


@pytest.mark.parametrize("before", ["rich", "structlog", "rich, structlog"])
def test_what_is_loaded_stays_as_it_is(before: str) -> None:
    """A program that wants rich has it, whenever it asks."""
    program = f"import {before}; from distributary.core import lean; lean.load_logging()"
    assert "rich" in loaded(program)


def test_rich_can_be_imported_afterwards() -> None:
    """It was hidden for a moment alone."""
    program = "from distributary.core import lean; lean.load_logging(); import rich"
    assert loaded(program) == "['rich', 'structlog']"
