"""The best heuristic that a search over all knobs found.

The setting is in `data/tuned.json` with the command that found it and its gain on workloads that
the search has not seen. `flyball bench tune-heuristics --out mine.json` searches one for other
scenarios; `--policy tuned:mine.json` uses it. `--policy tuned:before` is the setting that was
shipped before this one (`data/tuned_before.json`).
"""

from __future__ import annotations

import json
from importlib.resources import files

from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs
from flyball.schedule.policies.preset import Preset

FORMAT = 1


def parse_tuned(text: str, where: str) -> Knobs:
    """Parse the knobs in a file that `bench tune-heuristics` wrote.

    Knobs that the file does not name take their default, so that old files work with new knobs.

    Args:
        text: JSON.
        where: the file name, for messages.

    Raises:
        BadInput: not such a file, an unknown knob, or a value that does not fit.
    """
    remedy = "make one with `flyball bench tune-heuristics --out`"
    try:
        content = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{where} is not JSON: {error}", remedy) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BadInput(f"{where} is not a tuned setting of format {FORMAT}", remedy)
    knobs = content.get("knobs")
    if not isinstance(knobs, dict):
        raise BadInput(f"{where} has no 'knobs'", remedy)
    try:
        return Knobs().with_settings([f"{name}={value}" for name, value in knobs.items()])
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None


def _shipped(file: str) -> Knobs:
    text = files("flyball").joinpath("data", file).read_text("utf-8")
    return parse_tuned(text, f"data/{file}")


POLICY = Preset(
    name="tuned",
    summary="the best setting a search over all knobs found; see data/tuned.json",
    knobs=_shipped("tuned.json"),
)

BEFORE = _shipped("tuned_before.json")
"""The setting of `tuned` until it was last tuned again."""
