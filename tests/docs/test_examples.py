"""The runnable examples of the documentation run.

In a block marked ``console run`` each line that begins with ``$ `` is a command, and what
follows must be its output (``...`` stands for anything). Blocks marked ``python run-spark`` are
executed by ``tests/spark``, those marked ``console session`` or ``python run-amqp`` by
``tests/e2e``.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
KNOWN = {
    "console",
    "console run",
    "console session",
    "json",
    "mermaid",
    "python run-amqp",
    "python run-spark",
    "text",
    "toml",
}


def _blocks() -> Iterator[tuple[str, str, str]]:
    """(page and line, language and mark, code) of every code block."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 1
            yield f"{page.relative_to(ROOT)}:{line}", block[1], block[2]


BLOCKS = list(_blocks())
CONSOLE = [pytest.param(code, id=at) for at, mark, code in BLOCKS if mark == "console run"]


def test_every_block_says_what_it_is() -> None:
    """Python is always executed, so that no example can rot; other languages are known."""
    assert [(at, mark) for at, mark, _ in BLOCKS if mark not in KNOWN] == []


@pytest.mark.slow
@pytest.mark.parametrize("code", CONSOLE)
def test_console_examples_print_what_they_show(code: str) -> None:
    """Each command, run at the root of the repository, prints the lines below it."""
    environ = dict(os.environ)
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    environ["PYTHONPATH"] = str(ROOT / "src")
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", code, re.MULTILINE)
    assert commands
    for command, shown in commands:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        pattern = re.escape(shown).replace(re.escape("..."), ".*")
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(pattern, done.stdout, re.DOTALL), done.stdout
