"""The kinds of policies that can be trained, and what makes their trainers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flyball.core.errors import BadInput, UnknownName
from flyball.learn.policy.artifact import read
from flyball.learn.rivals.affine import widened
from flyball.learn.training.bandits import BanditTrainer
from flyball.learn.training.folder import POLICY, RunFolder, read_settings
from flyball.learn.training.sources import History
from flyball.learn.training.trainers import Evolving, Setup, Trainer

if TYPE_CHECKING:
    from flyball.learn.nets import Rule


class Kind(NamedTuple):
    """Describes a kind of policy.

    Attributes:
        about: what it is, in a line.
        needs_torch: to train it; nothing needs it to be served.
        changes: to the agent's settings; None = it is no agent.
    """

    about: str
    needs_torch: bool = False
    changes: dict[str, Any] | None = None


KINDS = {
    "fixed": Kind("one setting, whatever is seen: the heuristic tuned again, by evolution"),
    "rule": Kind("cap and sleep follow price, carbon and load; all else is one tuned setting"),
    "linear": Kind("every knob may follow every feature, by evolution"),
    "mlp": Kind("the same through a small hidden layer, by evolution"),
    "bandit": Kind("contextual bandit (LinUCB) over a few settings"),
    "dqn": Kind("deep Q-network: strategies only", True, {"kind": "dqn"}),
    "pg": Kind("policy gradient: strategy and residuals", True, {"kind": "pg"}),
    "hybrid": Kind("deep Q-network and policy gradient in one net", True, {"kind": "hybrid"}),
    "hybrid-mlp": Kind(
        "the hybrid without convolution and LSTM", True, {"kind": "hybrid", "body": "mlp"}
    ),
}


@dataclass(frozen=True)
class Options:
    """What a trainer is made with, besides what all share.

    Attributes:
        kind: a name in `KINDS`.
        start: folder of a run whose policy is begun with: fixed, rule or linear; "" = the
            incumbent.
        population, problems: of evolution: policies in a generation, problems each runs.
        spread: of evolution: standard deviation of every number at first.
        warm: the agent imitates look-ahead first.
        agent: changes to the agent's settings.
    """

    kind: str
    start: str = ""
    population: int = 16
    problems: int = 12
    spread: float = 0.25
    warm: bool = True
    agent: tuple[tuple[str, Any], ...] = ()


def find_kind(name: str) -> Kind:
    """Return a kind.

    Raises:
        UnknownName: there is none of that name.
    """
    if name not in KINDS:
        raise UnknownName("kind of policy", name, KINDS)
    return KINDS[name]


def make_trainer(setup: Setup, options: Options) -> Trainer:
    """Return a trainer of a kind, which has learned nothing."""
    kind = find_kind(options.kind)
    if kind.changes is not None:
        from flyball.learn.agent import Settings
        from flyball.learn.training.agents import AgentTrainer

        changes: dict[str, Any] = {**dict(options.agent), **kind.changes}
        rule = _rule(Path(options.start)) if options.start else None
        return AgentTrainer(setup, replace(Settings(), **changes), options.warm, rule)
    if options.kind == "bandit":
        if options.start:
            raise BadInput("kind bandit begins by itself", "leave --start out")
        return BanditTrainer(setup)
    start = _start(options) if options.start else None
    return Evolving(
        setup, options.kind, options.population, options.problems, options.spread, start
    )


def _start(options: Options) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the numbers of another run's policy, in this kind's form."""
    path = Path(options.start)
    settings = read_settings(path)
    saved = RunFolder(path, settings).load()
    if saved is None or "mean" not in saved.arrays:
        raise BadInput(f"{path} holds no run of evolution", "name one of kind fixed or rule")
    if options.kind == "mlp":
        raise BadInput("kind mlp has a layer more, and begins by itself", "leave --start out")
    return widened(str(saved.values["form"]), saved.arrays["mean"], options.kind)


def _rule(path: Path) -> Rule:
    """Return what a run's policy adds up to, for an agent to begin with."""
    read_settings(path)  # refuses what is no run
    from flyball.learn.nets import Rule

    tensors = read(path / POLICY).tensors
    if "rule.weight" in tensors or "conv1.weight" in tensors or "hidden0.weight" in tensors:
        raise BadInput(
            f"the policy of {path} is no weighted sum of what is seen",
            "name a run of kind fixed, rule or linear",
        )
    weight, bias = (
        np.concatenate([tensors[f"advantage.{part}"], tensors[f"mean.{part}"]])
        for part in ("weight", "bias")
    )
    return Rule(weight, bias)


def settings_of(setup: Setup, options: Options, problems: int) -> dict[str, Any]:
    """Return what a run depends on, to be kept in its folder."""
    return {
        "kind": options.kind, "seed": setup.seed, "epoch_s": setup.epoch_s,
        "limits": dict(setup.limits), "source": setup.source.about(), "start": options.start,
        "population": options.population, "problems": options.problems,
        "spread": options.spread, "warm": options.warm, "agent": dict(options.agent),
        "validation": problems,
        "history": isinstance(setup.source, History),
    }  # fmt: skip
