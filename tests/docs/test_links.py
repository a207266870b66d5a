"""Every link of the pages leads somewhere: to a file that exists, and to a heading in it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")])
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*#*$", re.M)


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    names: list[str] = []
    for heading in HEADING.findall(FENCE.sub("", path.read_text("utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        names.append(slug if slug not in names else f"{slug}-{names.count(slug)}")
    return frozenset(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    text = CODE.sub("", FENCE.sub("", page.read_text("utf-8")))
    for link in (one or two for one, two in LINK.findall(text)):
        if re.match(r"[a-z]+:", link):
            assert link.startswith(("https://", "http://", "mailto:")), link
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{link}: there is no {path.relative_to(ROOT)}"
        if anchor:
            assert anchor in anchors(path), f"{link}: no such heading"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").as_posix()
        if name != "README.md" and not name.startswith("decisions/"):
            assert f"({name})" in index, f"{name} is not in docs/README.md"
