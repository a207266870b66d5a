"""The twin: simulates a cluster on a virtual clock with the decision code of a live one.

    twin = Twin(cluster, workload, policy.knobs, Effects())
    results = twin.replay()

It also steps (one decision at a time, with any policy), resumes, clones, and dumps and
loads its state.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.cluster import Cluster
from flyball.core.codes import ActionKind, Status
from flyball.core.effects import Effects
from flyball.core.errors import BadInput, FlyballError
from flyball.core.forecast import NO_OUTLOOK, Outlook
from flyball.core.knobs import Knobs, Order
from flyball.core.metrics import WINDOW_BEGINS
from flyball.core.protocols import Allocator, PolicyLike
from flyball.core.records import Records
from flyball.core.results import Mark, Results
from flyball.core.signals import DAY_US
from flyball.core.state import State, assemble, clone
from flyball.core.units import FOREVER_US
from flyball.core.workload import Workload
from flyball.physics.compile import warm as warm_kernels
from flyball.predict.signals import signal_outlook
from flyball.schedule.shares.targets import set_targets
from flyball.tune.seen_speeds import learn_speeds
from flyball.twin import kernel, totals
from flyball.twin.build import build_state
from flyball.twin.outcome import results_of
from flyball.twin.plans import BadPlan, as_plan, broken_action
from flyball.twin.refit import rebuild
from flyball.twin.stepping.knobs import change_knobs
from flyball.twin.stepping.stepped import Stepped
from flyball.twin.stepping.window import Part, fork_state
from flyball.twin.tables.signals import ADDED, signals_of, totals_of, upgraded, without_future
from flyball.twin.tuning import EstimateSource, Tuning

DUMP_FORMAT = 4

__all__ = ["BadPlan", "Twin", "warm"]


class Twin(Stepped):
    """Runs one simulation: a state, a clock and the knobs of the decisions.

    Attributes:
        state: the arrays; read them freely between calls.
        allocator: sets the target shares (order = shares).
        tuning: the tuners that change plans in rounds; None = no tuners.
    """

    _draft: tuple[State, State] | None = None
    """The state, and a copy of it that decisions write on."""

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        knobs: Knobs,
        effects: Effects | None = None,
        allocator: Allocator | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        if knobs.order == Order.SHARES and allocator is None:
            raise BadInput("order=shares needs a policy that sets the shares", "e.g. max-min")
        if tuning is not None:
            tuning.check(knobs)
        self.state = build_state(cluster, workload, knobs, effects or Effects())
        self._price, self._carbon = (
            signal and signal.on_clock(workload.origin_us)
            for signal in (cluster.price, cluster.carbon)
        )
        self.allocator, self.tuning = allocator, tuning
        self._set(knobs)

    def _set(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._packed = knobs.pack()
        self._blank: Records | None = None
        self.part = None
        self._begin_ledger(None)

    def __repr__(self) -> str:
        return f"Twin({self.state!r}, {self.knobs!r})"

    @property
    def now_us(self) -> int:
        """Return the instant last handled."""
        return int(self.state.clock[0].now_us)

    @property
    def finished(self) -> bool:
        """Return whether every job is final."""
        return bool(self.state.clock[0].finished == len(self.state.jobs))

    def run(self, until_us: int | None = None, policy: PolicyLike | None = None) -> None:
        """Handle every instant up to and including `until_us` (all there are, if None).

        Args:
            until_us: the last instant.
            policy: makes every decision; None = the compiled kernel decides by the knobs.
        """
        until = FOREVER_US - 1 if until_us is None else until_us
        self.refuse_beyond(until)
        if policy is not None:
            while self.next_us <= until:
                self.step(policy)
            return
        if self.tuning is not None:
            self._run_tuned(self.tuning, until)
            return
        asks = kernel.run(self.state, self._packed, until, False)
        while asks:
            self._set_targets()
            asks = kernel.run(self.state, self._packed, until, True)

    def _run_tuned(self, tuning: Tuning, until_us: int) -> None:
        """Run with a round of the tuners at every multiple of their interval."""
        while not self.finished:
            round_us = (self.now_us // tuning.every_us + 1) * tuning.every_us
            before_us = min(until_us, round_us - 1)
            if tuning.between:
                kernel.run(self.state, self._packed, before_us, False)
            else:
                kernel.pass_time(self.state, self._packed, before_us)
            if round_us > until_us:
                break
            if not self.finished:
                self._tune(tuning, round_us)

    def _tune(self, tuning: Tuning, now: int) -> None:
        """Run one round of the tuners."""
        kernel.advance_to(self.state, self._packed, now)
        learn_speeds(self.state)
        if tuning.estimates is not None:
            self._estimate(tuning.estimates)
        self._keep_account(now)
        plan = tuning.plan(self.visible(), self._with_signals(NO_OUTLOOK), self._draft_state())
        self._carry_out_round(tuning, plan, now)
        kinds = plan["kind"]
        queued = ((kinds == ActionKind.REPLICAS) | (kinds == ActionKind.RELEASE)).any()
        if queued and not self.finished:  # jobs new in the queue need not wait for an event
            self._carry_out_round(tuning, tuning.policy_plan(self.visible()), now)

    def _draft_state(self) -> State:
        """Return a copy of the state for policies to decide on; its memory is kept for a run."""
        if self._draft is None or self._draft[0] is not self.state:
            self._draft = self.state, clone(self.state)
        return self._draft[1]

    def _estimate(self, source: EstimateSource) -> None:
        """Write new estimates into the jobs, and reorder the queue by them."""
        estimate_us = source(self.visible())
        if not np.array_equal(estimate_us, self.state.jobs.estimate_us):
            self.state.jobs.estimate_us = estimate_us
            self._blank = None
            kernel.rebuild_queue(self.state, self._packed, self._packed)

    def _keep_account(self, now_us: int) -> None:
        """Write what was spent in the running day into the state, if it has a budget."""
        clock = self.state.clock[0]
        if not (clock.money_per_day or clock.carbon_g_per_day):
            return
        energy_j, _, *billed = totals.totals_at(self.state, self._packed, now_us)[1:]
        money, carbon_g = totals_of(self.state, energy_j, *billed)
        if now_us >= clock.day_end_us:
            clock.day_end_us += ((now_us - clock.day_end_us) // DAY_US + 1) * DAY_US
            clock.before_money, clock.before_carbon_g = money or 0.0, carbon_g or 0.0
        clock.spent_money = (money or 0.0) - clock.before_money
        clock.spent_carbon_g = (carbon_g or 0.0) - clock.before_carbon_g

    def _carry_out_round(self, tuning: Tuning, plan: Records, now: int) -> None:
        self._carry_out(plan, now)
        self.state.clock[0].capacity_grew = 1  # pending jobs are tried again
        if tuning.note is not None:
            tuning.note(now, plan)

    def _set_targets(self) -> None:
        """Let the policy set its target shares for the present instant."""
        assert self.allocator is not None
        set_targets(self.state, self.allocator.targets(self.visible()))

    def visible(self) -> State:
        """Return the state as it is known: durations blanked, speeds as guessed, signals as of now.

        Arrays are shared.
        """
        state = self.state
        if self._blank is None:
            self._blank = state.jobs.copy()
            self._blank.work_us = np.nan
        state = without_future(state)
        return state._replace(jobs=self._blank, points=state.guesses, pairs=state.pair_guesses)

    def replay(self, policy: PolicyLike | None = None) -> Results:
        """Run from here to the end, taking the marks that window metrics need.

        Args:
            policy: makes every decision; None = the compiled kernel decides by the knobs.

        Raises:
            FlyballError: the policy leaves jobs waiting for ever, so there is nothing to measure.
        """
        begin_us, end_us = self.window_us()
        self.run(begin_us, policy)
        first = self.mark(begin_us)
        self.run(end_us, policy)
        second = self.mark(end_us)
        self.run(None, policy)
        self._refuse_unfinished()
        return self.results((first, second))

    def _refuse_unfinished(self) -> None:
        """Refuse to measure a run in which jobs still wait though nothing else will happen."""
        runs = self.state.runs
        waiting = np.flatnonzero(runs.status < Status.RUNNING)
        if not len(waiting):
            return
        fresh = int((runs.first_start_us[waiting] < 0).sum())
        jobs = "1 job" if fresh == 1 else f"{fresh:,} jobs"
        aside = len(waiting) - fresh
        more = f", and {aside:,} set aside never went on" if aside else ""
        raise FlyballError(
            f"{jobs} of {len(runs):,} never started{more}: the policy started nothing more, "
            "and nothing else is left to happen",
            "have it start every job that fits on an idle cluster",
        )

    def window_us(self) -> tuple[int, int]:
        """Return the window of the honest metrics: 10 % to 100 % of the arrival span."""
        self._refuse_part("window of all arrivals")
        first, last = int(self.state.jobs.submit_us[0]), int(self.state.jobs.submit_us[-1])
        return first + round(WINDOW_BEGINS * (last - first)), last

    def mark(self, now_us: int) -> Mark:
        """Return running totals at an instant between the last event handled and the next."""
        self._refuse_part("totals of all jobs")
        at_now = totals.totals_at(self.state, self._packed, now_us)
        work_us, energy_j, busy_us, *billed = at_now
        finished = int(self.state.clock[0].finished)
        bill = totals_of(self.state, energy_j, *billed)
        return Mark(now_us, work_us, energy_j, busy_us, finished, *bill)

    # Stepping ---------------------------------------------------------------

    @property
    def next_us(self) -> int:
        """Return when something happens next; FOREVER_US if nothing ever will."""
        return int(kernel.next_us(self.state, self._packed))

    def step(self, policy: PolicyLike, outlook: Outlook = NO_OUTLOOK) -> Records | None:
        """Go to the next instant, let `policy` decide on a snapshot, and carry its plan out.

        Returns:
            The plan, or None if the run is over.

        Raises:
            BadPlan: the plan cannot be carried out; the state must not be used afterwards.
        """
        now = self.next_us
        if now >= FOREVER_US:
            return None
        self.refuse_beyond(now)
        if kernel.advance_to(self.state, self._packed, now):
            self._set_targets()
        plan = as_plan(policy.decide(self.snapshot(), self._with_signals(outlook)), self.state)
        self._carry_out(plan, now)
        return plan

    def _with_signals(self, outlook: Outlook) -> Outlook:
        """Return an outlook with the forecasts of price and carbon at the present instant."""
        return signal_outlook(self._price, self._carbon, self.now_us, outlook)

    def _carry_out(self, plan: Records, now: int) -> None:
        clock = self.state.clock[0]
        clock.decisions += 1
        clock.actions = len(plan)
        self.state.plan[: len(plan)] = plan
        clock.capacity_grew = 0
        broken = kernel.enact_now(self.state, self._packed, now)
        if broken >= 0:
            raise broken_action(self.state, plan, broken)

    def snapshot(self) -> State:
        """Return the state as a policy may see it: a copy, with the true durations blanked."""
        return clone(self.visible())

    # Copies -----------------------------------------------------------------

    def clone(self, into: Twin | None = None) -> Twin:
        """Return an independent twin in the same state.

        Args:
            into: an earlier clone, overwritten without allocating memory.
        """
        twin = Twin.__new__(Twin) if into is None else into
        twin.state = clone(self.state, None if into is None else into.state)
        if self.tuning is not None and self.tuning.estimates is not None:
            twin.state = twin.state._replace(jobs=self.state.jobs.copy())  # each run estimates anew
        self._copy_settings(twin)
        return twin

    def fork(self, ahead_us: int) -> Twin:
        """Return a twin of the active jobs and of those submitted within `ahead_us` from now.

        Its cost does not depend on how many jobs ended or are still to come. Up to the end of its
        window it runs as this twin would; it cannot go further, and has no results of a whole run.
        Its jobs are numbered anew: `part.job_ids` has their numbers here.

        Raises:
            BadInput: order = shares or tuners, whose accounts cover all jobs.
        """
        if self.decides_in_python:
            raise BadInput("a twin with shares or tuners cannot be forked", "use clone()")
        until_us = max(self.now_us, int(self.ledger[0])) + ahead_us
        self.refuse_beyond(until_us)
        twin = Twin.__new__(Twin)
        twin.state, job_ids, is_rest = fork_state(self.state, until_us)
        self._copy_settings(twin)
        twin._blank = None
        if self.part is not None:
            job_ids = self.part.job_ids[job_ids]
            is_rest = is_rest and self.part.until_us == FOREVER_US
        twin.part = Part(FOREVER_US if is_rest else until_us, job_ids)
        return twin

    def _copy_settings(self, twin: Twin) -> None:
        """Give a copy all that is not in the state."""
        twin._knobs, twin._packed = self._knobs, self._packed.copy()
        twin.part = self.part
        twin._begin_ledger(self.ledger)
        twin.allocator, twin._blank = self.allocator, self._blank
        twin._price, twin._carbon = self._price, self._carbon
        twin.tuning = None if self.tuning is None else self.tuning.fresh()

    def set_knobs(self, knobs: Knobs) -> None:
        """Use other knobs from now on.

        Raises:
            BadInput: from or to order = shares, which needs other arrays.
        """
        new = knobs.pack()
        if not change_knobs(self.state, self._packed, new):
            if knobs.order == Order.HISTORY != self.knobs.order:
                self._refuse_part("history to predict from (order=history)")
            self.state = rebuild(self.state, self.knobs, knobs)
            self._blank = None
        self.note_knobs(knobs, new)

    def dump(self, path: Path | str) -> None:
        """Write the whole state and the knobs to a file (NumPy's zip format)."""
        self._refuse_part("whole state to write")
        path = Path(path)
        meta = json.dumps({"format": DUMP_FORMAT, "knobs": self.knobs.as_dict()})
        arrays: dict[str, Any] = {name: np.asarray(a) for name, a in self.state._asdict().items()}
        del arrays["arena"]
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            np.savez_compressed(file, _meta=np.array(meta), **arrays)
        os.replace(file.name, path)

    @classmethod
    def load(cls, path: Path | str, allocator: Allocator | None = None) -> Twin:
        """Return the twin that `dump` wrote.

        Args:
            path: the file.
            allocator: sets the target shares, if the twin had one.

        Raises:
            BadInput: the file is not a dump, or one of another version.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                meta = json.loads(str(file["_meta"]))
                stored = [name for name in State._fields[:-1] if name in file or name not in ADDED]
                arrays = upgraded({name: file[name] for name in stored})
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise BadInput(f"{path} is not a dump of a twin: {error}") from None
        if meta["format"] != DUMP_FORMAT:
            raise BadInput(f"{path} has format {meta['format']}", f"this version: {DUMP_FORMAT}")
        state = assemble(
            {
                name: array.view(np.recarray) if array.dtype.names else array
                for name, array in arrays.items()
            }
        )
        knobs = Knobs().with_settings([f"{k}={v}" for k, v in meta["knobs"].items()])
        return cls.of_state(state, knobs, allocator)

    @classmethod
    def of_state(cls, state: State, knobs: Knobs, allocator: Allocator | None = None) -> Twin:
        """Return a twin that goes on from a state, which it takes over.

        Args:
            state: one that these knobs decided in so far.
            knobs: settings of the decisions.
            allocator: sets the target shares, if the twin had one.
        """
        twin = cls.__new__(cls)
        twin.allocator, twin.tuning, twin.state = allocator, None, state
        twin._price, twin._carbon = signals_of(state)
        twin._set(knobs)
        return twin

    def results(self, window: tuple[Mark, Mark]) -> Results:
        """Return the results of the run."""
        self._refuse_part("results of a whole run")
        totals.settle(self.state, self._packed, self.now_us)
        return results_of(self.state, window)


def warm(note: Callable[[str], None] | None = None) -> float:
    """Compile the kernels, or load them from the cache.

    Returns:
        Seconds it took.
    """
    return warm_kernels(_run_once, note)


def _run_once() -> None:
    from flyball.core.cluster import NodeGroup

    cluster = Cluster("tiny", (NodeGroup("a", 1, "V100", 1),))
    twin = Twin(cluster, Workload.of("tiny", [0.0, 1.0], [1.0, 1.0]), Knobs())
    twin.mark(0)
    twin.run()
