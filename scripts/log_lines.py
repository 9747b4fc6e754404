"""The lines of the log, as the source writes them, and what each means.

``docs/log-lines.toml`` has the meanings; ``draw_docs.py`` draws both into a page.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import clauses

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src" / "distributary"
MEANINGS: Final = ROOT / "docs" / "log-lines.toml"

LEVELS: Final = ("error", "warning", "info", "debug")
"""The gravest first."""

_LEVEL_OF_METHOD: Final = {
    **{level: level for level in LEVELS},
    "exception": "error",
    "critical": "error",
}

_LEVEL_OF_PORT: Final = {"report": "info", "warn": "warning", "tell": "warning"}
"""Functions that are handed to parts which know no logger: they take a name and its fields."""

_EVENT: Final = re.compile(r"[a-z]+(?:-[a-z]+)*")

PASSED_ON: Final = frozenset(
    {
        "server.processes.receiver.tracing",  # what the sender of spans tells
        "subscriptions.status._lines",  # how many of its own lines were left out
    }
)
"""Modules that log under a name which another place gives."""

MADE: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "partitions._runs": {
        "info": tuple(
            f"{kind}-{end}"
            for kind in ("purge", "redrive", "replay", "retry")
            for end in ("cancelled", "done", "ended-early")
        )
    },
    "partitions._transports": {"warning": ("protocol-unavailable",)},
    "server.processes.pipeline.job_process": {"warning": ("archive-failed", "recall-failed")},
    "server.processes.receiver.retention": {"info": ("records-deleted", "segments-deleted")},
    "subscriptions.store.leader": {
        "info": (
            *(f"route-{op}" for op in ("created", "deleted", "replaced")),
            *(f"subscription-{op}" for op in ("created", "deleted", "replaced", "rotated")),
            *(f"subscription-{op}" for op in ("expired", "used-up")),
        )
    },
}
"""Module -> level -> lines whose names it puts together."""


class Line(NamedTuple):
    """A line that a module logs.

    Attributes:
        event: Its name.
        level: One of ``LEVELS``.
        module: The module, below the package.
    """

    event: str
    level: str
    module: str


class _Module(ast.NodeVisitor):
    """What one module logs.

    Attributes:
        found: Its lines.
        unnamed: Where it logs under a name that cannot be told, as ``module:number``.
    """

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.found: set[Line] = set()
        self.unnamed: list[str] = []
        self._name = name
        self._constants = _assigned(tree.body)
        self._here: dict[str, list[ast.expr]] = {}
        self._given: set[str] = set()
        # Functions of the module that log under a name which they are given, with the level.
        self._tellers: dict[str, str] = {}
        functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
        for function in functions:
            if "event" in _parameters(function):
                self._tellers[function.name] = next(_levels(function), "info")

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Know what its names stand for while it is visited."""
        before = self._here, self._given
        self._here = {**self._here, **_assigned(ast.walk(node))}
        self._given = self._given | set(_parameters(node))
        self.generic_visit(node)
        self._here, self._given = before

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name is that of the node

    def visit_Call(self, node: ast.Call) -> None:
        """Note the line that it logs."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(ast.Name("warnings"))):
                pass  # of Python, which a Spark job shows
            case ast.Call(func=ast.Attribute(attr=method), args=[event, *_]) if (
                method in _LEVEL_OF_METHOD
            ):
                self._note(node, event, [_LEVEL_OF_METHOD[method]])
            case ast.Call(func=ast.Name("say"), args=[_, ast.Constant(str(level)), event, *_]):
                self._note(node, event, [level])
            case ast.Call(func=ast.Name(name), args=[event]) if levels := self._chosen(name):
                self._note(node, event, levels)
            case ast.Call(func=ast.Attribute(attr=name), args=given) if name in self._tellers:
                for event in given:
                    self._found(event, [self._tellers[name]])
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(name), args=[event, fields]) if (
                level := _LEVEL_OF_PORT.get(name.removeprefix("_"))
            ):
                if isinstance(fields, ast.Dict) or _is_joined(fields):
                    self._note(node, event, [level])
                elif isinstance(fields, ast.Name):
                    self._found(event, [level])

    def _chosen(self, name: str) -> list[str]:
        """The levels of the methods that a local name stands for."""
        values = [node for value in self._here.get(name, []) for node in ast.walk(value)]
        methods = [node.attr for node in values if isinstance(node, ast.Attribute)]
        return [_LEVEL_OF_METHOD[method] for method in methods if method in _LEVEL_OF_METHOD]

    def _note(self, call: ast.Call, event: ast.expr, levels: list[str]) -> None:
        given = isinstance(event, ast.Name) and event.id in self._given and self._tellers
        if not self._found(event, levels) and not given:
            self.unnamed.append(f"{self._name}:{call.lineno}")

    def _found(self, event: ast.expr, levels: list[str]) -> bool:
        names = set(self._names(event))
        self.found |= {Line(name, level, self._name) for name in names for level in levels}
        return bool(names)

    def _names(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.Constant(str(text)) if _EVENT.fullmatch(text):
                yield text
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._names(body)
                yield from self._names(orelse)
            case ast.Name(name):
                for value in self._here.get(name) or self._constants.get(name, []):
                    yield from self._names(value)


def _assigned(statements: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """What some of *statements* assign to each name."""
    found: dict[str, list[ast.expr]] = {}
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                found.setdefault(name, []).append(value)
    return found


def _is_joined(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [each.arg for each in function.args.args]


def _levels(function: ast.FunctionDef) -> Iterator[str]:
    """The levels at which *function* logs."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr=method)) if method in _LEVEL_OF_METHOD:
                yield _LEVEL_OF_METHOD[method]


def search(source: Path = SOURCE) -> tuple[set[Line], list[str]]:
    """The lines that the modules below *source* log, and where a name cannot be told.

    Returns:
        The lines; and the places, as ``module:number``, of the modules of ``PASSED_ON`` and
        ``MADE`` too.
    """
    lines: set[Line] = set()
    unnamed: list[str] = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[0] == "testing":
            continue
        name = ".".join(part for part in parts if part != "__init__")
        tree = ast.parse(path.read_text("utf-8"))
        module = _Module(name, tree)
        module.visit(tree)
        lines |= module.found
        unnamed += module.unnamed
        for level, events in MADE.get(name, {}).items():
            lines |= {Line(event, level, name) for event in events}
    return lines, unnamed


def meanings() -> dict[str, str]:
    """What each line means, by name."""
    found: dict[str, str] = tomllib.loads(MEANINGS.read_text("utf-8"))
    return found


def draw() -> str:
    """All lines, by name."""
    lines, _ = search()
    means = meanings()
    rows = []
    for event in sorted({line.event for line in lines}):
        levels = {line.level for line in lines if line.event == event}
        modules = sorted({line.module for line in lines if line.event == event})
        rows.append(
            (
                f"`{event}`",
                ", ".join(level for level in LEVELS if level in levels),
                clauses.cell(means.get(event, "")),
                ", ".join(f"`{module}`" for module in modules),
            )
        )
    return clauses.table(("Line", "Level", "Means", "Logged by"), rows)
