"""The composition root: from settings to objects. The only file that names concrete classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs
from flyball.core.protocols import Allocator
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy, names
from flyball.schedule.policies.tuned import parse_tuned
from flyball.twin.twin import Twin, warm

__all__ = ["PolicySetting", "Twin", "build_twin", "policy_settings", "warm"]


@dataclass(frozen=True)
class PolicySetting:
    """A policy's name, its knobs with the user's settings applied, and what sets its shares."""

    name: str
    knobs: Knobs
    allocator: Allocator | None = None


def policy_settings(text: str, settings: list[str]) -> list[PolicySetting]:
    """The policies of a comma-separated list (`all` = every one), each with `settings`.

    `tuned:FILE` is the setting that `flyball bench tune-heuristics` wrote to that file.

    Raises:
        BadInput: an unknown policy or knob, or a value out of range.
    """
    wanted = [each.strip() for each in text.split(",") if each.strip()]
    listed = [names() if each == "all" else [each] for each in wanted or ["all"]]
    chosen = dict.fromkeys(name for each in listed for name in each)
    return [_setting(name, settings) for name in chosen]


def _setting(name: str, settings: list[str]) -> PolicySetting:
    """A policy of the shelf, or one of knobs in a file (`tuned:FILE`)."""
    kind, colon, path = name.partition(":")
    if kind == "tuned" and colon:
        return PolicySetting(name, _knobs_in(path, name).with_settings(settings))
    policy = get_policy(name)
    return PolicySetting(name, policy.knobs.with_settings(settings), policy.allocator)


def _knobs_in(path: str, policy: str) -> Knobs:
    try:
        return parse_tuned(Path(path).read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        remedy = "name a file that `flyball bench tune-heuristics --out` wrote"
        raise BadInput(f"policy {policy}: {why}", remedy) from None


def build_twin(
    cluster: Cluster, workload: Workload, policy: PolicySetting, effects: Effects
) -> Twin:
    """The cluster's twin before the first submission.

    Raises:
        BadInput: a job that no node can ever hold, or no job at all.
    """
    return Twin(cluster, workload, policy.knobs, effects, policy.allocator)
