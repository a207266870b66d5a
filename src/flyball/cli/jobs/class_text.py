"""A job's workload class and the settings that come with it, as text for `show` and `why`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flyball.cli.formats import clean

NOT_FOLLOWED = {
    "off": "this system does not follow classes (flyball up --pathways)",
    "named": "no class is named, so it runs as requested (submit --class NAME)",
}
"""Why a job does not follow the pathway of its class, by the scope of pathways."""


def class_text(about: Mapping[str, Any]) -> str:
    """Return `latency-sensitive, named by its user`, or the facts that it was classified by."""
    name, reason = clean(about["name"]), clean(about["reason"])
    if about["named"]:
        return f"{name}, {reason}"
    return f"{name}, classified: {reason} (confidence {about['confidence']:.2f})"


def setting_lines(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the pathway of its class gives to a job, or why it gives nothing."""
    pathway = clean(about["pathway"])
    if not about["follows"]:
        yield f"pathway {pathway} not followed: {NOT_FOLLOWED.get(about['scope'], '')}"
        return
    if not about["settings"]:
        yield f"pathway {pathway}: nothing of the job itself changes"
    for setting in about["settings"]:
        holds = "" if setting["holds"] else " (no effect)"
        yield f"pathway {pathway}: {clean(setting['text'])}{holds}"


def cluster_text(leads: Mapping[str, Any]) -> str:
    """Return the pathway that the cluster follows, with its knobs and tuners."""
    knobs = [f"{name}={_value(value)}" for name, value in leads["knobs"].items()]
    tuners = [f"tuner {name}" for name in leads["tuners"]]
    return f"pathway {leads['pathway']} leads: {', '.join([*knobs, *tuners]) or 'no change'}"


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
