"""Receivers of signed deliveries in four languages, made of the code in the guide.

Caller: ``tests/e2e/test_signed_deliveries.py``. Hides where each language's library comes from: it
is fetched once, by the language's own package client, into the user's cache. A language whose tools
or library cannot be had ends the test as NOT RUN, like a broker.
"""

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from kit.languages import CACHE, COMMAND_S_MAX, build, fetch, tool

__all__ = ["LANGUAGES", "Case", "answers"]

HERE: Final = Path(__file__).parent
GUIDE: Final = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "verify-signatures.md"

GO_MODULE: Final = "github.com/standard-webhooks/standard-webhooks/libraries"
JAVA_LIBRARY: Final = "com.standardwebhooks:standardwebhooks:1.1.0"
NODE_LIBRARY: Final = "standardwebhooks@1.1.1"

_BLOCK: Final = re.compile(
    r"^```\w+ run-receivers\n(?:#|//) (\w+\.\w+)[^\n]*\n.*?^```$", re.MULTILINE | re.DOTALL
)


class Case(NamedTuple):
    """A question to a receiver.

    Attributes:
        do: ``v1`` or ``v1a``: is it ours? ``sign``: what does the library sign?
        key: Secret or public key.
        id: Value of ``webhook-id``; empty: the header is absent.
        stamp: Likewise.
        signatures: Likewise.
        body: As received.
    """

    do: str
    key: str
    id: str
    stamp: str
    signatures: str
    body: bytes


def answers(language: str, folder: Path, cases: Iterable[Case]) -> list[str]:
    """``yes``, ``no`` or a signature for each of *cases*, by the receiver in *language*.

    Args:
        language: One of ``LANGUAGES``.
        folder: Empty; for what is built.
        cases: None with a tab in it.
    """
    command = LANGUAGES[language](folder)
    lines = ["\t".join((*case[:-1], base64.b64encode(case.body).decode())) + "\n" for case in cases]
    done = subprocess.run(
        command,
        cwd=folder,
        input="".join(lines),
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    found = done.stdout.split("\n")[:-1]
    assert len(found) == len(lines)
    return found


def _code(suffix: str) -> dict[str, str]:
    """The files of the guide with this *suffix*."""
    text = GUIDE.read_text("utf-8")
    blocks = {match[1]: match[0] for match in _BLOCK.finditer(text)}
    found = {
        name: block.partition("\n")[2].removesuffix("```")
        for name, block in blocks.items()
        if name.endswith(suffix)
    }
    assert len(found) == 2, f"the guide has {sorted(found)} for {suffix}"
    return found


def _write(folder: Path, suffix: str, driver: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in _code(suffix).items():
        (folder / name).write_text(code, "utf-8")
    shutil.copy(HERE / driver, folder)


def _python(folder: Path) -> list[str]:
    _write(folder, ".py", "driver.py")
    return [sys.executable, "driver.py"]


def _javascript(folder: Path) -> list[str]:
    node, cached = tool("node", "node"), CACHE / "node"
    if not (cached / "node_modules" / "standardwebhooks").is_dir():
        npm = [tool("node", "npm"), "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        fetch("node", [*npm, "--prefix", str(cached), NODE_LIBRARY], cached)
    _write(folder, ".mjs", "driver.mjs")
    (folder / "node_modules").symlink_to(cached / "node_modules")
    return [node, "driver.mjs"]


def _go(folder: Path) -> list[str]:
    go = tool("go", "go")
    _write(folder / "receiver", ".go", "main.go")
    shutil.move(folder / "receiver" / "main.go", folder / "main.go")
    (folder / "go.mod").write_text(f"module receivers\n\ngo 1.21\n\nrequire {GO_MODULE} v0.0.1\n")
    fetch("go", [go, "mod", "tidy"], folder)
    build([go, "build", "-o", "driver", "."], folder)
    return [str(folder / "driver")]


def _java(folder: Path) -> list[str]:
    javac, java = tool("javac", "javac"), tool("javac", "java")
    jar = CACHE / "java" / "standardwebhooks-1.1.0.jar"
    if not jar.is_file():
        maven = [tool("javac", "mvn"), "-q", "-B", "dependency:copy", f"-Dartifact={JAVA_LIBRARY}"]
        fetch("javac", [*maven, f"-DoutputDirectory={jar.parent}"], jar.parent)
    _write(folder, ".java", "Driver.java")
    build([javac, "-cp", str(jar), *map(str, folder.glob("*.java"))], folder)
    return [java, "-cp", os.pathsep.join((str(jar), str(folder))), "Driver"]


LANGUAGES: Final[dict[str, Callable[[Path], list[str]]]] = {
    "python": _python,
    "javascript": _javascript,
    "go": _go,
    "java": _java,
}
"""Language -> builds the receiver in a folder, and returns the command that runs it."""
