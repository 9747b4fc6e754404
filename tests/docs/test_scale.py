"""The figures of docs/design/scale.md are those of their sources."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scale() -> ModuleType:
    """scripts/scale.py, as a module."""
    spec = importlib.util.spec_from_file_location("scale", ROOT / "scripts" / "scale.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")  # it imports a neighbour
        spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_the_script_prints(scale: ModuleType) -> None:
    """Between the two marks, and nothing else there."""
    page = (ROOT / "docs" / "design" / "scale.md").read_text()
    (shown,) = re.findall(r"<!-- drawn: scale -->\n(.*?)<!-- end drawn -->", page, re.DOTALL)
    assert shown.strip() == scale.draw().strip()


@pytest.mark.parametrize(
    ("unit", "page", "said"),
    [
        ("deliver", "docs/design/cost.md", "a delivery takes 32 µs where one route"),
        ("partition", "docs/reference/settings.md", "one more partition costs 75 MiB"),
        ("route", "docs/decisions/0014-indexed-matcher.md", "896 / 993 bytes"),
        ("compile", "docs/decisions/0014-indexed-matcher.md", "| 4.4 s | 5 s |"),
    ],
)
def test_units_are_what_their_sources_say(
    scale: ModuleType, unit: str, page: str, said: str
) -> None:
    """A figure that is measured anew is changed in both places."""
    assert said in (ROOT / page).read_text()
    value = scale.UNITS[unit].value
    assert f"{value:g}" in said or f"{value / 10:g} s" in said


def test_more_events_need_more_of_everything(scale: ModuleType) -> None:
    """Ten times the events are at least as many cores, partitions and flushes."""
    rows = [scale.row_of_events(10.0**power) for power in range(2, 7)]
    for column in (1, 2, 3, 4, 5, 6):
        values = [float(row[column].replace(",", "")) for row in rows]
        assert values == sorted(values), column
