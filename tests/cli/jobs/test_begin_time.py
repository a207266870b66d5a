"""The earliest start of a job, in Slurm's notation."""

from __future__ import annotations

from datetime import datetime

import pytest

from flyball.cli.jobs.begin_time import begin_time
from flyball.cli.jobs.parse_job import parse_command
from flyball.core.errors import BadInput

NOW = datetime(2026, 11, 17, 15, 30, 10)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", NOW),
        ("now+60", datetime(2026, 11, 17, 15, 31, 10)),
        ("now+1hour", datetime(2026, 11, 17, 16, 30, 10)),
        ("now + 2 days", datetime(2026, 11, 19, 15, 30, 10)),
        ("now+3weeks", datetime(2026, 12, 8, 15, 30, 10)),
        ("16:00", datetime(2026, 11, 17, 16)),
        ("9:05:06", datetime(2026, 11, 18, 9, 5, 6)),
        ("4:30pm", datetime(2026, 11, 17, 16, 30)),
        ("12:10 AM", datetime(2026, 11, 18, 0, 10)),
        ("noon", datetime(2026, 11, 18, 12)),
        ("teatime", datetime(2026, 11, 17, 16)),
        ("midnight", datetime(2026, 11, 18)),
        ("today", datetime(2026, 11, 17)),
        ("tomorrow", datetime(2026, 11, 18)),
        ("tomorrow 16:00", datetime(2026, 11, 18, 16)),
        ("tomorrow noon", datetime(2026, 11, 18, 12)),
        ("2030-01-20", datetime(2030, 1, 20)),
        ("2030-01-20T12:34:00", datetime(2030, 1, 20, 12, 34)),
        ("2030-01-20T12:34", datetime(2030, 1, 20, 12, 34)),
        ("2030-01-20 noon", datetime(2030, 1, 20, 12)),
        ("01/20/30", datetime(2030, 1, 20)),
        ("012030", datetime(2030, 1, 20)),
        ("1224", datetime(2026, 12, 24)),
        ("0120", datetime(2027, 1, 20)),
        ("01/20/30-", None),
        ("2030-02-30", None),
        ("25:00", None),
        ("13:00pm", None),
        ("now+1fortnight", None),
        ("now-1hour", None),
        ("tomorrow soon", None),
        ("", None),
    ],
)
def test_moments(text: str, moment: datetime | None) -> None:
    if moment is None:
        with pytest.raises(BadInput, match="is not a start time"):
            begin_time(text, NOW)
    else:
        assert begin_time(text, NOW) == moment.timestamp()


def test_options_of_the_job() -> None:
    options = {"begin": "2030-01-20", "hold": "", "signal": "USR1@90", "time": "10"}
    asked = parse_command(["python"], options, dashes=True)
    [draft] = asked.drafts
    values = draft.values
    assert values["begin_time"] == datetime(2030, 1, 20).timestamp()
    assert values["hold"] is True
    assert (values["checkpoint_signal"], values["signal_before_s"]) == (10, 90.0)
    assert "signal_children" not in values
    assert not [note for note in asked.notes if "signal" in note]
