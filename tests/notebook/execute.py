"""Executes the code cells of a notebook in order, as a kernel would, and keeps what they show.

    python tests/notebook/execute.py docs/guide/replay.ipynb            print what the cells show
    python tests/notebook/execute.py docs/guide/replay.ipynb --write    and store it in the file

A cell shows the value of its last expression: as text, as HTML and as an image, if it has them.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def shown(value: Any) -> dict[str, Any]:
    """Return the forms of a value that a notebook would show."""
    forms: dict[str, Any] = {"text/plain": lines(repr(value))}
    html = value._repr_html_() if hasattr(value, "_repr_html_") else None
    if html is not None:  # of a figure it is None
        forms["text/html"] = lines(html)
    if hasattr(value, "_repr_png_"):
        forms["image/png"] = base64.b64encode(small_image(value)).decode() + "\n"
    return forms


def small_image(figure: Any) -> bytes:
    """Return a figure in few pixels: a notebook in a repository must stay small."""
    import io

    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=50, metadata={"Software": None})
    return image.getvalue()


def lines(text: str) -> list[str]:
    """Return a text as a notebook file stores it."""
    return text.splitlines(keepends=True)


def execute(notebook: dict[str, Any]) -> None:
    """Run every code cell in one namespace and store what it shows."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        last = tree.body[-1]
        before = tree.body[:-1] if isinstance(last, ast.Expr) else tree.body
        exec(compile(ast.Module(before, []), f"cell {number}", "exec"), namespace)
        cell["execution_count"], cell["outputs"] = number, []
        if isinstance(last, ast.Expr):
            code = compile(ast.Expression(last.value), f"cell {number}", "eval")
            value = eval(code, namespace)
            if value is not None:
                output = {"output_type": "execute_result", "execution_count": number}
                cell["outputs"] = [{**output, "data": shown(value), "metadata": {}}]


def main() -> None:
    """Execute the notebook that is named, in an empty folder."""
    path = Path(sys.argv[1]).resolve()
    notebook = json.loads(path.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        execute(notebook)
        os.chdir(path.parent)
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    if "--write" in sys.argv[2:]:
        path.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
