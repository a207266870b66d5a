"""The pages as a site: built without a warning, with search, and with nothing from the network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']([^"']+)|<link\b[^>]*\bhref=["']([^"']+)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "-d", str(out / "trees")]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(out / "html")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


def test_every_page_is_built_and_in_the_sidebar(site: Path) -> None:
    index = (site / "README.html").read_text("utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / name).is_file(), name
        if name != "README.html":
            assert f'class="reference internal" href="{name}"' in index, name


def test_search_knows_the_pages(site: Path) -> None:
    index = (site / "searchindex.js").read_text("utf-8")
    assert "guide/users" in index
    assert '"glossari"' in index or "glossari" in index  # words are stemmed
    assert (site / "search.html").is_file()


def test_nothing_comes_from_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        for one, two in LOADED.findall(page.read_text("utf-8")):
            assert not re.match(r"(https?:)?//", one or two), (page.name, one or two)
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text("utf-8").replace('"', "").replace("'", "")
