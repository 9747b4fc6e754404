"""The clauses of the specifications: what the registers, the tests and the texts say of them.

    python scripts/clauses.py              faults of the registers; exit code 1 if there are any
    python scripts/clauses.py FOLDER       also: sentences of the texts in FOLDER without a clause

A register is a file ``docs/clauses/<specification>.toml``. It holds a clause for every MUST,
SHOULD and MAY of that specification's texts and every row of its tables of response codes, each
tied to its sentences by section and digest, so that nothing of a text is left out and none of it
is copied. A test says by ``@pytest.mark.clause(id)`` which clause it shows. Specifications without
a register have their clauses in the marks alone: ``@pytest.mark.clause(id, level, reading)``.
"""

import ast
import hashlib
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
REGISTERS: Final = ROOT / "docs" / "clauses"
TESTS: Final = ROOT / "tests"

LEVELS: Final = ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY")
"""The levels of RFC 2119. REQUIRED and SHALL count as MUST, RECOMMENDED as SHOULD, OPTIONAL as
MAY; what a text asks for without any of these words counts as MUST."""

STATES: Final = ("departure", "unmet", "outside")
"""Members of a clause that say, with the reason, why a test does not simply show it: we knowingly
do another thing; we do not do it yet; it asks nothing of a subscription manager."""

DIGEST_CHARS: Final = 10
"""Of a sentence's SHA-256: enough to tell a few hundred sentences of one section apart."""

_KEYWORD = re.compile(r"\b(?:MUST|REQUIRED|SHALL|SHOULD|RECOMMENDED|MAY|OPTIONAL)\b")
_REFERENCE = re.compile(r"(?P<revision>\d{3}) (?P<section>.+) #(?P<digest>[0-9a-f]+)")
_HEADING = re.compile(r"(#{1,6}) +(.+)|\*\*(`\w+`)\*\*")
_NUMBERED = re.compile(r"(\d+(?:\.\d+)*)\.? +(.+)")
_BULLET = re.compile(r"^\s*[-*] +")
_TABLE_ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_TABLE_CELL = re.compile(r"<td>(.*?)</td>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_PIPE_RULE = re.compile(r"\|[-:| ]+\|")
# Not after "(string) - REQUIRED." or an abbreviation: these open a definition, or go on.
_SENTENCE_END = re.compile(
    r"(?<=[.:])(?<!REQUIRED\.)(?<!OPTIONAL\.)(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z_`*\[\"(])"
)


class Sentence(NamedTuple):
    """A sentence with a key word of RFC 2119 in a text.

    Attributes:
        section: Number of the nearest numbered heading, and the headings without one below it;
            in a text without numbers the heading and the one above it. In a table of fields the
            name of the field stands behind.
        text: The sentence, with single spaces.
    """

    section: str
    text: str

    def reference(self, revision: str) -> str:
        """How a register names it."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:DIGEST_CHARS]
        return f"{revision} {self.section} #{digest}"


class Mark(NamedTuple):
    """One ``@pytest.mark.clause``.

    Attributes:
        id: Of the clause.
        level: As the mark says it; empty: not said.
        reading: As the mark says it; empty: not said.
        test: Name of the test.
        place: File of the test, from the root of the repository.
    """

    id: str
    level: str
    reading: str
    test: str
    place: str

    @property
    def link(self) -> str:
        """Markdown that leads from a page in docs/ to the test."""
        return f"[{self.test}](../{self.place})"


class Clause(NamedTuple):
    """One clause, as a register or marks without one have it.

    Attributes:
        id: Stable and readable, such as ``subscriptions-api.id.unique``.
        level: One of ``LEVELS``.
        reading: What it asks for, in our words.
        modules: Where it is implemented, below ``distributary``.
        sentences: References to the sentences that say it.
        section: Where it stands, if no sentence with a key word says it.
        state: One of ``STATES``; empty: it is met.
        why: The reason for *state*.
    """

    id: str
    level: str
    reading: str
    modules: Sequence[str] = ()
    sentences: Sequence[str] = ()
    section: str = ""
    state: str = ""
    why: str = ""


def read_sentences(text: str) -> Iterator[Sentence]:
    """Every sentence of a Markdown *text* with a key word, and every row of a table with bars.

    Headings and cells of HTML tables count; code does not.
    """
    for section, block in _blocks(text):
        line = " ".join(block.split())
        if line.startswith("|"):  # a row says by its columns what others say by a key word
            yield Sentence(section, line)
            continue
        for sentence in _SENTENCE_END.split(line):
            if _KEYWORD.search(sentence):
                yield Sentence(section, sentence)


class _Trail:
    """Where in a text we are: the headings above."""

    def __init__(self) -> None:
        self._number = ""
        self._titles: dict[int, str] = {}

    def note(self, level: int, name: str) -> str:
        """Take in a heading; its words without the number."""
        numbered = _NUMBERED.fullmatch(name)
        if numbered:
            self._number, self._titles = numbered[1], {}
            return numbered[2]
        self._titles = {at: title for at, title in self._titles.items() if at < level}
        self._titles[level] = name.rstrip(":")
        return name

    @property
    def section(self) -> str:
        """As references name it."""
        titles = [self._titles[level] for level in sorted(self._titles) if level > 1]
        if self._number:
            return " ".join([self._number, *titles[-1:]])
        return " / ".join(titles[-2:])


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """(section, text) of every heading, paragraph, item of a list and cell or row of a table."""
    trail = _Trail()
    block: list[str] = []
    fenced = False
    for line in [*_unfolded(text), ""]:
        heading = None if fenced else _HEADING.fullmatch(line.strip())
        fence = line.startswith("```")
        apart = fence or line.startswith(("|", "<table>")) or _BULLET.match(line)
        if block and (heading or apart or not line.strip()):
            yield trail.section, "\n".join(block)
            block = []
        if fence:
            fenced = not fenced
        elif heading:
            name = re.sub(r'[`"]', "", heading[2] or heading[3])
            block.append(trail.note(len(heading[1] or "#" * 7), name))
        elif line.startswith("<table>") and not fenced:
            yield from _cells(trail.section, line)
        elif line.strip() and not fenced:
            block.append(_BULLET.sub("", line, count=1))


def _unfolded(text: str) -> Iterator[str]:
    """Lines, with an HTML table as one, and without head and rule of a table with bars."""
    table: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if table or line == "<table>":
            table.append(line)
            if line == "</table>":
                yield "\n".join(table)
                table = []
        elif not any(_PIPE_RULE.fullmatch(near) for near in lines[number : number + 2]):
            yield line


def _cells(section: str, table: str) -> Iterator[tuple[str, str]]:
    for row in _TABLE_ROW.findall(table):
        field, *cells = (_TAG.sub(" ", cell).strip() for cell in _TABLE_CELL.findall(row))
        yield from ((f"{section} {field}", re.sub(r" +([.,;)])", r"\1", cell)) for cell in cells)


def read_texts(folder: Path) -> dict[str, str]:
    """Revision -> text, for the revisions that the registers speak of."""
    revisions = {reference.split(" ")[0] for c in read_registers() for reference in c.sentences}
    texts = {path.name[:3]: path for path in folder.glob("[0-9][0-9][0-9]_*.txt")}
    return {revision: texts[revision].read_text("utf-8") for revision in sorted(revisions)}


def sentence_faults(texts: dict[str, str]) -> list[str]:
    """Sentences that no clause claims, and references to sentences that do not stand there."""
    said = {
        sentence.reference(revision): sentence.text
        for revision, text in texts.items()
        for sentence in read_sentences(text)
    }
    claimed = {
        reference: clause.id for clause in read_registers() for reference in clause.sentences
    }
    unclaimed = [f"no clause: {said[r]!r} = {r!r}" for r in said if r not in claimed]
    stale = [f"{claimed[r]}: no such sentence: {r!r}" for r in claimed if r not in said]
    return unclaimed + stale


def read_registers() -> list[Clause]:
    """The clauses of every register, in the order in which they stand there."""
    return [clause for path in _registers() for clause in read_register(path)]


def read_register(path: Path) -> list[Clause]:
    """The clauses of one register."""
    return [_of_row(row) for row in tomllib.loads(path.read_text("utf-8"))["clause"]]


def _registers() -> list[Path]:
    return sorted(REGISTERS.glob("*.toml"))


def _of_row(row: dict[str, Any]) -> Clause:
    states = [name for name in STATES if name in row]
    assert len(states) <= 1, f"{row['id']}: one of {states}"
    members = {name: value for name, value in row.items() if name not in STATES}
    for state in states:
        members |= {"state": state, "why": row[state]}
    return Clause(**members)


def read_marks(folder: Path = TESTS, root: Path = ROOT) -> Iterator[Mark]:
    """Every mark on a test in *folder*, those on single parameters included."""
    for path in sorted(folder.rglob("test_*.py")):
        source = path.read_text("utf-8")
        if "mark.clause(" not in source:  # most files: parsing them all takes a second
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for decorator in node.decorator_list:
                    yield from _marks_in(decorator, node.name, str(path.relative_to(root)))


def _marks_in(decorator: ast.expr, test: str, place: str) -> Iterator[Mark]:
    for node in ast.walk(decorator):
        match node:
            case ast.Call(func=ast.Attribute(attr="clause")):
                parts = [*node.args, *(keyword.value for keyword in node.keywords)]
                id_, level, reading, *_ = [*(ast.literal_eval(part) for part in parts), "", ""]
                yield Mark(id_, level, reading, test, place)


def faults(clauses: Sequence[Clause], marks: Iterable[Mark]) -> list[str]:
    """What is wrong between registers, tests and modules; empty: nothing."""
    by_id = {clause.id: clause for clause in clauses}
    counts = Counter(clause.id for clause in clauses)
    found = [f"{id_} stands {count} times" for id_, count in counts.items() if count > 1]
    prefixes = tuple({clause.id.partition(".")[0] + "." for clause in clauses})
    shown: set[str] = set()
    for mark in marks:
        shown.add(mark.id)
        clause = by_id.get(mark.id)
        at = f"{mark.place}::{mark.test}: {mark.id}"
        if clause is not None and mark.level not in ("", clause.level):
            found.append(f"{at} is {clause.level}, not {mark.level}")
        elif clause is None and mark.id.startswith(prefixes):
            found.append(f"{at}: no register has this clause")
        elif clause is None and (mark.level not in LEVELS or not mark.reading):
            found.append(f"{at}: without a register the mark says level and reading")
    for clause in clauses:
        found += [f"{clause.id}: {text}" for text in _clause_faults(clause, clause.id in shown)]
    return found


def _clause_faults(clause: Clause, shown: bool) -> Iterator[str]:
    if clause.level not in LEVELS:
        yield f"level {clause.level!r}: one of {LEVELS}"
    if not clause.sentences and not clause.section:
        yield "no sentence and no section says it"
    yield from (f"not a reference: {r!r}" for r in clause.sentences if not _REFERENCE.fullmatch(r))
    if clause.state and not clause.why:
        yield f"{clause.state} without a reason"
    if clause.state in ("unmet", "outside") and shown:
        yield f"{clause.state}, and yet a test is marked with it"
    if clause.state in ("", "departure") and not shown:
        yield "no test is marked with it, and nothing says why"
    if clause.state in ("", "departure") and not clause.modules:
        yield "no module is named"
    for module in clause.modules:
        path = ROOT / "src" / "distributary" / module.replace(".", "/")
        if not path.is_dir() and not path.with_suffix(".py").is_file():
            yield f"there is no module {module}"


def draw() -> str:
    """The tables of docs/conformance.md."""
    marks: dict[str, list[Mark]] = {}
    for mark in read_marks():
        marks.setdefault(mark.id, []).append(mark)
    parts = [
        f"### {path.stem}\n\n{_register_table(read_register(path), marks)}" for path in _registers()
    ]
    for clause in read_registers():
        marks.pop(clause.id, None)
    return "\n\n".join([*parts, f"### Other specifications\n\n{_other_table(marks)}"])


def _register_table(clauses: Sequence[Clause], marks: dict[str, list[Mark]]) -> str:
    counts = Counter(clause.state for clause in clauses)
    total = (
        f"{len(clauses)} clauses: {counts['']} met, {counts['departure']} departures,"
        f" {counts['unmet']} not met, {counts['outside']} that ask nothing of us."
    )
    rows = [
        (
            f"`{clause.id}`",
            clause.level,
            cell(clause.reading),
            _said_in(clause),
            ", ".join(f"`{module}`" for module in clause.modules),
            _shown_by(clause, marks.get(clause.id, ())),
        )
        for clause in clauses
    ]
    head = ("Clause", "Level", "Our reading", "Said in", "Implemented in", "Shown by")
    return f"{total}\n\n{table(head, rows)}"


def _other_table(marks: dict[str, list[Mark]]) -> str:
    rows = []
    for id_ in sorted(marks, key=_order):
        readings = " ".join(dict.fromkeys(cell(mark.reading) for mark in marks[id_]))
        links = ", ".join(dict.fromkeys(mark.link for mark in marks[id_]))
        rows.append((f"`{id_}`", marks[id_][0].level, readings, links))
    return table(("Clause", "Level", "Our reading", "Shown by"), rows)


def _said_in(clause: Clause) -> str:
    """Sections by revision, newest first: ``3.2.1 id (004, 003)``."""
    revisions: dict[str, dict[str, None]] = {}
    for reference in sorted(clause.sentences, key=lambda each: each[:3], reverse=True):
        revision, section = reference.rpartition(" #")[0].split(" ", 1)
        revisions.setdefault(section, {})[revision] = None
    said = [f"{section} ({', '.join(names)})" for section, names in revisions.items()]
    return "; ".join(said) or clause.section


def _shown_by(clause: Clause, marks: Sequence[Mark]) -> str:
    names = {"departure": "**departure**", "unmet": "**not met**", "outside": "not ours"}
    links = ", ".join(dict.fromkeys(mark.link for mark in marks))
    reason = f"{names[clause.state]}: {cell(clause.why)}" if clause.state else ""
    return "; ".join(part for part in (reason, links) if part)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def cell(text: str) -> str:
    """*text* in one line that no table or HTML reader misunderstands."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()


def _order(id_: str) -> list[tuple[int, str]]:
    """3.2.10 after 3.2.9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", id_)]


def main(arguments: Sequence[str]) -> int:
    """Print every fault."""
    found = faults(read_registers(), read_marks())
    if arguments:
        found += sentence_faults(read_texts(Path(arguments[0])))
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
