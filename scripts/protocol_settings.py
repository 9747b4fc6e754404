"""Tables of the settings of each delivery protocol, drawn from their schemas."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import clauses

from distributary.core.protocol import Protocol, protocols


def draw() -> str:
    """For each protocol its schemes, its content modes and its settings."""
    return "\n\n".join(_part(protocol) for protocol in protocols().values())


def _part(protocol: Protocol) -> str:
    schemes = ", ".join(f"`{name}` ({each.port})" for name, each in protocol.schemes.items())
    formats = ", ".join(f"`{each}`" for each in protocol.formats)
    rows = (
        (
            f"`{name}`",
            _values(schema),
            _default(name, schema, protocol.required),
            clauses.cell(_text(schema)),
        )
        for name, schema in protocol.settings.items()
    )
    return (
        f"### {protocol.name}\n\nSchemes (port): {schemes}. `format`: {formats}.\n\n"
        + clauses.table(("Setting", "Values", "Default", "Meaning"), rows)
    )


def _text(schema: Mapping[str, Any]) -> str:
    return str(schema["description"])


def _values(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if schema["type"] == "integer":
        return f"{schema['minimum']} to {schema['maximum']:,}"
    return {"boolean": "`true`, `false`", "object": "map"}.get(schema["type"], "text")


def _default(name: str, schema: Mapping[str, Any], required: tuple[str, ...]) -> str:
    if name in required:
        return "required"
    if "default" not in schema:
        return ""
    value = schema["default"]
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"
