"""The composition root: from settings to objects. The only file that names concrete classes."""

from __future__ import annotations

from dataclasses import dataclass

from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.knobs import Knobs
from flyball.core.protocols import Allocator
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy, names
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

    Raises:
        BadInput: an unknown policy or knob, or a value out of range.
    """
    wanted = [each.strip() for each in text.split(",") if each.strip()]
    chosen = names() if wanted == ["all"] or not wanted else list(dict.fromkeys(wanted))
    policies = [get_policy(each) for each in chosen]
    return [
        PolicySetting(each.name, each.knobs.with_settings(settings), each.allocator)
        for each in policies
    ]


def build_twin(
    cluster: Cluster, workload: Workload, policy: PolicySetting, effects: Effects
) -> Twin:
    """The cluster's twin before the first submission.

    Raises:
        BadInput: a job that no node can ever hold, or no job at all.
    """
    return Twin(cluster, workload, policy.knobs, effects, policy.allocator)
