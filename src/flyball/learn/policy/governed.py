"""A twin whose knobs a policy chooses anew in every epoch, for replays."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.protocols import PolicyLike
from flyball.core.units import FOREVER_US
from flyball.learn.env.caps import cap_running
from flyball.learn.env.memory import Outside
from flyball.learn.policy.governor import Choice, Governor, Seen
from flyball.learn.policy.local import cap_plan
from flyball.twin import kernel
from flyball.twin.stepping.many import step_many
from flyball.twin.twin import Twin


class GovernedTwin(Twin):
    """Runs as a twin does, and asks a governor at the end of every epoch.

    Copies of it run on with the knobs they have.

    Attributes:
        governor: chooses.
        choices: one per epoch so far.
        local: whether the caps of running jobs are refined (`local`).
    """

    def __init__(self, governor: Governor, *args: Any, local: bool = False, **named: Any) -> None:
        """
        Args:
            governor: chooses.
            args, named: as for `Twin`.
            local: whether the caps of running jobs are refined.
        """
        super().__init__(*args, **named)
        self.governor, self.local = governor, local
        self.choices: list[Choice] = []
        self._outside = Outside(self._price, self._carbon)
        self._epoch_end_us = int(self.state.clock["start_us"][0]) + governor.epoch_us
        self._stepping = False

    def run(self, until_us: int | None = None, policy: PolicyLike | None = None) -> None:
        """Handle every instant up to and including `until_us`; see `Twin.run`."""
        until = FOREVER_US - 1 if until_us is None else until_us
        while not (self._stepping or policy is not None or self.finished):
            if self._epoch_end_us > until or self.next_us >= FOREVER_US:
                break
            self._stepping = True  # a twin with tuners is run from within
            try:
                steps = step_many([self], None, until_us=self._epoch_end_us, threads=1)
            finally:
                self._stepping = False
            self._govern(steps.observations[0])
            self._epoch_end_us += self.governor.epoch_us
        super().run(until_us, policy)

    def _govern(self, cluster: Any) -> None:
        now = self._epoch_end_us
        outside = self._outside.numbers(now)
        choice = self.governor.choose(Seen(self.state, self.knobs, now, cluster, outside))
        self.governor.settle()
        self.choices.append(choice)
        knobs = choice.knobs
        if knobs != self.knobs:
            level = int(knobs.pack()[0].cap)
            if level != int(self._packed[0].cap):
                cap_running([self], np.array([level]), np.array([now]))
            self.set_knobs(knobs)
        if self.local and not choice.fallback:
            self._refine(now)

    def _refine(self, now: int) -> None:
        """Put each running job under a cap of its own."""
        kernel.advance_to(self.state, self._packed, now)
        plan = cap_plan(self.state, now, int(self._packed[0].cap))
        if len(plan):
            self._carry_out(plan, now)
