"""Steps training runs epoch by epoch: the twin under a policy, and beside it under the incumbent.

    batch = GovernBatch(8, GovernSettings(), seed=1)
    observations = batch.reset_all()
    step = batch.step(strategies, residuals)

It knows nothing of gymnasium; `govern_env.py` puts its face on it. All twins, those of the policy
and those of the incumbent, are stepped by one call of `step_many`, on both cores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput
from flyball.core.units import to_us
from flyball.learn.env.caps import cap_running
from flyball.learn.env.memory import Memory, Outside
from flyball.learn.env.pattern import DISPERSION, PATTERN_ROW, pattern_of_many
from flyball.learn.env.problems import Domain, Problem, draw_problem
from flyball.learn.env.spaces import (
    INCUMBENT,
    PRIORITIES,
    RESIDUALS,
    SIZE,
    ActionRows,
    Floats,
    Ints,
    Vector,
    residual_mask,
    strategy_mask,
)
from flyball.twin.stepping.desk import rows_of
from flyball.twin.stepping.fields import GAINS, OBSERVATION_SIZE
from flyball.twin.stepping.many import step_many
from flyball.twin.twin import Twin

GAIN = {field.name: at for at, field in enumerate(GAINS)}
ALPHA, BETA, GAMMA, MONEY, CARBON = (
    PRIORITIES.index(name) for name in ("alpha", "beta", "gamma", "money", "carbon")
)
SHORTEST_S, LONGEST_S = 300.0, 1_800.0
TERMS = ("throughput", "energy", "balance")
"""Parts of the reward, in the order of `Step.terms`."""


@dataclass(frozen=True)
class GovernSettings:
    """Holds what an episode is like.

    Attributes:
        epoch_s: virtual time between two actions, 5 to 30 minutes.
        epochs: length of an episode.
        burn_in: epochs under the incumbent before it, at most; their number is drawn.
        tail: epochs under the incumbent after it, whose rewards the last step gets: what a policy
            leaves behind is charged to it.
        resync: epochs after which the incumbent's run is cloned anew from the policy's; 0 = only
            when the episode begins, so that rewards add up to the difference of the two runs.
            With 1 a reward compares one epoch from the same state, and does not see what a choice
            costs later.
        domain: what problems are drawn from.
        threads: of the stepping.
    """

    epoch_s: float = 600.0
    epochs: int = 144
    burn_in: int = 36
    tail: int = 12
    resync: int = 0
    domain: Domain = field(default_factory=Domain)
    threads: int = 2

    def __post_init__(self) -> None:
        if not SHORTEST_S <= self.epoch_s <= LONGEST_S:
            raise BadInput(
                f"an epoch of {self.epoch_s:g} s is out of range",
                f"use {SHORTEST_S:g} to {LONGEST_S:g} s",
            )
        for name, least in (("epochs", 1), ("burn_in", 0), ("tail", 0), ("resync", 0)):
            if getattr(self, name) < least:
                raise BadInput(f"{name} = {getattr(self, name)}", f"use {least} or more")


class Step(NamedTuple):
    """Holds what an epoch brought, a row per run.

    Attributes:
        observations: at its end.
        rewards: weighted sums of the terms.
        terminated: every job is final.
        truncated: the episode is over by its length.
        terms: of the reward, unweighted: `TERMS`.
        gains, incumbents: totals of the epoch under the policy and under the incumbent
            (`stepping.fields.GAINS`).
    """

    observations: Vector
    rewards: Vector
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    terms: Floats
    gains: Floats
    incumbents: Floats


class GovernBatch:
    """Runs episodes side by side.

    Attributes:
        settings: of the episodes.
        problems: what each run is of.
        pools: kinds of nodes of each run.
    """

    def __init__(self, runs: int, settings: GovernSettings, seed: int = 0) -> None:
        self.settings = settings
        self._rngs = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(runs)]
        self.problems: list[Problem] = [None] * runs  # type: ignore[list-item]
        self._twins: list[Twin] = [None] * runs  # type: ignore[list-item]
        self._clones: list[Twin] = [None] * runs  # type: ignore[list-item]
        self._outside: list[Outside] = [None] * runs  # type: ignore[list-item]
        self._memory = Memory(runs, settings.epoch_s)
        self._now = np.zeros(runs, np.int64)
        self._epoch = np.zeros(runs, np.int64)
        self._packed: Any = ActionRows(np.zeros(runs), np.zeros((runs, len(RESIDUALS)))).packed
        self._totals = np.zeros((runs, len(GAINS)))  # of the incumbent since the episode began
        self._priorities = np.zeros((runs, len(PRIORITIES)))
        self.pools = np.zeros(runs, np.int64)

    def __len__(self) -> int:
        return len(self._twins)

    # Episodes ---------------------------------------------------------------------------

    def reseed(self, run: int, seed: int) -> None:
        """Draw this run's problems from a seed."""
        self._rngs[run] = np.random.default_rng(seed)

    def rng(self, run: int) -> np.random.Generator:
        """Return the generator that a run's problems are drawn with."""
        return self._rngs[run]

    def reset_all(self) -> Vector:
        """Begin every episode anew; return the observations."""
        return np.stack([self.reset(run) for run in range(len(self))])

    def reset(self, run: int, problem: Problem | None = None) -> Vector:
        """Begin an episode; return its first observation.

        Args:
            run: its number.
            problem: None = drawn.
        """
        rng = self._rngs[run]
        if problem is None:
            problem = draw_problem(self.settings.domain, rng)
        twin = Twin(problem.cluster, problem.workload, INCUMBENT, problem.effects)
        self.problems[run], self._twins[run] = problem, twin
        origin_us = problem.workload.origin_us
        self._outside[run] = Outside(
            *(
                signal and signal.on_clock(origin_us)
                for signal in (problem.cluster.price, problem.cluster.carbon)
            )
        )
        self._priorities[run] = problem.priorities
        self.pools[run] = len(twin.state.pools)
        self._now[run] = twin.state.clock["start_us"][0]
        self._memory.reset(run)
        self._packed[run] = INCUMBENT.pack()[0]
        self._epoch[run], self._totals[run] = 0, 0.0
        burn_in = int(rng.integers(self.settings.burn_in + 1))
        seen = self._look([run])
        for _ in range(burn_in):
            if twin.finished:
                break
            steps = self._run_on([twin], [run])
            self._totals[run] += steps.gains[0]
            seen = self._look([run], steps.observations)
        self._totals[run] /= max(1, burn_in)
        self._clones[run] = twin.clone()
        first: Vector = seen[0]
        return first

    def step(self, strategies: npt.ArrayLike, residuals: npt.ArrayLike) -> Step:
        """Let every run go an epoch further.

        Args:
            strategies: an index per run.
            residuals: a row of -1..1 each.
        """
        if self._twins[0] is None:
            raise BadInput("no episode has begun", "call reset_all() first")
        runs = len(self)
        rows = self._rows(ActionRows(strategies, residuals))
        steps = self._run_on([*self._twins, *self._clones], [*range(runs), *range(runs)], rows)
        self._epoch += 1
        gains, incumbents = steps.gains[:runs], steps.gains[runs:]
        pattern = self._patterns([*self._twins, *self._clones], np.tile(self._now, 2))
        terms = self._terms(gains, incumbents, pattern[:, DISPERSION])
        terminated = steps.finished[:runs] & steps.finished[runs:]
        truncated = (self._epoch >= self.settings.epochs) & ~terminated
        observations = self._observe(np.arange(runs), steps.observations[:runs], pattern[:runs])
        for run in np.flatnonzero(truncated).tolist():
            terms[run] += self._tail(run)
        if self.settings.resync:
            for run in np.flatnonzero(self._epoch % self.settings.resync == 0).tolist():
                self._clones[run] = self._back_to_incumbent(run)
        weights = self._priorities[:, [ALPHA, BETA, GAMMA]]
        rewards = (terms * weights).sum(axis=1).astype(np.float32)
        return Step(
            observations, rewards, terminated, truncated, terms, gains.copy(), incumbents.copy()
        )

    def masks(self, run: int) -> dict[str, npt.NDArray[np.bool_]]:
        """Return which strategies and residuals change anything in a run."""
        pools = int(self.pools[run])
        return {
            "strategies": strategy_mask(pools),
            "residuals": np.stack([residual_mask(s, pools) for s in range(len(strategy_mask(1)))]),
        }

    # Inside ---------------------------------------------------------------------------

    def _rows(self, actions: ActionRows) -> ActionRows:
        """Return the settings of the policy's twins and the clones', changed where they differ."""
        runs = len(self)
        both = ActionRows(
            np.concatenate([actions.strategies, np.zeros(runs, np.int64)]),
            np.concatenate([actions.residuals, np.zeros_like(actions.residuals)]),
        )
        before = self._packed
        both.changes[:runs] = both.packed[:runs] != before
        both.changes[runs:] = False  # a clone keeps the incumbent's knobs
        levels = np.where(
            both.packed["cap"][:runs] != before["cap"], both.packed["cap"][:runs], -1
        ).astype(np.int64)
        cap_running(self._twins, levels, self._now)
        self._packed = both.packed[:runs].copy()
        return both

    def _run_on(self, twins: list[Twin], runs: list[int], rows: ActionRows | None = None) -> Any:
        """Step some twins to the ends of their runs' epochs."""
        until = self._now[runs] + to_us(self.settings.epoch_s)
        steps = step_many(twins, rows, until_us=until, threads=self.settings.threads)
        self._now[runs] = until
        return steps

    def _patterns(self, twins: list[Twin], now_us: Ints) -> Floats:
        out = np.zeros((len(twins), PATTERN_ROW))
        pattern_of_many(rows_of([twin.desk for twin in twins]), now_us, out)
        return out

    def _look(self, runs: list[int], cluster: Floats | None = None) -> Vector:
        """Observe some runs as they are now."""
        twins = [self._twins[run] for run in runs]
        if cluster is None:
            cluster = np.stack([twin.observe() for twin in twins])
        assert cluster.shape[1] == OBSERVATION_SIZE
        return self._observe(np.array(runs), cluster, self._patterns(twins, self._now[runs]))

    def _observe(self, runs: Ints, cluster: Floats, pattern: Floats) -> Vector:
        outside = np.stack(
            [self._outside[run].numbers(int(self._now[run])) for run in runs.tolist()]
        )
        seen = self._memory.observe(runs, cluster, pattern, outside, self._priorities[runs])
        assert seen.shape == (len(runs), SIZE)
        return seen

    def _tail(self, run: int) -> Floats:
        """Return the terms of the epochs after an episode, both runs under the incumbent."""
        pair = [self._back_to_incumbent(run), self._clones[run].clone()]
        now = int(self._now[run])
        total = np.zeros(len(TERMS))
        for epoch in range(self.settings.tail):
            until = now + (epoch + 1) * to_us(self.settings.epoch_s)
            steps = step_many(pair, None, until_us=until, threads=self.settings.threads)
            gains, incumbents = steps.gains[:1], steps.gains[1:]
            total += self._weighed([run], gains, incumbents, np.zeros(1))[0]
            if steps.finished.all():
                break
        return total

    def _back_to_incumbent(self, run: int) -> Twin:
        """Return a copy of a policy's twin that goes on under the incumbent."""
        twin, packed = self._twins[run].clone(), INCUMBENT.pack()
        if self._packed[run] != packed[0]:  # equal knobs are not no knobs
            cap_running([twin], packed["cap"].astype(np.int64), self._now[[run]])
            twin.set_knobs(INCUMBENT)
        return twin

    def _terms(self, gains: Floats, incumbents: Floats, dispersion: Floats) -> Floats:
        """Return the terms of an epoch, and add it to the incumbent's totals."""
        runs = len(self)
        self._totals += incumbents
        better = dispersion[runs:] - dispersion[:runs]
        return self._weighed(list(range(runs)), gains, incumbents, better)

    def _weighed(
        self, runs: list[int], gains: Floats, incumbents: Floats, balance: Floats
    ) -> Floats:
        """Return the terms: what the policy saved, in parts of what the incumbent spends an epoch.

        throughput: time in the system (jobs x s), by Little's law the mean time from submission
        to end, jobs still there included. energy: money, carbon or energy by the priorities, at
        equal work: work that the policy is behind counts at the incumbent's cost of work.
        balance: how much less the nodes' use differs, at the end of the epoch.
        """
        epochs = (self._totals[runs, GAIN["elapsed_s"]] / self.settings.epoch_s)[:, None]
        usual = np.maximum(self._totals[runs] / np.maximum(epochs, 1.0), 1e-9)
        saved = incumbents - gains
        presence = GAIN["presence_s"]
        throughput = saved[:, presence] / np.maximum(usual[:, presence], self.settings.epoch_s)
        behind = saved[:, GAIN["work_s"]] / usual[:, GAIN["work_s"]]
        behind = np.where(usual[:, GAIN["work_s"]] > 1.0, behind, 0.0)
        energy = np.zeros(len(runs))
        money, carbon = self._priorities[runs, MONEY], self._priorities[runs, CARBON]
        shares = {"money": money, "carbon_g": carbon, "energy_j": 1.0 - money - carbon}
        for name, share in shares.items():
            relative = saved[:, GAIN[name]] / usual[:, GAIN[name]]
            energy += np.where(share > 0.0, share * (relative - behind), 0.0)
        return np.stack([throughput, energy, balance], axis=1)
