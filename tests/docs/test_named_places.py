"""What the pages for people who read the code name in code font is there: files, modules, tests."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "distributary"
TESTS = ROOT / "tests"
PAGES = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "README.md",
    DOCS / "critiques.md",
    DOCS / "glossary.md",
    DOCS / "how-to" / "add-a-protocol.md",
    DOCS / "reference" / "limits.md",
    *sorted((DOCS / "design").glob("*.md")),
]

PLACE = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
DOTTED = re.compile(r"[a-z_]\w*(?:\.\w+)+")
TEST = re.compile(r"test_\w+")

DATA_DIRECTORY = {"index", "publishers", "log", "logs", "outcome", "readers", "run", "spark"}
"""Folders of the data directory, whose files the pages name too."""

NO_PLACES = {"default/default"}
"""Namespace and name of an object."""

FOLDERS = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
TESTS_THERE = {
    name
    for path in TESTS.rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
}


class Named(NamedTuple):
    """A word in code font."""

    page: Path
    word: str


def _named() -> Iterator[Named]:
    fence = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
    for page in PAGES:
        for word in sorted(set(re.findall(r"`([^`\n]+)`", fence.sub("", page.read_text("utf-8"))))):
            yield Named(page, word)


NAMED = list(_named())


def _is_there(named: Named) -> bool:
    """Whether a path is one of the project, from where such pages name it."""
    bases = (ROOT, PACKAGE, TESTS, DOCS, named.page.parent)
    return any((base / named.word).exists() for base in bases)


def _module_is_there(dotted: str) -> bool:
    """Whether it is a module of the package or of the kit, or a name in one."""
    first, *names = dotted.split(".")
    top = {"distributary": PACKAGE, "kit": TESTS / "kit"}.get(first, PACKAGE / first)
    while names and (top / names[0]).is_dir():
        top /= names.pop(0)
    if names and top.joinpath(f"{names[0]}.py").is_file():
        top = top / f"{names.pop(0)}.py"
    text = (top if top.is_file() else top / "__init__.py").read_text("utf-8")
    return not names or re.search(rf"\b{names[0]}\b", text) is not None


def test_a_file_or_folder_is_there():
    """A path is one of the project, from its root or the package's, or of the data directory."""
    missing = []
    for named in NAMED:
        word = named.word
        if not PLACE.fullmatch(word) or word in NO_PLACES:
            continue
        module = word.endswith(".py")
        top = word.partition("/")[0]
        elsewhere = top in DATA_DIRECTORY or "." in top  # a name of Kubernetes' API has a domain
        if (module or ("/" in word and not elsewhere)) and not _is_there(named):
            missing.append(named)
    assert missing == []


def test_a_module_is_there():
    """Dotted names that begin with the package, one of its folders, or the kit."""
    tops = FOLDERS | {"distributary", "kit"}
    dotted = [named for named in NAMED if DOTTED.fullmatch(named.word)]
    modules = [named for named in dotted if named.word.split(".")[0] in tops]
    assert [named for named in modules if not _module_is_there(named.word)] == []


def test_a_test_is_there():
    """The pages say which test breaks a promise."""
    tests = [named for named in NAMED if TEST.fullmatch(named.word)]
    assert len(tests) > 20
    assert [named for named in tests if named.word not in TESTS_THERE] == []


@pytest.mark.parametrize(
    ("word", "there"),
    [
        ("distributary.core.flow", True),
        ("distributary.core.flow.Task", True),
        ("core.gone", False),
        ("distributary.gone.flow", False),
        ("kit.planted_faults", True),
    ],
)
def test_a_module_that_is_gone_is_noticed(word, there):
    """A name in a module counts as the module's."""
    assert _module_is_there(word) is there
