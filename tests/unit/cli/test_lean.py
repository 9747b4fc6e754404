"""A client runs without the packages of the server, and imports only what it uses."""

import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from distributary.cli import _extras

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

RUN = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from distributary.cli import main
"""


def _run(
    *words: str, absent: frozenset[str] = frozenset(), more: str = "main()"
) -> tuple[int, str]:
    """The command line in a Python of its own that lacks the modules *absent*."""
    program = f"ABSENT = {set(absent)!r}\n{RUN}\nsys.argv = {['distributary', *words]!r}\n{more}"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        input="",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return ran.returncode, ran.stdout


def _modules_of(requirements: list[str]) -> set[str]:
    """Top-level modules of the packages."""
    names = {canonicalize_name(Requirement(one).name) for one in requirements}
    return {
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if names & {canonicalize_name(package) for package in packages}
    }


def test_the_extra_has_what_the_list_says() -> None:
    """Each package of the extra ``server`` is known by a module; no package of a client is."""
    for requirement in PROJECT["optional-dependencies"]["server"]:
        if requirement.startswith("confluent-kafka"):
            continue  # only deliveries import it
        assert _modules_of([requirement]) & _extras.SERVER_MODULES, requirement
    assert not _modules_of(PROJECT["dependencies"]) & _extras.SERVER_MODULES


def test_sending_imports_little() -> None:
    """Nothing of the server, of its packages or of other commands: a script calls it often."""
    more = """
import json
try:
    main()
except SystemExit:
    print(json.dumps(sorted(sys.modules)))
"""
    code, said = _run("send", "--help", more=more)
    assert code == 0, said
    modules = set(json.loads(said.splitlines()[-1]))
    assert "distributary.cli._send" in modules
    assert not {name.partition(".")[0] for name in modules} & _extras.SERVER_MODULES
    ours = {name.split(".")[1] for name in modules if name.startswith("distributary.")}
    assert ours <= {"access", "cli", "core", "datadir", "net", "protocols", "resource"}
    assert not modules & {"yaml", "lark", "distributary.cli._subscribe", "distributary.cli.demo"}


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        *([word, "--help"] for word in ("serve", "send", "subscribe", "subscriptions", "listen")),
        *([word, "--help"] for word in ("dead-letters", "key", "can", "import", "kubeconfig")),
        ["version"],
        ["filter", "--sql", "type = 'a' AND EXISTS subject", "-"],
        ["filter", "--filter", '{"exact": {"type": "a"}}', "-"],
    ],
    ids=" ".join,
)
def test_a_client_needs_no_package_of_the_server(words: list[str]) -> None:
    """Every command explains itself, and what needs no server works."""
    code, said = _run(*words, absent=_extras.SERVER_MODULES)
    assert code == 0, said


@pytest.mark.parametrize(
    "words", [["serve"], ["demo"], ["archive-classes"], ["history"]], ids=" ".join
)
def test_what_needs_the_server_says_how_to_install_it(words: list[str], tmp_path: Path) -> None:
    """One line, with a command to paste; no traceback."""
    (tmp_path / "history").mkdir()
    words += ["--data-dir", str(tmp_path)] if words == ["history"] else []
    code, said = _run(*words, absent=_extras.SERVER_MODULES)
    assert code == 2, said
    assert "Traceback" not in said
    assert said.rstrip().endswith("Install it: pip install 'distributary[server]'"), said


def test_a_fault_of_the_package_is_no_missing_extra() -> None:
    """A module that no extra brings is a bug, and shows where."""
    code, said = _run("send", "--help", absent=frozenset({"msgspec"}))
    assert code == 1
    assert "Traceback" in said
