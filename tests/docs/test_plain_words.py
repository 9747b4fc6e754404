"""Guides need no glossary: they use the words of the field, and not those of our own code.

Code blocks and words in code font are exempt: names of settings, metrics, log lines and states are
what users type and see.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = [
    ROOT / "README.md",
    *sorted(DOCS.glob("tutorial/*.md")),
    *sorted(DOCS.glob("how-to/*.md")),
]
GLOSSARY_ROWS_MAX = 25
"""What a reader can hold in mind; a longer glossary means that the code has too many own words."""

INTERNAL = {
    r"board": "status page",
    r"by (?:it|them)sel(?:f|ves)": "say who does it, or leave it out",
    r"catch-?up|catches up on": "backfill, or: falls behind, catches up",
    r"cool(?:s|ing)? down": "drain",
    r"crowded": "saturated",
    r"cursor": "position, committed offset",
    r"desk": "server",
    r"epoch": "batch",
    r"hand-?over": "new batch",
    r"lag(?:s|ged|ging)?": "falls behind, backfill",
    r"lane": "destination queue",
    r"ledger": "audit trail",
    r"leg": "sink, or dead letter sink",
    r"(?<!dead[ \n-])letters?": "dead letter",
    r"live reader": "new events",
    r"owners?(?![ \n]references?)": "partition consumer, or the process by name",
    r"park(?:s|ed|ing)?": "`parked`, or: paused",
    r"pass(?:es)? (?:left|through Brokers)|last pass": "hop limit",
    r"route records?": "change of a subscription",
    r"sealed|unsealed": "encrypted",
    r"(?<!task[ \n])slots?": "quota reservation",
    r"spill(?:s|ed)?": "moved to the retry store",
    r"ticks?": "timer event",
    r"under way": "in progress, in flight",
    r"void": "invalid",
    r"watermark": "name the setting",
    r"wish(?:es)?": "options, request",
}
"""Pattern of a word of our code, and what a guide says instead."""


def _prose(text: str) -> str:
    """The text without code and without link targets; its lines keep their numbers."""
    fence = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
    text = fence.sub(lambda block: "\n" * block[0].count("\n"), text)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "", text))


def _words(name: str, text: str) -> Iterator[str]:
    """``file:line: word``, with what to write instead, for each internal word of a page."""
    prose = _prose(text)
    for pattern, instead in INTERNAL.items():
        for found in re.finditer(rf"\b(?:{pattern})\b", prose, re.IGNORECASE):
            line = prose.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: {found[0]!r} (write: {instead})"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_guides_use_no_internal_word(page: Path) -> None:
    """README, tutorial and how-to guides read without the glossary."""
    assert list(_words(str(page.relative_to(ROOT)), page.read_text("utf-8"))) == []


def test_internal_words_are_found() -> None:
    """In prose, with their line; not in code, not in link targets."""
    text = "dead\nletter\n`lane`\n```text\nlane\n```\n[x](lane.md)\nits Lane\n"
    assert list(_words("page.md", text)) == ["page.md:8: 'Lane' (write: destination queue)"]


def test_the_glossary_is_short() -> None:
    """At most 25 rows, in alphabetical order, each word once."""
    rows = re.findall(r"^\| ([^|]+) \| ", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE)
    words = [row for row in rows if row != "Word"]
    assert words == sorted(set(words), key=str.casefold)
    assert 0 < len(words) <= GLOSSARY_ROWS_MAX
