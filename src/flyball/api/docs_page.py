"""The documentation page: the OpenAPI document as plain HTML.

Rendered on the server, without scripts or external resources, so that it works without a network
and its content security policy can forbid everything but one style sheet.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .3rem .8rem }
summary { cursor: pointer }
code, .method { font-family: ui-monospace, monospace; font-size: 14px }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700 }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 }
td, th { text-align: left; vertical-align: top; border-top: 1px solid var(--line); padding: .25rem }
pre { background: var(--soft); padding: .6rem; overflow-x: auto }
"""
_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_DIGEST}'; frame-ancestors 'none'"
EXAMPLE = """curl -s -H "Authorization: Bearer $(cat STATE/token)" \\
     -H "Content-Type: application/json" \\
     -d '{"argv": ["echo", "hello"]}' URL/api/v1/jobs"""


def page(document: dict[str, Any]) -> tuple[str, str]:
    """Return the page of an OpenAPI document, and its content security policy."""
    info = document["info"]
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = operation.get("tags", ["other"])[0]
            groups.setdefault(tag, []).append(_operation(method, path, operation))
    sections = "".join(f"<h2>{escape(tag)}</h2>{''.join(items)}" for tag, items in groups.items())
    schemas = "".join(
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        f"{_schema(schema)}</details>"
        for name, schema in sorted(document["components"]["schemas"].items())
    )
    title = escape(f"{info['title']} {info['version']}")
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style><h1>{title}</h1><p>{escape(info['description'])}</p>"
        f"<pre>{escape(EXAMPLE)}</pre>{sections}<h2>schemas</h2>{schemas}</html>"
    )
    return html, POLICY


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    takes = f"<p>Body: {_type(body['schema'])}</p>" if body else ""
    answers = "".join(
        f"<tr><td><code>{escape(status)}</code>"
        f"<td>{escape(response['description'])}<td>{_media(response)}"
        for status, response in operation["responses"].items()
    )
    parameters = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}"
        f"<td>{_type(parameter['schema'])}<td>{escape(parameter.get('description', ''))}"
        for parameter in operation.get("parameters", [])
    )
    listed = f"<table><tr><th>parameter<th>in<th>type<th>{parameters}</table>" if parameters else ""
    return (
        f'<details><summary><span class="method">{escape(method.upper())}</span> '
        f"<code>{escape(path)}</code></summary><p>{escape(operation.get('description', ''))}</p>"
        f"{listed}{takes}<table><tr><th>answer<th><th>{answers}</table></details>"
    )


def _media(response: dict[str, Any]) -> str:
    """Return the types of a response's body, by media type."""
    return "<br>".join(
        f"<code>{escape(media)}</code> {_type(content.get('schema', {}))}"
        for media, content in response.get("content", {}).items()
    )


def _schema(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{' (required)' if name in required else ''}"
        f"<td>{_type(field)}<td>{escape(field.get('description', ''))}"
        for name, field in schema.get("properties", {}).items()
    )
    about = f"<p>{escape(schema.get('description', ''))}</p>"
    return about + (f"<table><tr><th>field<th>type<th>{rows}</table>" if rows else _type(schema))


def _type(schema: dict[str, Any]) -> str:
    """Return a short description of a type, with its bounds."""
    if reference := schema.get("$ref"):
        name = escape(reference.rpartition("/")[2])
        return f'<a href="#{name}"><code>{name}</code></a>'
    if options := schema.get("anyOf"):
        return " or ".join(_type(option) for option in options)
    if values := schema.get("enum"):
        return ", ".join(f"<code>{escape(repr(value))}</code>" for value in values)
    if "const" in schema:
        return f"<code>{escape(repr(schema['const']))}</code>"
    kind = schema.get("type", "any")
    if kind == "array":
        parts = schema.get("prefixItems") or [schema.get("items", {})]
        return f"list of {', '.join(_type(part) for part in parts)}{_bounds(schema)}"
    return escape(str(kind)) + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum")
    bounds = [f"{low:,} to {high:,}"] if low is not None and high is not None else []
    for name, text in (("maxLength", "up to {:,} characters"), ("maxItems", "up to {:,}")):
        if name in schema:
            bounds.append(text.format(schema[name]))
    if "pattern" in schema:
        bounds.append(f"like <code>{escape(schema['pattern'])}</code>")
    return f" ({', '.join(bounds)})" if bounds else ""
