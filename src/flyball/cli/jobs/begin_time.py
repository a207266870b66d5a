"""Parser of Slurm's notation for times such as the earliest start of a job (`--begin`)."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta

from flyball.core.errors import BadInput

UNITS = ("second", "minute", "hour", "day", "week")
CLOCKS = {
    "midnight": time(0),
    "elevenses": time(11),
    "noon": time(12),
    "fika": time(15),
    "teatime": time(16),
}
"""Times of day that have a name."""
SECONDS = re.compile(r"0|[0-9]{9,12}(\.[0-9]{1,6})?")
"""Seconds since 1970; no other notation has as many digits."""
REMEDY = "use e.g. now+1hour, 16:00, tomorrow, 2030-01-20T12:34:00"


def begin_time(text: str, now: datetime | None = None) -> float:
    """Return the earliest start in seconds since 1970, in local time.

    `now`, `now+60` (seconds), `now+2hours`; `16:00`, `4:30pm`, `noon`, which mean tomorrow if the
    time has passed today; `today`, `tomorrow`; `2030-01-20`, `01/20/30`, `0120` or `012030`; and a
    date with a time after `T` or a space.

    Args:
        now: local time without a zone; None = the clock.

    Raises:
        BadInput: anything else, or a day that does not exist.
    """
    now = now or datetime.now()  # without a zone, since users write local time
    word = " ".join(text.strip().lower().split())
    try:
        moment = _moment(word, now)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{text[:40]!r} is not a start time: {error}", REMEDY) from None
    if moment is None:
        raise BadInput(f"{text[:40]!r} is not a start time", REMEDY)
    return moment.timestamp()


def moment(text: str) -> float:
    """Return a time in seconds since 1970, which it may also be written as.

    Raises:
        BadInput: as of `begin_time`.
    """
    return float(text) if SECONDS.fullmatch(text.strip()) else begin_time(text)


def _moment(word: str, now: datetime) -> datetime | None:
    if word == "now":
        return now
    if added := re.fullmatch(r"now ?\+ ?([0-9]{1,9}) ?([a-z]*)", word):
        unit = added[2].removesuffix("s") or "second"
        if unit not in UNITS:
            return None
        return now + timedelta(**{f"{unit}s": int(added[1])})
    if (clock := _clock(word)) is not None:
        moment = datetime.combine(now.date(), clock)
        return moment if moment > now else moment + timedelta(days=1)
    day_word, _, clock_word = word.partition("t" if re.match(r"[0-9].*t", word) else " ")
    day = _day(day_word, now.date())
    clock = _clock(clock_word) if clock_word else time(0)
    return None if day is None or clock is None else datetime.combine(day, clock)


def _clock(word: str) -> time | None:
    if word in CLOCKS:
        return CLOCKS[word]
    match = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))? ?(am|pm)?", word)
    if not match:
        return None
    hour = int(match[1])
    if match[4]:
        if not 1 <= hour <= 12:
            raise ValueError("hour must be in 1..12")
        hour = hour % 12 + 12 * (match[4] == "pm")
    return time(hour, int(match[2]), int(match[3] or 0))


def _day(word: str, today: date) -> date | None:
    if word in ("today", "tomorrow"):
        return today + timedelta(days=word == "tomorrow")
    if match := re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", word):
        return date(int(match[1]), int(match[2]), int(match[3]))
    match = re.fullmatch(r"([0-9]{2})[/.]?([0-9]{2})(?:[/.]?([0-9]{2}))?", word)
    if not match:
        return None
    month, day_of_month = int(match[1]), int(match[2])
    if match[3]:
        return date(2000 + int(match[3]), month, day_of_month)
    this_year = date(today.year, month, day_of_month)
    return this_year if this_year >= today else this_year.replace(year=today.year + 1)
