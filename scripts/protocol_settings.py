"""Tables of the settings of each delivery protocol, drawn from their schemas."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import clauses

from distributary.resource import SINK_PORTS
from distributary.resource.api_subscription import PROTOCOL_SETTINGS


def draw() -> str:
    """For each protocol its schemes, its content modes and its settings."""
    return "\n\n".join(_part(protocol) for protocol in PROTOCOL_SETTINGS)


def _part(protocol: str) -> str:
    schemes = ", ".join(f"`{name}` ({port})" for name, port in SINK_PORTS[protocol].items())
    formats = ", ".join(f"`{each}`" for each in PROTOCOL_SETTINGS[protocol].formats)
    required = PROTOCOL_SETTINGS[protocol].required
    rows = (
        (
            f"`{name}`",
            _values(schema),
            _default(name, schema, required),
            clauses.cell(_text(schema)),
        )
        for name, schema in PROTOCOL_SETTINGS[protocol].settings.items()
    )
    return f"### {protocol}\n\nSchemes (port): {schemes}. `format`: {formats}.\n\n" + clauses.table(
        ("Setting", "Values", "Default", "Meaning"), rows
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
