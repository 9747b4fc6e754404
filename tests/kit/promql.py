"""The queries of the alert rules and of the board, and what each of them names.

It reads as much of PromQL as our queries use: which metrics they select, by which labels, and by
which they group. Prometheus itself checks the rest, where it can be had.
"""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from distributary.core.meter import PREFIX

__all__ = ["BOARD", "RULES", "Query", "program", "queries", "rules"]

_DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
RULES: Final = _DEPLOY / "prometheus" / "rules.yml"
BOARD: Final = _DEPLOY / "grafana" / "distributary.json"

_SELECTED: Final = re.compile(rf"\b({PREFIX}\w+)(?:\{{([^}}]*)\}})?")
_MATCHER: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"[^\"]*\"")
_GROUPS: Final = re.compile(r"\bby \(([^)]*)\)")
_SHOWN: Final = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
_PARTS: Final = re.compile(r"_(?:bucket|sum|count)$")

_VARIABLES: Final = {"[$__rate_interval]": "[5m]", "$namespace": ".*"}
"""What Grafana puts in."""


class Query(NamedTuple):
    """A query, and where it stands.

    Attributes:
        place: Its alert or its panel.
        text: The query, with variables filled in.
        shown: Labels that the texts beside it show.
    """

    place: str
    text: str
    shown: frozenset[str]

    def selected(self) -> dict[str, set[str]]:
        """Each metric that it selects, with the labels that it matches; without our prefix."""
        found: dict[str, set[str]] = {}
        for name, matchers in _SELECTED.findall(self.text):
            base = _PARTS.sub("", name) if name.endswith(("_bucket", "_sum")) else name
            labels = found.setdefault(base.removeprefix(PREFIX), set())
            labels |= set(_MATCHER.findall(matchers))
        return found

    def grouped(self) -> set[str]:
        """Labels that it groups by or shows, those of buckets left out."""
        groups = ",".join(_GROUPS.findall(self.text)).split(",")
        return ({name.strip() for name in groups} | self.shown) - {"", "le"}


def rules() -> list[dict[str, Any]]:
    """The alerts, as they stand in their file."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> list[Query]:
    """Every query of both files."""
    found = [
        Query(rule["alert"], rule["expr"], frozenset(_SHOWN.findall(str(rule["annotations"]))))
        for rule in rules()
    ]
    board = json.loads(BOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"]
            for name, value in _VARIABLES.items():
                text = text.replace(name, value)
            shown = frozenset(_SHOWN.findall(target["legendFormat"]))
            found.append(Query(panel["title"], text, shown))
    return found


def program(name: str) -> str | None:
    """Path of ``prometheus`` or ``promtool``, from a variable of that name or the ``PATH``."""
    return os.environ.get(name.upper()) or shutil.which(name)
