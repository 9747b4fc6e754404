"""The drawn parts of the documentation are what the code says today."""

import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from distributary.resource.orders import ORDERS, PREFIX

ROOT = Path(__file__).parents[2]


def test_every_page_is_current(draw: ModuleType) -> None:
    """`make docs` would change nothing."""
    stale = [
        str(page.relative_to(ROOT))
        for page in draw.pages()
        if draw.redraw(page.read_text("utf-8")) != page.read_text("utf-8")
    ]
    assert stale == [], "run `make docs`"


def test_every_drawing_is_on_a_page(draw: ModuleType) -> None:
    """A drawing that no page shows, or a page that names an unknown one, is a mistake."""
    text = "".join(page.read_text("utf-8") for page in draw.pages())
    assert set(re.findall(r"<!-- drawn: ([a-z-]+) -->", text)) == set(draw.DRAWINGS)


def test_what_is_written_by_hand_stays(draw: ModuleType) -> None:
    """Only what stands between the two comments is replaced."""
    before = "# T\n\nabove\n\n<!-- drawn: errors -->\nstale words\n<!-- end drawn -->\n\nbelow\n"
    after = draw.redraw(before)
    assert after.startswith("# T\n\nabove\n\n<!-- drawn: errors -->\n")
    assert after.endswith("<!-- end drawn -->\n\nbelow\n")
    assert "stale words" not in after
    assert draw.redraw(after) == after


def test_limits_are_read_from_constants_with_a_reason(
    draw: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever makes the number; private names, words and units of time do not count."""
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "of_limits.py"
    module.write_text(
        'A_BYTES_MAX = 2 * 1024\n"""Why ``a``."""\n'
        'B_MAX: int = A_BYTES_MAX + 1\n"""Why b | c."""\n'
        'C_MIN = -(2**31)\n"""Why c."""\n'
        'F_MAX = 1 << 3\n"""Why f."""\nG_S: float = min(F_MAX, 9) // 2\n"""Why g."""\n'
        'NAME_MAX = "x"\n"""A word."""\n_D_MAX = 1\n"""Private."""\nHOUR_S = 3600\nE_MAX = 1\n'
    )
    assert list(draw._limits(module, module.stem)) == [
        ("`A_BYTES_MAX`", "2,048", "Why `a`."),
        ("`B_MAX`", "2,049", "Why b \\| c."),
        ("`C_MIN`", "-2,147,483,648", "Why c."),
        ("`F_MAX`", "8", "Why f."),
        ("`G_S`", "4", "Why g."),
        ("`E_MAX`", "1", ""),
    ]


def test_every_public_limit_has_its_reason(draw: ModuleType) -> None:
    """Behind it, for whoever wants to change it."""
    without = r"^\| (`\w+`) \| .* \| (`[\w/.]+`) \|\s*\|$"
    assert re.findall(without, draw.draw_limits(), re.MULTILINE) == []


def test_every_annotation_of_our_own_is_in_the_table(draw: ModuleType) -> None:
    """Those that the code names, and the orders; the id of an ApiSubscription is no setting."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r'"(distributary\.dev/[a-z-]+)"', source))
    drawn = set(re.findall(r"^\| `([^`]+)`", draw.DRAWINGS["annotations"](), re.MULTILINE))
    assert drawn == named | {PREFIX + name for name in ORDERS}


def test_every_dependency_has_its_reason() -> None:
    """The decision record and pyproject.toml name the same packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    kinds = ("server", "java", "amqp", "otel")
    named = [*project["dependencies"], *(one for kind in kinds for one in extras[kind])]
    record = (ROOT / "docs" / "decisions" / "0002-dependencies.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)`", record, re.MULTILINE)) == {
        re.split(r"[<>=~[]", requirement)[0] for requirement in named
    }
