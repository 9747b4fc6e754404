"""Nothing outside its folder knows a broker's protocol, but for what stands in a list."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "distributary"
NAMES = re.compile(r"amqp|kafka|mqtt|nats", re.IGNORECASE)
"""Brokers' protocols. HTTP is how events come in, and what Knative delivers by."""

HOMES = (SRC / "protocols", SRC / "subscriptions" / "amqp", SRC / "core" / "log" / "kafka")
"""Folders that are about one, or about each."""

API = "starts the Subscriptions API over AMQP"

ALLOWED = {
    "cli/_migrate.py": "where the log moves to",
    "cli/_subscribe.py": "examples of its help",
    "core/cluster.py": "where the log lies that several machines share",
    "knative/kinds/export.py": "kinds of channels that other systems have",
    "partitions/cluster_places.py": "the log that several machines share",
    "server/migrate/_log.py": "the log that several machines share",
    "server/migrate/_run.py": "likewise",
    "server/migrate/_source.py": "checksums of that log",
    "server/processes/base/ground.py": API,
    "server/processes/control/banner.py": API,
    "server/processes/supervision/listeners.py": API,
    "server/processes/control/running.py": API,
    "server/processes/_serve.py": API,
    "server/processes/index_process.py": "the log that several machines share",
    "server/processes/node/led.py": "the log that several machines share",
    "server/processes/node/node.py": "the log that several machines share",
    "server/processes/receiver/shared_log.py": "the log that several machines share",
    "server/processes/node/_growth.py": "the log that several machines share",
    "server/processes/node/_log_reach.py": "the log that several machines share",
    "server/processes/node/_agreement.py": "the log that several machines share",
    "server/processes/node/_node_recalls.py": "the log that several machines share",
    "server/processes/node/_shared_cluster.py": "the log that several machines share",
    "server/processes/node/_shared_retention.py": "the log that several machines share",
    "server/processes/node/_shared_views.py": "the log that several machines share",
    "server/processes/base/tls.py": "handshakes of that API's port",
    "server/processes/pipeline/archive_job.py": "the log that several machines share",
    "server/processes/recall_process.py": "the log that several machines share",
    "spark/_logs.py": "the log that several machines share",
    "spark/_reader_notes.py": "the log that several machines share",
    "spark/archive/logs.py": "the log that several machines share",
    "spark/_places.py": "where the log lies that several machines share",
    "server/settings/_cluster.py": "where the log lies that several machines share",
    "server/settings/_receiving.py": "the port of that API",
    "server/settings/_sinks.py": "what a help text says of KAFKA",
}
"""File below the package -> why it may name a protocol."""


def _said(tree: ast.Module) -> Iterator[str]:
    """Names and texts of a module's code; docstrings and comments are free."""
    bare = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in bare:
                yield text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.alias(name=name):
                yield name
            case _:
                pass


def test_no_place_outside_the_protocols_names_one_without_a_reason() -> None:
    """Who adds a protocol, or changes one, has one folder to look at."""
    found = {
        path.relative_to(SRC).as_posix()
        for path in SRC.rglob("*.py")
        if not any(path.is_relative_to(home) for home in HOMES)
        and any(NAMES.search(said) for said in _said(ast.parse(path.read_text("utf-8"))))
    }
    assert found == set(ALLOWED), "take from the list what is gone; give what is new another place"
