"""Nothing outside its folder knows a broker's protocol, but for what stands in a list."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "distributary"
NAMES = re.compile(r"amqp|kafka|mqtt|nats", re.IGNORECASE)
"""Brokers' protocols. HTTP is how events come in, and what Knative delivers by."""

OWN = "the Subscriptions API over AMQP: it speaks the protocol to its clients"

ALLOWED = {
    "api/amqp/__init__.py": OWN,
    "api/amqp/_conversation.py": OWN,
    "api/amqp/_messages.py": OWN,
    "api/amqp/_server.py": OWN,
    "app/_amqp.py": OWN,
    "app/_banner.py": OWN,
    "app/_running.py": OWN,
    "app/_serve.py": OWN,
    "resource/knative/_export.py": "kinds of channels that other systems have",
    "settings/__init__.py": "the port of the Subscriptions API over AMQP; help texts name KAFKA",
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
        if not path.is_relative_to(SRC / "protocols")
        and any(NAMES.search(said) for said in _said(ast.parse(path.read_text("utf-8"))))
    }
    assert found == set(ALLOWED), "take from the list what is gone; give what is new another place"
