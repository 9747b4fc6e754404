"""House rules that a program can hold: sizes, docstrings, exports, links, leftovers."""

import ast
import functools
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from distributary.core import errors

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "distributary"
KIT = ROOT / "tests" / "kit"

LINE_CHARACTERS_MAX = 100
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
BLOB_BYTES_MAX = 200 * 1024

LONGER_FILES: dict[str, str] = {
    "tests/unit/subscriptions/refresh/test_refresh.py": "one world serves all of it",
}
"""Path -> why this file may be longer than FILE_LINES_MAX."""

OPTIONS = "the parameters are the command's options with their help; the body is short"

LONGER_FUNCTIONS: dict[str, str] = {
    "src/distributary/cli/_filter.py:filter_": OPTIONS,
    "src/distributary/cli/_send.py:send": OPTIONS,
}
"""path:function -> why this function may be longer than FUNCTION_LINES_MAX."""

SKIPPED_FOLDERS = {
    ".git",
    ".hypothesis",
    ".import_linter_cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    "__pycache__",
    "build",
    "data",
    "dist",
    "distributary-data",
    "metastore_db",
    "results",
    "spark-warehouse",
}
"""What .gitignore names too: made by running things, not part of the project."""


def _files(*suffixes: str) -> Iterator[Path]:
    """Files of the project, of these suffixes; none given: all."""
    folders = [ROOT]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.is_symlink() or path.name in SKIPPED_FOLDERS:
                continue  # in a linked work tree .git is a file
            if path.is_dir():
                if not path.name.endswith(".egg-info"):
                    folders.append(path)
            elif not suffixes or path.suffix in suffixes:
                yield path


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


PYTHON = sorted(_files(".py"))
DOCS = sorted(_files(".md"))
ROOMS = sorted(path.parent for folder in (SRC, KIT) for path in folder.rglob("__init__.py"))
HELD = [path for path in PYTHON if path.is_relative_to(SRC) or path.is_relative_to(KIT)]
"""What is held to more: the package, and the drivers that tests and benchmarks share."""


def _dotted(room: Path) -> str:
    """The name that *room* is imported by."""
    return ".".join(room.relative_to(SRC.parent if room.is_relative_to(SRC) else KIT.parent).parts)


class Function(NamedTuple):
    """A function of a file, wherever in it."""

    name: str
    lines: int
    documented: bool


class Shape(NamedTuple):
    """What the rules ask about a file: its tree would take much more memory."""

    documented: bool
    functions: tuple[Function, ...]
    imports: tuple[tuple[str, tuple[str, ...]], ...]
    """Module and names of each ``from ... import``."""


@functools.cache
def _shape(path: Path) -> Shape:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions, imports = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            functions.append(Function(node.name, lines, bool(ast.get_docstring(node))))
        elif isinstance(node, ast.ImportFrom):
            imports.append((node.module or "", tuple(alias.name for alias in node.names)))
    return Shape(bool(ast.get_docstring(tree)), tuple(functions), tuple(imports))


def test_lines_are_short() -> None:
    """No line of code is longer than the screen beside a diff."""
    long = [
        f"{_name(path)}:{number}"
        for path in PYTHON
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LINE_CHARACTERS_MAX
    ]
    assert long == []


def test_files_are_short() -> None:
    """A file fits in a head; those that may not are listed with a reason."""
    lengths = {_name(path): path.read_text(encoding="utf-8").count("\n") for path in PYTHON}
    long = {name for name, count in lengths.items() if count > FILE_LINES_MAX}
    assert long - set(LONGER_FILES) == set()
    assert set(LONGER_FILES) - long == set(), "an exception that is no longer needed"


def test_functions_are_short() -> None:
    """A function of the package fits on a screen; those that may not are listed."""
    long = {
        f"{_name(path)}:{function.name}"
        for path in HELD
        for function in _shape(path).functions
        if function.lines > FUNCTION_LINES_MAX
    }
    assert long - set(LONGER_FUNCTIONS) == set()
    assert set(LONGER_FUNCTIONS) - long == set(), "an exception that is no longer needed"


def test_modules_say_what_they_are_for() -> None:
    """Every module of the package has a docstring."""
    silent = [_name(path) for path in HELD if not _shape(path).documented]
    assert silent == []


def test_tests_say_what_they_show() -> None:
    """Every test has a docstring that says the behaviour."""
    silent = [
        f"{_name(path)}:{function.name}"
        for path in PYTHON
        if path.name.startswith("test_")
        for function in _shape(path).functions
        if function.name.startswith("test_") and not function.documented
    ]
    assert silent == []


def test_names_are_imported_from_where_they_stand() -> None:
    """A package exports what its ``__init__`` imports; a module that passes names on says so."""
    passed_on = [
        f"{_name(path)}: {module}.{name}"
        for path in PYTHON
        for module, names in _shape(path).imports
        if _module_of(module) is not None
        for name in names
        if name in _names_passed_on(module)
    ]
    assert passed_on == []


def _module_of(dotted: str) -> Path | None:
    """The file of a module of the package; None: it is a package, or somebody else's."""
    path = SRC.parent.joinpath(*dotted.split(".")).with_suffix(".py")
    return path if dotted.startswith("distributary.") and path.is_file() else None


@functools.cache
def _names_passed_on(dotted: str) -> frozenset[str]:
    """What the module imports by name and does not list in ``__all__``."""
    path = _module_of(dotted)
    assert path is not None
    body = ast.parse(path.read_text(encoding="utf-8")).body
    imported = {
        alias.asname or alias.name
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return frozenset(imported - set(getattr(importlib.import_module(dotted), "__all__", ())))


def test_no_leftovers() -> None:
    """Nothing is put off in a comment: what is not done is an issue or in docs/critiques.md."""
    mark = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
    left = [
        f"{_name(path)}:{number}"
        for path in [*PYTHON, *DOCS]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if mark.search(line)
    ]
    assert left == []


def test_no_paths_of_one_machine() -> None:
    """The project runs from any folder: no absolute path of where it was written."""
    machine = re.compile("/wo" + r"rk/(main|shared|issues)\b|/tmp/" + r"venv\b|/ro" + r"ot/\.pyenv")
    texts = [path for path in _files() if path.suffix not in {".png", ".gz", ".xz"}]
    found = [
        f"{_name(path)}:{number}"
        for path in texts
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), 1
        )
        if machine.search(line)
    ]
    assert found == []


def test_no_blobs() -> None:
    """Large files belong elsewhere: a clone stays quick."""
    large = [_name(path) for path in _files() if path.stat().st_size > BLOB_BYTES_MAX]
    assert large == []


def test_documents_have_one_title() -> None:
    """A document has one heading of the first level, and it is the first line."""
    wrong = []
    for path in DOCS:
        lines = _outside_fences(path.read_text(encoding="utf-8")).splitlines()
        titles = [number for number, line in enumerate(lines) if line.startswith("# ")]
        if titles != [0]:
            wrong.append(_name(path))
    assert wrong == []


def test_links_inside_the_documents_resolve() -> None:
    """A relative link names a file that is there, and a heading that is in it."""
    broken = []
    for path in DOCS:
        for target in re.findall(
            r"\]\(([^)\s]+)\)", _outside_fences(path.read_text(encoding="utf-8"))
        ):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (path.parent / name).resolve() if name else path
            if not file.exists() or (anchor and anchor not in _anchors(file)):
                broken.append(f"{_name(path)}: {target}")
    assert broken == []


def test_every_document_is_linked() -> None:
    """A page that nothing links to is not found by anybody."""
    linked = {
        (path.parent / target.partition("#")[0]).resolve()
        for path in DOCS
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    }
    folders = {path for path in linked if path.is_dir()}
    lonely = [
        _name(path)
        for path in DOCS
        if path.is_relative_to(ROOT / "docs") and path not in linked and path.parent not in folders
    ]
    assert lonely == []


def test_the_changelog_keeps_its_shape() -> None:
    """Newest first: ``## [Unreleased]``, then ``## [x.y.z] - date``; known sections; sentences."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", name) for name in releases[1:])
    kinds = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    entries = re.findall(r"^- ((?:.|\n(?=  ))+)", text, re.MULTILINE)
    assert entries
    assert [entry for entry in entries if not entry.rstrip().endswith(".")] == []


def test_every_error_code_is_used() -> None:
    """A code of the catalogue that nothing answers with does not belong there."""
    used = "".join(path.read_text(encoding="utf-8") for path in HELD).replace(
        (SRC / "core" / "errors.py").read_text(encoding="utf-8"), ""
    )
    classes = _error_classes(errors.DistributaryError)
    raised = {kind.code for kind in classes if re.search(rf"\b{kind.__name__}\b", used)}
    unused = [code for code in errors.CATALOGUE if f'"{code}"' not in used and code not in raised]
    assert unused == []


def test_every_error_class_has_a_code_of_the_catalogue() -> None:
    """No error can reach a problem body without a status and a title."""
    for room in ROOMS:
        importlib.import_module(_dotted(room))
    classes = _error_classes(errors.DistributaryError)
    assert [kind.__name__ for kind in classes if kind.code not in errors.CATALOGUE] == []


def _error_classes(base: type[errors.DistributaryError]) -> list[type[errors.DistributaryError]]:
    """*base* and everything below it that has been imported."""
    below = [kind for child in base.__subclasses__() for kind in _error_classes(child)]
    return [base, *below]


def _outside_fences(text: str) -> str:
    """*text* without its code blocks (lines stay, so that numbers do)."""
    kept, fenced = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            kept.append("")
        else:
            kept.append("" if fenced else line)
    return "\n".join(kept)


def _anchors(path: Path) -> set[str]:
    """The anchors that a page's headings have on GitHub."""
    headings = re.findall(
        r"^#+ (.+)$", _outside_fences(path.read_text(encoding="utf-8")), re.MULTILINE
    )
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
        for heading in headings
    }


def test_the_locks_fit_the_project() -> None:
    """A dependency that changes in pyproject.toml changes in locks/ too; tests/supply has more."""
    command = [sys.executable, str(ROOT / "scripts" / "lock.py"), "--check"]
    looked = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    assert looked.returncode == 0, looked.stderr


def test_no_merge_is_left_unresolved() -> None:
    """What a merge could not decide stands between marks."""
    marks = re.compile(r"^(<{7}|>{7})( |$)", re.MULTILINE)
    unresolved = [
        path.relative_to(ROOT).as_posix()
        for path in _files(".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".js", ".css", ".html")
        if marks.search(path.read_text(encoding="utf-8"))
    ]
    assert unresolved == []


def test_private_modules_belong_to_their_package() -> None:
    """Nobody outside it imports them; the test kit, which stands in for their owners, may."""
    root = Path(__file__).parents[1] / "src"
    found = []
    for path in sorted(root.glob("distributary/**/*.py")):
        package = ".".join(path.relative_to(root).parent.parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            owner, private, _ = f"{node.module}.{node.names[0].name}".partition("._")
            inside = f"{package}.".startswith((f"{owner}.", "distributary.testing."))
            if private and owner.startswith("distributary") and not inside:
                found.append(f"{path.relative_to(root)}:{node.lineno}: {node.module}")
    assert not found
