"""The registry of policies: one line each, loaded on demand.

A policy is a file in this folder with a `POLICY`. Other packages add theirs under the
entry-point group `flyball.policies` (name -> `module:attribute`).
"""

from __future__ import annotations

from flyball.core.errors import UnknownName
from flyball.core.plugins import load, loadable, outside
from flyball.schedule.policies.preset import Preset

GROUP = "flyball.policies"
BUILT_IN = {
    "fifo": "flyball.schedule.policies.fifo:POLICY",
    "fifo-skip": "flyball.schedule.policies.fifo_skip:POLICY",
    "easy": "flyball.schedule.policies.easy:POLICY",
    "sjf": "flyball.schedule.policies.sjf:POLICY",
    "saf": "flyball.schedule.policies.saf:POLICY",
    "srtf": "flyball.schedule.policies.srtf:POLICY",
    "las": "flyball.schedule.policies.las:POLICY",
    "ect": "flyball.schedule.policies.ect:POLICY",
    "fifo-fast": "flyball.schedule.policies.fifo_fast:POLICY",
    "max-min": "flyball.schedule.policies.max_min:POLICY",
    "max-min-het": "flyball.schedule.policies.max_min_het:POLICY",
    "finish-time-fair": "flyball.schedule.policies.finish_time_fair:POLICY",
    "min-makespan": "flyball.schedule.policies.min_makespan:POLICY",
    "max-throughput": "flyball.schedule.policies.max_throughput:POLICY",
    "max-speed": "flyball.schedule.policies.max_speed:POLICY",
    "fair": "flyball.schedule.policies.fair:POLICY",
    "tiresias": "flyball.schedule.policies.tiresias:POLICY",
    "qssf": "flyball.schedule.policies.qssf:POLICY",
    "fgd": "flyball.schedule.policies.fgd:POLICY",
    "tuned": "flyball.schedule.policies.tuned:POLICY",
}


def names() -> list[str]:
    """Return every policy's name: the built-in ones first, in the order of `BUILT_IN`."""
    return [*BUILT_IN, *sorted(set(_outside()) - set(BUILT_IN))]


def get_policy(name: str) -> Preset:
    """Return the policy of this name.

    Raises:
        UnknownName: there is none of this name.
        BrokenPlugin: a policy of another package does not load.
    """
    preset: Preset = load("policy", name, location(name), GROUP, _wrong)
    return preset


def loadable_policies() -> dict[str, Preset]:
    """Return every policy that can be loaded; warns of those of other packages that cannot."""
    return loadable(names(), get_policy)


def _wrong(value: object) -> str:
    return "" if isinstance(value, Preset) else "is not a policy preset"


def location(name: str) -> str:
    """Return where the policy is: `module:attribute`.

    Raises:
        UnknownName: there is none of this name.
    """
    where = BUILT_IN.get(name) or _outside().get(name)
    if where is None:
        raise UnknownName("policy", name, names())
    return where


def _outside() -> dict[str, str]:
    return outside(GROUP)
