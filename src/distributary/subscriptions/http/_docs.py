"""The API description as an HTML page: one file, no scripts, no external resources."""

import html
import json
from typing import Any, Final

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
)

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}"
    "code,pre{font:14px/1.4 ui-monospace,monospace}pre{background:#8881;padding:1rem;overflow:auto}"
    "table{border-collapse:collapse}td{padding:.1rem 1rem .1rem 0;vertical-align:top}"
)


def build_docs(openapi: dict[str, Any]) -> str:
    """Render *openapi* as HTML."""
    title = html.escape(f"{openapi['info']['title']} {openapi['info']['version']}")
    paths = "".join(_path(path, item) for path, item in openapi["paths"].items())
    schemas = "".join(
        f"<h3>{html.escape(name)}</h3><pre>{html.escape(json.dumps(schema, indent=2))}</pre>"
        for name, schema in openapi["components"]["schemas"].items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style><h1>{title}</h1><p>{html.escape(openapi['info']['summary'])}."
        f" For programs: <code>/openapi.json</code>.</p>{paths}<h2>Schemas</h2>{schemas}</html>"
    )


def _path(path: str, item: dict[str, Any]) -> str:
    rows = []
    for method, operation in item.items():
        if method == "parameters":
            continue
        answers = "".join(
            f"<tr><td><code>{status}</code><td>{html.escape(answer['description'])}"
            for status, answer in operation["responses"].items()
        )
        rows.append(
            f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
            f"<p>{html.escape(operation['summary'])}</p><table>{answers}</table>"
        )
    return "".join(rows)
