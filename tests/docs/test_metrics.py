"""The table of metrics against the code that counts: names, kinds and labels."""

import re
from pathlib import Path

from distributary.server.processes.supervision.metrics import METRICS, Kind

SRC = Path(__file__).parents[2] / "src" / "distributary"
TABLE = SRC / "server" / "processes" / "supervision" / "metrics.py"
SOURCE = "\n".join(path.read_text() for path in SRC.rglob("*.py") if path != TABLE)
COUNTED = set(re.findall(r"""f?["']([a-z_]+_total)(?=\{+\w|["'])""", SOURCE))
GAUGED = set(re.findall(r"""gauges\[f?["']([a-z_]+)""", SOURCE))
OBSERVED = set(re.findall(r"""\.histogram\(\s*f?["']([a-z_]+)""", SOURCE))
LABELLED = re.findall(r"""f["']([a-z_]+)\{\{+(\w+=[^\n]*?)\}\}""", SOURCE)


def test_what_the_code_counts_has_a_row() -> None:
    """With the kind that it has there."""
    kinds = {
        **dict.fromkeys(COUNTED, Kind.COUNTER),
        **dict.fromkeys(GAUGED, Kind.GAUGE),
        **dict.fromkeys(OBSERVED, Kind.HISTOGRAM),
    }
    assert len(kinds) > 80
    assert {name: METRICS[name].kind if name in METRICS else None for name in kinds} == kinds


def test_every_row_is_of_something_that_the_code_counts() -> None:
    """By name; the rows of subscriptions, whose names are made up in one place, by their ends."""
    missing = {name for name in METRICS if not re.search(rf"\b{name}\b", SOURCE)}
    made = {name for name in missing if name.startswith("subscription_")}
    ends = {name.removeprefix("subscription_").removesuffix("_total") for name in made}
    assert all(f'"{end}"' in SOURCE for end in ends)
    assert missing == made


def test_rows_have_the_labels_that_the_code_writes() -> None:
    """Where it writes them behind the name."""
    written = {name: tuple(re.findall(r"(\w+)=", labels)) for name, labels in LABELLED}
    assert len(written) > 20
    assert {name: METRICS[name].labels for name in written} == written


def test_help_texts_stand_alone() -> None:
    """The page is sorted by name: no text leans on the one above it."""
    leaning = re.compile(r"\b(the same|of (those|these|them)|while (they|its))\b", re.IGNORECASE)
    found = {name: row.help for name, row in METRICS.items() if leaning.search(row.help)}
    assert not found
