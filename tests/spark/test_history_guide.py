"""The examples of the guide to the history run, over files as the server writes them."""

import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from kit.history_files import DEAD, DELIVERED, RETRIED, row, write_rows

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "ask-the-history.md"


def _blocks(mark):
    text = PAGE.read_text("utf-8")
    return re.findall(rf"^```{mark}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _history(folder):
    """Rows of a minute ago: an event of each kind."""
    now_s = time.time() - 60
    write_rows(
        folder,
        row(0, now_s, **DELIVERED | {"event_id": "id-17"}),
        row(1, now_s, "bills", **RETRIED | {"event_id": "id-17"}),
    )
    write_rows(folder, row(2, now_s + 1, "bills", **DEAD | {"event_id": "id-17", "attempt": 2}))


def test_the_queries_of_the_guide_run(spark, tmp_path, capsys):
    """Outcomes of each subscription, attempts by reason, and the story of one event."""
    _history(tmp_path)
    blocks = _blocks("python run-spark")
    assert len(blocks) == 3
    namespace = {"spark": spark, "history": str(tmp_path)}
    shown = []
    for block in blocks:
        exec(compile(block, "guide", "exec"), namespace)
        shown.append(capsys.readouterr().out)
    assert re.search(r"bills\|dead-lettered\| +1\|", shown[0])
    assert re.search(r"orders\| +delivered\| +1\|", shown[0])
    assert re.search(r"bills +\|retry +\|NULL +\|503 +\|1 ", shown[1])
    assert shown[2].count("|orders") == 1
    assert shown[2].count("|bills") == 2


def test_the_commands_of_the_guide_run(tmp_path):
    """In the folder in which the server runs; the last one follows until it is ended."""
    _history(tmp_path / "distributary-data" / "history")
    (block,) = _blocks("console")
    answers = []
    for line in block.splitlines():
        words = [word for word in shlex.split(line) if word != "--follow"]
        assert words[0] == "distributary"
        done = subprocess.run(
            [sys.executable, "-m", "distributary.cli", *words[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        rows = [json.loads(printed) for printed in done.stdout.splitlines()]
        answers.append([found["number"] for found in rows])
    assert answers == [[0], [0, 1, 2], [1, 2]]
