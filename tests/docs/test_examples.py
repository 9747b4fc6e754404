"""The runnable examples of the documentation run.

In a block marked ``console run`` each line that begins with ``$ `` is a command, and what
follows must be its output (``...`` stands for anything). Blocks marked ``python run-spark`` are
executed by ``tests/spark``, those marked ``console session``, ``python run-amqp`` or
``run-receivers`` or ``run-sdk`` by ``tests/e2e``; ``yaml values`` are rendered by ``tests/supply``.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from distributary.access.tables import key_table, read_keys
from distributary.core.filter import check
from distributary.knative.kinds import EVENT_POLICY, KINDS, admit, defaulted, unknown_fields
from distributary.server import settings
from distributary.server.issuers import read_issuers
from distributary.server.settings import read_namespaces, read_secrets

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
KNOWN = {
    "console",
    "console run",
    "caddyfile run-proxy",
    "console session",
    "go run-receivers",
    "java run-receivers",
    "javascript run-receivers",
    "json",
    "mermaid",
    "nginx run-proxy",
    "python run-amqp",
    "go run-sdk",
    "java run-sdk",
    "javascript run-sdk",
    "python run-sdk",
    "python run-receivers",
    "properties",
    "python run-spark",
    "text",
    "toml",
    "yaml objects",
    "yaml policy",
    "yaml prometheus",
    "yaml values",
    "yaml run-proxy",
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


POLICIES = [pytest.param(code, id=at) for at, mark, code in BLOCKS if mark == "yaml policy"]


@pytest.mark.parametrize("code", POLICIES)
def test_examples_of_policies_are_admitted(code: str) -> None:
    """As ``kubectl apply`` would send them."""
    policy = yaml.safe_load(code)
    assert policy["kind"] == "EventPolicy"
    admit(EVENT_POLICY, policy, None, check)


OBJECTS = [pytest.param(code, id=at) for at, mark, code in BLOCKS if mark == "yaml objects"]


@pytest.mark.parametrize("code", OBJECTS)
def test_examples_of_objects_are_admitted(code: str) -> None:
    """As ``kubectl apply`` would send them, and without unknown fields."""
    kinds = {kind.kind: kind for kind in KINDS}
    for obj in yaml.safe_load_all(code):
        kind = kinds[obj["kind"]]
        assert (unknown_fields(kind, obj), obj["apiVersion"]) == ([], kind.api_version)
        admit(kind, defaulted(kind, obj, None), None, check)


ISSUERS = [
    pytest.param(code, id=at)
    for at, mark, code in BLOCKS
    if mark == "toml" and "[[issuers]]" in code
]


@pytest.mark.parametrize("code", ISSUERS)
def test_examples_of_issuers_can_be_used(code: str) -> None:
    """A cluster's certificate is the only thing that is not here."""
    _, faults = read_issuers(tomllib.loads(code)["issuers"])
    assert [fault for fault in faults if "cacerts_file" not in fault] == []


NODES = [
    pytest.param(code, id=at)
    for at, mark, code in BLOCKS
    if mark == "toml" and "node_address" in code
]


@pytest.mark.parametrize("code", NODES)
def test_examples_of_nodes_can_be_used(code: str) -> None:
    """As a node would read them; no password is asked for."""
    chosen = settings.load({}, {}, code)
    assert chosen.log is not None
    assert chosen.store is not None


SECRETS = [
    pytest.param(code, id=at)
    for at, mark, code in BLOCKS
    if mark == "toml" and "[[secrets]]" in code
]


@pytest.mark.parametrize("code", SECRETS)
def test_examples_of_secrets_can_be_used(code: str) -> None:
    """The file need not be here: only deliveries read it."""
    assert read_secrets(tomllib.loads(code)["secrets"])[1] == []


KEYS = [
    pytest.param(code, id=at) for at, mark, code in BLOCKS if mark == "toml" and "[[keys]]" in code
]


@pytest.mark.parametrize("code", KEYS)
def test_examples_of_keys_can_be_used(code: str) -> None:
    """As the command prints them."""
    records, faults = read_keys(tomllib.loads(code)["keys"])
    assert faults == []
    assert "".join(map(key_table, records)) == code


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


NAMESPACES = [
    pytest.param(code, id=at)
    for at, mark, code in BLOCKS
    if mark == "toml" and "[[namespaces]]" in code
]


@pytest.mark.parametrize("code", NAMESPACES)
def test_examples_of_quotas_can_be_used(code: str) -> None:
    """As they stand."""
    assert read_namespaces(tomllib.loads(code)["namespaces"])[1] == []
