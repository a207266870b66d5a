"""A page of HTML in one file: figures and style are inside, nothing is loaded from anywhere.

page = Page("One week", "flyball report --last 7d")
page.heading("What happened")
page.table(("user", "jobs"), [[Cell("ada"), Cell("1,200", 1200)]])
page.text(...)
page.html()
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from flyball.experiments.pages.style import SCRIPT, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""What a browser may do on the page: nothing that leaves it."""


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: what is shown.
        value: by which the column is sorted; None = by the text.
    """

    text: str
    value: float | None = None


class Page:
    """Collects the parts of a page in order.

    Args:
        title: of the page.
        subtitle: one line below it.
    """

    def __init__(self, title: str, subtitle: str) -> None:
        self._title, self._subtitle = title, subtitle
        self._parts: list[str] = []
        self._headings: list[str] = []
        self._figures = self._tables = 0

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._headings.append(text)
        number = len(self._headings)
        self._parts.append(f'<h2 id="s{number}">{html.escape(text)}</h2>')

    def text(self, *sentences: str) -> None:
        """Add a paragraph."""
        self._parts.append(f"<p>{html.escape(' '.join(sentences))}</p>")

    def points(self, points: Iterable[str]) -> None:
        """Add a list; nothing if it is empty."""
        items = "".join(f"<li>{html.escape(point)}</li>" for point in points)
        if items:
            self._parts.append(f"<ul>{items}</ul>")

    def figures_of(self, numbers: Iterable[tuple[str, str, str]]) -> None:
        """Add a row of figures in large type: (name, value, remark) each."""
        tiles = "".join(
            f'<div class="tile"><span>{html.escape(name)}</span><b>{html.escape(value)}</b>'
            f"<small>{html.escape(remark)}</small></div>"
            for name, value, remark in numbers
        )
        self._parts.append(f'<div class="tiles">{tiles}</div>')

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        caption: str = "",
        left: int = 1,
    ) -> None:
        """Add a table that can be sorted by any column.

        Args:
            caption: above the table.
            left: number of first columns that are text.
        """
        heads = "".join(
            f'<th scope="col"{_side(at, left)}><button type="button">{html.escape(name)}'
            "</button></th>"
            for at, name in enumerate(header)
        )
        lines = "".join(
            f"<tr>{''.join(_cell(cell, at, left) for at, cell in enumerate(row))}</tr>"
            for row in rows
        )
        self._tables += 1
        name = f"t{self._tables}"
        # Not as <caption>, which would be as narrow as the table.
        above = f'<p class="cap" id="{name}">{html.escape(caption)}</p>' if caption else ""
        labelled = f' aria-labelledby="{name}"' if caption else ""
        self._parts.append(
            f'{above}<div class="wide"><table{labelled}><thead><tr>{heads}</tr></thead>'
            f"<tbody>{lines}</tbody></table></div>"
        )

    def figure(self, figure: Figure, caption: str) -> None:
        """Add a figure as lines and text, which stay sharp in print."""
        self._figures += 1
        drawing = svg_of(figure, f"f{self._figures}")
        text = html.escape(caption)
        self._parts.append(
            f'<figure><div class="drawing" role="img" aria-label="{text}">{drawing}</div>'
            f"<figcaption>{text}</figcaption></figure>"
        )

    def code(self, text: str) -> None:
        """Add text as it is typed."""
        self._parts.append(f"<pre>{html.escape(text)}</pre>")

    def html(self) -> str:
        """Return the file."""
        links = "".join(
            f'<a href="#s{number}">{html.escape(text)}</a>'
            for number, text in enumerate(self._headings, 1)
        )
        title = html.escape(self._title)
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title}</title><style>{STYLE}</style></head><body><main>"
            f'<header><h1>{title}</h1><p class="lead">{html.escape(self._subtitle)}</p>'
            f'<nav aria-label="sections">{links}</nav></header>\n'
            + "\n".join(self._parts)
            + f"</main><script>{SCRIPT}</script></body></html>\n"
        )


def svg_of(figure: Figure, prefix: str) -> str:
    """Return a figure as an SVG element whose ids are apart from those of other figures."""
    import io

    from matplotlib import rc_context

    image = io.BytesIO()
    with rc_context({"svg.hashsalt": prefix, "svg.fonttype": "path"}):
        figure.savefig(image, format="svg", metadata={"Date": None, "Creator": None})
    text = image.getvalue().decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", text)
    return text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def number_cell(text: str, value: float) -> Cell:
    """Return a cell sorted by a number; one that is not a number comes last."""
    return Cell(text, value if math.isfinite(value) else None)


def _side(at: int, left: int) -> str:
    return "" if at < left else ' class="n"'


def _cell(cell: Cell, at: int, left: int) -> str:
    value = "" if cell.value is None else f' data-v="{cell.value:.12g}"'
    tag = "th scope=row" if at == 0 else "td"
    return f"<{tag}{_side(at, left)}{value}>{html.escape(cell.text)}</{tag.partition(' ')[0]}>"
