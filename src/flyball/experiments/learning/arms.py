"""The arms of a comparison: the incumbent, the rules, what was trained, and sampled look-ahead."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from flyball.app import PolicySetting, build_twin, tuned, tuning_setting
from flyball.core.errors import BadInput
from flyball.learn.env.problems import Problem
from flyball.learn.env.spaces import INCUMBENT as INCUMBENT_KNOBS
from flyball.learn.policy.artifact import read
from flyball.learn.policy.forward import Net
from flyball.learn.policy.governed import GovernedTwin
from flyball.learn.policy.governor import Governor
from flyball.learn.rivals.look_ahead import LookSettings, look_ahead
from flyball.learn.served import load_policy
from flyball.learn.training.folder import KEPT, POLICY, read_settings
from flyball.learn.whole_runs import RunPolicy, RunTotals, totals_of, whole_runs
from flyball.schedule.policies.registry import get_policy

INCUMBENT, MARKET, LOOK_AHEAD, SHIPPED = "incumbent", "power rule", "look-ahead", "learned"
BOUND = "look-ahead, true future"
"""Kind of an arm that tries the same settings in the future as it will be: a bound, no rival."""
GUARDED = "learned, guarded"
"""Kind of an arm that serves a policy file with all its guards, as `replay -p learned` does."""
LOCAL = "learned, local"
"""The same with the local phase, which gives each running job a cap of its own."""
MARKET_RULE = (
    *("power.slowdown=0.25", "power.spare=0", "power.follow=1", "power.deepest=0.5"),
)  # fmt: skip
"""The cap-and-sleep rule of `bench tune --only signals`; no job here may be deferred."""
MARKET_EVERY_S = 600.0
TRUE_FUTURE = LookSettings(true_future=True, horizon=48)
HEURISTICS = ("fixed", "rule", MARKET)
"""Kinds of arms that count as heuristics: the best of them is what learning has to beat."""


@dataclass(frozen=True)
class Arm:
    """One way to govern a run.

    Attributes:
        name: unique.
        kind: of `training.kinds.KINDS`, or one of the names above.
        path: of a policy file or of a training run; "" = none is needed.
        digest: of what it decides by, for files that keep runs.
        limit: it runs on so many instances only; 0 = on all.
    """

    name: str
    kind: str
    path: str = ""
    digest: str = ""
    limit: int = 0

    @property
    def is_heuristic(self) -> bool:
        """Whether it counts as a re-tuned heuristic."""
        return self.kind in HEURISTICS


def standing_arms(look_aheads: int) -> list[Arm]:
    """Return the arms that need no training.

    Args:
        look_aheads: instances that sampled look-ahead runs on; 0 = leave it out.
    """
    arms = [Arm(INCUMBENT, INCUMBENT), Arm(MARKET, MARKET, digest=" ".join(MARKET_RULE))]
    if look_aheads:
        arms.append(Arm(LOOK_AHEAD, LOOK_AHEAD, digest=repr(LookSettings()), limit=look_aheads))
        arms.append(Arm(BOUND, BOUND, digest=repr(TRUE_FUTURE), limit=look_aheads))
    return arms


def trained_arms(folder: Path) -> list[Arm]:
    """Return an arm for every training run below a folder that has kept a policy.

    Raises:
        BadInput: there is none.
    """
    arms = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        kept = next((path / name for name in (POLICY, KEPT) if (path / name).exists()), None)
        if kept is not None:
            digest = hashlib.sha256(kept.read_bytes()).hexdigest()[:16]
            arms.append(Arm(path.name, str(read_settings(path)["kind"]), str(path), digest))
    if not arms:
        raise BadInput(f"{folder} holds no training run with a policy", "train one; see --help")
    return arms


def file_arm(name: str, path: Path) -> Arm:
    """Return the arm of a policy file.

    Raises:
        BadInput: it cannot be served.
    """
    load_policy(path)
    card = json.loads(path.with_suffix(".json").read_text("utf-8"))
    kind = str(card.get("made", {}).get("kind", SHIPPED))
    return Arm(name, kind, str(path), str(card["sha256"])[:16])


def served_arms(arm: Arm) -> list[Arm]:
    """Return the arms of the same policy file, served with its guards: in one phase and in two."""
    return [
        Arm(f"{arm.name}, guarded", GUARDED, arm.path, arm.digest),
        Arm(f"{arm.name}, local", LOCAL, arm.path, arm.digest),
    ]


def run_arm(arm: Arm, problem: Problem, epoch_s: float) -> RunTotals:
    """Run a problem to its end under an arm."""
    if arm.kind == MARKET:
        return _replayed(market_policy(), problem)
    if arm.kind in (GUARDED, LOCAL):
        return _served(arm, problem)
    if arm.kind in (LOOK_AHEAD, BOUND):
        settings = TRUE_FUTURE if arm.kind == BOUND else LookSettings()
        return look_ahead([problem], settings, epoch_s, problem.seed)[0][0]
    policy = _policy(arm.path) if arm.path else None
    return whole_runs([(problem, policy)], epoch_s, threads=1)[0]


def arms_named(arms: Sequence[Arm], kind: str) -> list[Arm]:
    """Return the arms of a kind: several seeds of it, perhaps."""
    return [arm for arm in arms if arm.kind == kind]


@lru_cache(maxsize=64)
def _policy(path: str) -> RunPolicy:
    return load_policy(Path(path))


def market_policy() -> PolicySetting:
    """Return the incumbent with the tuner `power`, without moves, which exclude tuners."""
    base = PolicySetting("tuned", get_policy("tuned").knobs.with_settings(["move_s=0"]))
    return tuned(base, tuning_setting("power", list(MARKET_RULE), MARKET_EVERY_S))


def _replayed(policy: PolicySetting, problem: Problem) -> RunTotals:
    """Run a problem as `flyball replay` would."""
    twin = build_twin(problem.cluster, problem.workload, policy, problem.effects)
    twin.run()
    return totals_of(twin, problem.priorities)


def _served(arm: Arm, problem: Problem) -> RunTotals:
    """Run a problem under a policy with its guards, told what counts here."""
    governor = Governor(Net(read(Path(arm.path))), problem.priorities)
    twin = GovernedTwin(
        governor, problem.cluster, problem.workload, INCUMBENT_KNOBS, problem.effects,
        local=arm.kind == LOCAL,
    )  # fmt: skip
    twin.run()
    return totals_of(twin, problem.priorities)
