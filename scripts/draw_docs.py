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
import importlib
import inspect
import itertools
import json
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import access_matrix
import annotations
import clauses
import file_versions
import kafka_topic
import knative_schemas
import log_lines
import manual
import protocol_settings
import scale

from distributary.core import errors, policy
from distributary.core.deliver import TRANSITIONS, BreakerState
from distributary.core.engine import LIFE, MatchState
from distributary.core.protocol import protocols
from distributary.server import settings
from distributary.server.processes.supervision.metrics import METRICS
from distributary.spark import format as spark_format
from distributary.subscriptions.lifecycle import DATA_SCHEMA, type_of
from distributary.subscriptions.lifecycle import TRANSITIONS as TRANSITIONS_TOLD

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "distributary"

_DRAWN = re.compile(r"(<!-- drawn: ([a-z-]+) -->\n).*?(<!-- end drawn -->)", re.DOTALL)

_LIMIT_NAME = re.compile(
    r"(?!NEVER_|END_|MINUTE_|HOUR_|DAY_)"
    r"[A-Z][A-Z0-9_]*_(?:MAX|MIN|M?S)(?:_DEFAULT|_FIRST|_MAX|_MIN)?"
)
"""Public constants that bound something: sizes and counts (``_MAX``, ``_MIN``), waits (``_S``,
``_MS``); no units of time, nor times that never come."""

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], int | float]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.Sub: operator.sub,
}


def draw_errors() -> str:
    """The catalogue of codes."""
    rows = ((f"`{code}`", entry.status, entry.title) for code, entry in errors.CATALOGUE.items())
    return clauses.table(("Code", "HTTP status", "Title"), rows)


def draw_spark_tables() -> str:
    """The columns of each table of the Spark format."""
    parts = []
    for name, columns in spark_format.TABLES.items():
        rows = ((f"`{each.name}`", each.type.lower(), each.meaning) for each in columns)
        heads = ("Column", "Type", "Meaning")
        parts.append(f"### {name}\n\n{clauses.table(heads, rows)}")
    return "\n\n".join(parts)


def draw_settings() -> str:
    """Every setting of ``serve``."""
    rows = (
        (
            f"`{row.flag}`",
            f"`{row.variable}`",
            clauses.cell(row.default),
            clauses.cell(row.expects),
            row.about,
            row.reload.value,
        )
        for row in settings.settings_table()
    )
    heads = ("Flag", "Environment", "Default", "Takes", "What it does", "Without restart")
    return clauses.table(heads, rows)


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
    return clauses.table(("Status", "Decision", "`Retry-After` counts", "Meaning"), rows)


def draw_acknowledgements() -> str:
    """What each answer of a broker means, by protocol."""
    return "\n\n".join(
        f"## {protocol.title}\n\n" + _answers(rules.values())
        for protocol in protocols().values()
        if (rules := policy.acknowledgement_rules(protocol.name))
    )


def _answers(rules: Iterable[policy.AcknowledgementRule]) -> str:
    rows = (
        (f"`{rule.code}`", rule.decision.name.lower().replace("_", " "), clauses.cell(rule.meaning))
        for rule in rules
    )
    return clauses.table(("Answer", "Decision", "Meaning"), rows)


def draw_lifecycle() -> str:
    """Types of lifecycle events, and the JSON schema of their data."""
    rows = ((f"`{type_of(name)}`", about) for name, about in TRANSITIONS_TOLD.items())
    schema = json.dumps(DATA_SCHEMA, indent=2)
    types = clauses.table(("Type", "What has happened"), rows)
    return f"{types}\n\nThe JSON schema of the data:\n\n```json\n{schema}\n```"


def draw_breaker() -> str:
    """The circuit breaker, from its transition table."""
    arrows = [
        f"    {start.name} --> {end.name}: {event.value}"
        for (start, event), end in TRANSITIONS.items()
    ]
    first = f"    [*] --> {next(iter(BreakerState)).name}"
    return "\n".join(["```mermaid", "stateDiagram-v2", first, *arrows, "```"])


def draw_life() -> str:
    """The life of a match, from its table."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for step, row in LIFE.items():
        for source in row.sources:
            target = row.target or source
            arrows.setdefault((source.value, target.value), []).append(step.value)
    lines = [f"    {a} --> {b}: {' / '.join(says)}" for (a, b), says in arrows.items()]
    states = ((f"*{state.value}*", _reason(MatchState, state.name)) for state in MatchState)
    diagram = [
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> Matched",
        *lines,
        "    Done --> [*]",
        "```",
    ]
    return clauses.table(("State", "What it is"), states) + "\n\n" + "\n".join(diagram)


def _reason(kind: type, name: str) -> str:
    """The text behind *name* in the source of the class *kind*."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    for statement, behind in itertools.pairwise(body.body):
        match statement, behind:
            case ast.Assign(targets=[ast.Name(found)]), ast.Expr(ast.Constant(str(says))):
                if found == name:
                    return clauses.cell(says.replace("``", "`"))
    raise LookupError(name)


def draw_limits() -> str:
    """Every public limit with its place and its reason, by room."""
    rooms: dict[str, list[tuple[str, ...]]] = {}
    for path in sorted(SRC.rglob("*.py")):
        inside = path.relative_to(SRC).with_suffix("")
        parts = inside.parts[:-1] if inside.name == "__init__" else inside.parts
        if parts and parts[0] != "testing":
            where = path.relative_to(SRC)
            rooms.setdefault(parts[0], []).extend(
                (name, value, f"`{where}`", why)
                for name, value, why in _limits(path, ".".join((SRC.name, *parts)))
            )
    tables = [
        f"## {room}\n\n{clauses.table(('Limit', 'Value', 'Where', 'Why'), rows)}"
        for room, rows in rooms.items()
        if rows
    ]
    return "\n\n".join(tables)


def draw_metrics() -> str:
    """Every metric with its kind and labels."""
    rows = (
        (
            f"`{name}`",
            row.kind,
            ", ".join(f"`{each}`" for each in row.labels),
            clauses.cell(row.help),
        )
        for name, row in sorted(METRICS.items())
    )
    return clauses.table(("Metric", "Kind", "Labels", "What"), rows)


def draw_access() -> str:
    """Who may do what: every route, against every kind of identity."""
    head = ("Surface", "Methods", "Path", "Nobody", *map(str.capitalize, access_matrix.GRANTS))
    return clauses.table(head, access_matrix.rows())


def draw_node_access() -> str:
    """Who gets through the port for other nodes."""
    head = ("For (ALPN)", *map(str.capitalize, access_matrix.NODE_SHOWN))
    return clauses.table(head, access_matrix.node_rows())


DRAWINGS: dict[str, Callable[[], str]] = {
    "access": draw_access,
    "access-nodes": draw_node_access,
    "annotations": annotations.draw,
    "acknowledgements": draw_acknowledgements,
    "breaker": draw_breaker,
    "conformance": clauses.draw,
    "errors": draw_errors,
    "file-versions": file_versions.draw,
    "kafka-topic": kafka_topic.draw,
    "kafka-recalled-topic": kafka_topic.draw_recalled,
    "spark-tables": draw_spark_tables,
    "knative": knative_schemas.draw,
    "life": draw_life,
    "lifecycle": draw_lifecycle,
    "limits": draw_limits,
    "log-lines": log_lines.draw,
    "metrics": draw_metrics,
    "protocol-settings": protocol_settings.draw,
    "responses": draw_responses,
    "scale": scale.draw,
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
    for path, text in manual.files().items():
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(path)
        name = path.relative_to(ROOT)
        if "--check" in arguments:
            print(f"{name} is not current: run `make docs`", file=sys.stderr)
        else:
            path.write_text(text, "utf-8")
            print(f"wrote {name}")
    return 1 if stale and "--check" in arguments else 0


def _limits(path: Path, module: str) -> Iterator[tuple[str, str, str]]:
    """(name, value, reason) of the public limits of a module; *module* tells computed values.

    The reason of one that has none is empty.
    """
    body = ast.parse(path.read_text("utf-8")).body
    known: dict[str, Any] = {}
    records = [
        itertools.pairwise([*part.body, None])
        for part in body
        if isinstance(part, ast.ClassDef) and part.name == "EngineLimits"
    ]
    for statement, behind in itertools.chain(itertools.pairwise([*body, None]), *records):
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                pass
            case _:
                continue
        number = known[name] = _number(value, known)
        match behind:
            case ast.Expr(value=ast.Constant(value=str(reason))):
                pass
            case _:
                reason = ""
        if _LIMIT_NAME.fullmatch(name) and number is None:
            number = _imported(module, name)
        is_limit = _LIMIT_NAME.fullmatch(name) or (name.islower() and reason)
        if number is not None and is_limit:
            yield f"`{name}`", f"{number:,}", clauses.cell(reason.replace("``", "`"))


def _imported(module: str, name: str) -> int | float | None:
    """The number that the constant *name* of *module* is; None: it is none."""
    found = getattr(importlib.import_module(module), name)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return found if is_number else None


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
