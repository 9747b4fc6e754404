"""Draw the parts of the documentation that follow from the code.

    python scripts/draw_docs.py           write them
    python scripts/draw_docs.py --check   exit code 1, naming the pages, if one is not current

A drawn part stands between two comments in a Markdown page; what is around it is written by
hand and stays:

    <!-- drawn: errors -->
    ...
    <!-- end drawn -->
"""

import ast
import itertools
import operator
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from distributary import errors, policy, settings
from distributary.app._health import HELPS
from distributary.deliver import TRANSITIONS, BreakerState

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "distributary"
TESTS = ROOT / "tests"

_DRAWN = re.compile(r"(<!-- drawn: ([a-z-]+) -->\n).*?(<!-- end drawn -->)", re.DOTALL)

_LIMIT_NAME = re.compile(r"[A-Z][A-Z0-9_]*_(?:MAX|MIN|S)(?:_DEFAULT|_FIRST|_MAX)?")
"""Public constants that bound something: sizes and counts (``_MAX``, ``_MIN``), waits (``_S``)."""

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], int | float]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.Sub: operator.sub,
}

_LEVELS = ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY")


class Clause(NamedTuple):
    """A clause of a specification and what shows that it is met; or why it is not."""

    id: str
    level: str
    reading: str
    shown_by: str


def draw_errors() -> str:
    """The catalogue of codes."""
    rows = ((f"`{code}`", entry.status, entry.title) for code, entry in errors.CATALOGUE.items())
    return _table(("Code", "HTTP status", "Title"), rows)


def draw_settings() -> str:
    """Every setting of ``serve``."""
    rows = (
        (f"`{row.flag}`", f"`{row.variable}`", _cell(row.default), _cell(row.expects), row.about)
        for row in settings.settings_table()
    )
    return _table(("Flag", "Environment", "Default", "Takes", "What it does"), rows)


def draw_responses() -> str:
    """What each status of a sink's answer means."""
    rows = (
        (
            f"{rule.first}-{rule.last}" if rule.first != rule.last else rule.first,
            rule.decision.name.lower().replace("_", " "),
            "yes" if rule.retry_after_honoured else "",
            rule.meaning,
        )
        for rule in (*policy.RESPONSE_RULES, policy.OTHER_STATUS_RULE)
    )
    return _table(("Status", "Decision", "`Retry-After` counts", "Meaning"), rows)


def draw_breaker() -> str:
    """The circuit breaker, from its transition table."""
    arrows = [
        f"    {start.name} --> {end.name}: {event.value}"
        for (start, event), end in TRANSITIONS.items()
    ]
    first = f"    [*] --> {next(iter(BreakerState)).name}"
    return "\n".join(["```mermaid", "stateDiagram-v2", first, *arrows, "```"])


def draw_limits() -> str:
    """Every public limit with its reason, by room."""
    rooms: dict[str, list[tuple[str, str, str]]] = {}
    for path in sorted(SRC.rglob("*.py")):
        room = path.relative_to(SRC).parts[0].removesuffix(".py")
        if room != "testing":
            rooms.setdefault(room, []).extend(_limits(path))
    parts = [
        f"## {room}\n\n{_table(('Limit', 'Value', 'Why'), rows)}"
        for room, rows in rooms.items()
        if rows
    ]
    return "\n\n".join(parts)


def draw_metrics() -> str:
    """Every metric that has a help text; its name tells its kind."""
    rows = ((f"`{name}`", _kind(name), _cell(about)) for name, about in sorted(HELPS.items()))
    return _table(("Metric", "Kind", "What"), rows)


def draw_conformance() -> str:
    """Every clause that a test is marked with, and every clause that is not met."""
    by_id: dict[str, list[Clause]] = {}
    for clause in (*_marked_clauses(), *_unmet_clauses()):
        by_id.setdefault(clause.id, []).append(clause)
    rows = []
    for id_ in sorted(by_id, key=_order):
        clauses = by_id[id_]
        readings = " ".join(dict.fromkeys(_cell(clause.reading) for clause in clauses))
        shown = ", ".join(dict.fromkeys(clause.shown_by for clause in clauses))
        rows.append((f"`{id_}`", clauses[0].level, readings, shown))
    return _table(("Clause", "Level", "Our reading", "Shown by"), rows)


DRAWINGS: dict[str, Callable[[], str]] = {
    "breaker": draw_breaker,
    "conformance": draw_conformance,
    "errors": draw_errors,
    "limits": draw_limits,
    "metrics": draw_metrics,
    "responses": draw_responses,
    "settings": draw_settings,
}


def redraw(text: str) -> str:
    """*text* with each drawn part as it is today."""
    return _DRAWN.sub(lambda part: f"{part[1]}\n{DRAWINGS[part[2]]()}\n\n{part[3]}", text)


def pages() -> Iterator[Path]:
    """Pages that may hold drawn parts."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def main(arguments: Sequence[str]) -> int:
    """Write, or check with ``--check``."""
    stale = [page for page in pages() if redraw(page.read_text("utf-8")) != page.read_text("utf-8")]
    for page in stale:
        name = page.relative_to(ROOT)
        if "--check" in arguments:
            print(f"{name} is not current: run `make docs`", file=sys.stderr)
        else:
            page.write_text(redraw(page.read_text("utf-8")), "utf-8")
            print(f"drew {name}")
    return 1 if stale and "--check" in arguments else 0


def _kind(metric: str) -> str:
    if metric.endswith("_total"):
        return "counter"
    return "histogram" if metric.endswith("_seconds") else "gauge"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """*text* in one line that no table or HTML reader misunderstands."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()


def _limits(path: Path) -> Iterator[tuple[str, str, str]]:
    """(name, value, reason) of the public limits of a module."""
    body = ast.parse(path.read_text("utf-8")).body
    known: dict[str, Any] = {}
    for statement, behind in itertools.pairwise(body):
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                pass
            case _:
                continue
        number = _number(value, known)
        if number is None:
            continue
        known[name] = number
        match behind:
            case ast.Expr(value=ast.Constant(value=str(reason))) if _LIMIT_NAME.fullmatch(name):
                yield f"`{name}`", f"{number:,}", _cell(reason.replace("``", "`"))


def _number(node: ast.expr, known: dict[str, Any]) -> int | float | None:
    """The number that a constant expression stands for; None for anything else."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(name):
            return known.get(name)
        case ast.BinOp(left, sign, right):
            a, b = _number(left, known), _number(right, known)
            if a is None or b is None:
                return None
            operation = _OPERATIONS.get(type(sign))
            return operation(a, b) if operation else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _number(operand, known)
            return None if value is None else -value
    return None


def _marked_clauses() -> Iterator[Clause]:
    """Clauses named by ``@pytest.mark.clause(id, level, reading)`` anywhere under tests/."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            for decorator in node.decorator_list:
                yield from _clauses_in(decorator, path, node.name)


def _clauses_in(decorator: ast.expr, path: Path, test: str) -> Iterator[Clause]:
    """The clauses in a decorator, those in the marks of its parameters included."""
    name = path.relative_to(ROOT)
    for node in ast.walk(decorator):
        match node:
            case ast.Call(func=ast.Attribute(attr="clause")):
                parts = [*node.args, *(keyword.value for keyword in node.keywords)]
                id_, level, reading = (ast.literal_eval(part) for part in parts)
                assert level in _LEVELS, f"{name}:{node.lineno}: level {level!r}: {_LEVELS}"
                yield Clause(id_, level, reading, f"[{test}](../{name})")


def _unmet_clauses() -> Iterator[Clause]:
    """Clauses that are not met, with why: tests/conformance/unmet.toml."""
    table = tomllib.loads((TESTS / "conformance" / "unmet.toml").read_text("utf-8"))
    for row in table["clause"]:
        yield Clause(row["id"], row["level"], row["reading"], f"**not met**: {_cell(row['why'])}")


def _order(id_: str) -> list[tuple[int, str]]:
    """3.2.10 after 3.2.9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", id_)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
