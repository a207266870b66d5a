"""Pages are one file, valid, and hold text as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from matplotlib.figure import Figure

from flyball.experiments.pages.document import Cell, Page

VOID = {"meta", "br", "img", "link", "hr"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and collects what could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action", "data") and value:
                self.loads.append(value)
            if name == "id" and value:
                self.ids.append(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check_alone(text: str) -> Outline:
    """Check that a page is whole and loads nothing."""
    outline = Outline(text)
    assert outline.open == []
    assert all(value.startswith("#") for value in outline.loads), outline.loads
    assert len(outline.ids) == len(set(outline.ids))
    assert not re.search(r"@import|url\((?!#)", text)
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    return outline


def drawing() -> Figure:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], [3, 4])
    axes.set_title("a title")
    return figure


def test_a_page_is_whole_and_loads_nothing() -> None:
    page = Page("Title <b>", "sub & title")
    page.heading("One")
    page.text("Some text.", "<script>alert(1)</script>")
    page.points(["a < b", '"quoted"'])
    page.points([])
    page.figures_of([("wait", "3 min", "median")])
    page.table(("name", "n"), [[Cell("<img src=x onerror=alert(1)>"), Cell("1,200", 1200.0)]])
    page.figure(drawing(), "A <drawing>")
    page.heading("Two")
    page.figure(drawing(), "the same again")
    page.code("flyball report --last '7d' > x")
    text = page.html()
    outline = check_alone(text)
    assert "<img" not in text
    assert "<script>alert" not in text
    assert {"s1", "s2"} <= set(outline.ids)
    assert 'data-v="1200"' in text
    assert "<title>Title &lt;b&gt;</title>" in text
    assert text == page.html()


def test_the_same_page_is_the_same_file() -> None:
    def page() -> str:
        page = Page("a", "b")
        page.figure(drawing(), "c")
        return page.html()

    assert page() == page()
