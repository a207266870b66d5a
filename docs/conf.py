"""Builds these pages as a static site (`make docs`); the tables of README.md are its sidebar."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

project = "Flyball"
author = "the Flyball authors"
project_copyright = "the Flyball authors"
extensions = ["myst_parser"]
root_doc = "README"
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Flyball"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_extra_path = ["grafana"]
myst_heading_anchors = 4
pygments_style = "default"
nitpicky = True
# Code of several languages and terminals stands in the same blocks; none is highlighted by guess.
highlight_language = "none"
# The pages also link to files that are shown, not built.
myst_url_schemes = ["http", "https", "mailto"]
suppress_warnings = ["myst.xref_ambiguous"]

SECTION = re.compile(r"^## (\w+)", re.M)
ROW = re.compile(r"^\| \[((?:guide|concept|reference)/[\w-]+)\.md\]", re.M)


def toctrees(text: str) -> str:
    """Return a hidden table of contents for each section of the index page."""
    parts = SECTION.split(text)[1:]
    trees = []
    for caption, body in zip(parts[::2], parts[1::2], strict=True):
        pages = "\n".join(ROW.findall(body))
        if "(decisions/)" in body:
            trees.append(tree(caption, pages))
            notes = sorted(path.stem for path in (HERE / "decisions").glob("[0-9]*.md"))
            pages, caption = "\n".join(f"decisions/{name}" for name in notes), "Decisions"
        trees.append(tree(caption, pages))
    return "\n".join(trees)


def tree(caption: str, pages: str) -> str:
    """Return a directive that adds pages to the sidebar."""
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n:maxdepth: 1\n\n{pages}\n```\n"


def add_contents(app: Any, docname: str, source: list[str]) -> None:
    """Add the contents to the index, and send links to what is not built to the first page."""
    if docname == root_doc:
        source[0] += toctrees(source[0])
        first = sorted((HERE / "decisions").glob("[0-9]*.md"))[0].name
        source[0] = source[0].replace("[decisions/](decisions/)", f"[decisions](decisions/{first})")


def setup(app: Any) -> dict[str, bool]:
    """Connect the changes to the build."""
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
