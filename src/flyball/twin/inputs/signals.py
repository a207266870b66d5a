"""Price and carbon intensity as cluster files state them.

    price: 0.25                                      # constant
    price: [0.21, 0.20, ...]                         # 24 (48, 96) values of a day, from midnight
    price: {daily: [...], zone: "+01:00"}            # likewise by local time
    price: {weekly: [...]}                           # 168 (336, 672) values from Monday, midnight
    price:                                           # a CSV file, plain or gzipped, by date
      file: day_ahead.csv.gz                         # relative to the cluster file
      column: price                                  # may be left out if there is only one
      time: time_local                               # likewise
      region: DE                                     # rows with this value of the region's column
      per: MWh                                       # of the file's price; kWh unless stated
      zone: Europe/Berlin                            # of its times; UTC unless stated
      from: 2016-03-07                               # day of time 0 of a trace without dates
      known_ahead_h: day-ahead                       # or hours, up to which its future is public

Times are ISO dates, or numbers: seconds since 1970, or from the trace's time 0 if they begin below
1e8. A row holds until the next one; a row without a value is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.signals import DAY_US, HOUR_US, PER_DAY, WEEK_US, DayAhead, Signal
from flyball.core.units import US_PER_S
from flyball.twin.inputs.checked import kind_of, mapping, named_text, number, show
from flyball.twin.inputs.signal_file import LEAST, MOST, read_steps

FILE_KEYS = ("file", "column", "time", "region", "per", "zone", "from", "known_ahead_h")
PROFILE_KEYS = ("daily", "weekly", "zone")
PER = {"kWh": 1.0, "MWh": 0.001}
DAY_AHEAD = "day-ahead"
FORMS = "a number, a list of a day's values, {daily: [...]}, {weekly: [...]} or {file: ...}"


def parse_signal(content: Any, key: str, where: str, folder: Path) -> Signal:
    """Return the signal that a cluster file states.

    Args:
        content: what the file has under the key.
        key: `price` or `carbon`.
        where: the place, for messages.
        folder: the folder of files that it names.

    Raises:
        BadInput: anything else than the forms above.
    """
    if isinstance(content, list):
        return _profile({"daily": content}, where)
    if not isinstance(content, dict):
        return Signal.flat(number({key: content}, key, where, 0.0, LEAST, MOST))
    if "daily" in content or "weekly" in content:
        return _profile(mapping(content, where, PROFILE_KEYS), where)
    fields = mapping(content, where, FILE_KEYS)
    if "file" not in fields:
        raise BadInput(f"{where} has no 'file'", f"use {FORMS}")
    return read_signal(folder / named_text(fields, "file", where, ""), fields, where)


def _profile(fields: Mapping[str, Any], where: str) -> Signal:
    """Return a profile that repeats every day or week."""
    if "daily" in fields and "weekly" in fields:
        raise BadInput(f"{where} has both daily and weekly values", "leave one out")
    name, days = ("daily", 1) if "daily" in fields else ("weekly", 7)
    values, counts = fields[name], [days * count for count in PER_DAY]
    if not isinstance(values, list) or len(values) not in counts:
        size = len(values) if isinstance(values, list) else kind_of(values)
        raise BadInput(f"{where}: {name} has {size} values", f"use {_listed(counts)}")
    checked = [number({"value": value}, "value", where, 0.0, LEAST, MOST) for value in values]
    zone = zone_of(fields.get("zone", "UTC"), where)
    low_us, high_us = _offsets_us(zone)
    if low_us != high_us:
        raise BadInput(
            f"{where}: {fields['zone']} has summer time, and a {name} profile repeats unchanged",
            'state a fixed offset, e.g. zone: "+01:00"',
        )
    return Signal.profile(checked, DAY_US if days == 1 else WEEK_US, low_us)


def _listed(counts: Sequence[int]) -> str:
    return f"{', '.join(map(str, counts[:-1]))} or {counts[-1]}"


# Zones ----------------------------------------------------------------------------


def zone_of(text: Any, where: str) -> tzinfo:
    """Return a time zone by its name or fixed offset (`+01:00`).

    Raises:
        BadInput: there is no such zone.
    """
    offset = re.fullmatch(r"([+-])(\d\d):?(\d\d)", str(text))
    if offset:
        sign = -1 if offset[1] == "-" else 1
        return timezone(sign * timedelta(hours=int(offset[2]), minutes=int(offset[3])))
    if str(text).upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(str(text))
    except (ValueError, OSError, LookupError) as error:  # what zoneinfo raises on a bad name
        raise BadInput(
            f"{where}: no time zone {show(text)}", 'name one such as Europe/Berlin, or "+01:00"'
        ) from error


def _offsets_us(zone: tzinfo) -> tuple[int, int]:
    """Return the least and the greatest difference of local time to UTC."""
    days = (datetime(2020, month, 1, tzinfo=zone) for month in (1, 7))
    offsets = [round((day.utcoffset() or timedelta()).total_seconds()) * US_PER_S for day in days]
    return min(offsets), max(offsets)


def _known_ahead(value: Any, zone: tzinfo, where: str) -> int | DayAhead:
    """Return up to when the series' future is public."""
    if value == DAY_AHEAD:
        # Summer's midnight and winter's hour of publication: never earlier than the market.
        low_us, high_us = _offsets_us(zone)
        return DayAhead(DayAhead.hour + (high_us - low_us) // HOUR_US, high_us)
    if isinstance(value, str):
        raise BadInput(f"{where}: known_ahead_h = {show(value)}", f"use hours, or {DAY_AHEAD}")
    hours = number({"known_ahead_h": value}, "known_ahead_h", where, 0.0, 0.0, 1e6)
    return round(hours * HOUR_US)


# Files ----------------------------------------------------------------------------


def read_signal(path: Path, fields: Mapping[str, Any], where: str) -> Signal:
    """Read a dated series from a file.

    Args:
        path: the file.
        fields: the keys of the module's example, checked to be among them.
        where: the place that names the file, for messages.

    Raises:
        BadInput: no such file or column, a value that is not a number, times out of order.
    """
    zone = zone_of(fields.get("zone", "UTC"), where)
    per = fields.get("per", "kWh")
    if per not in PER:
        raise BadInput(f"{where}: per = {show(per)}", "use kWh or MWh")
    steps = read_steps(path, fields, zone, where)
    origin_us = 0 if steps.relative else None
    if "from" in fields:
        origin_us = _origin_us(fields["from"], zone, where)
    return Signal.series(
        steps.name,
        np.array(steps.times_us, np.int64),
        np.array(steps.values, np.float64) * PER[per],
        origin_us,
        _known_ahead(fields.get("known_ahead_h", 0), zone, where),
        tuple(f"{steps.name}: {note}" for note in steps.notes),
    )


def _origin_us(value: Any, zone: tzinfo, where: str) -> int:
    """Return the instant that `from` states."""
    try:
        if isinstance(value, date):
            instant = value if isinstance(value, datetime) else datetime(*value.timetuple()[:3])
        else:
            instant = datetime.fromisoformat(str(value))
    except ValueError:
        raise BadInput(f"{where}: from = {show(value)} is not a day", "e.g. 2016-03-07") from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=zone)
    return round(instant.timestamp() * US_PER_S)
