"""The page of the journal says of events what their classes say."""

from __future__ import annotations

from pathlib import Path

from flyball.control.journal.page import refresh, with_events

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "journal.md"


def test_the_page_is_what_the_classes_say(tmp_path: Path) -> None:
    written = PAGE.read_text("utf-8")
    assert with_events(written) == written, "print it again, as the page says"
    copy = tmp_path / "journal.md"
    copy.write_text(written.replace("| **`node`** |", "| **`host`** |"), "utf-8")
    refresh(copy)
    assert copy.read_text("utf-8") == written
