"""A policy is a preset of the knobs of the decision kernel, with a name and a summary."""

from __future__ import annotations

from dataclasses import dataclass

from flyball.core.forecast import NO_OUTLOOK, Outlook
from flyball.core.knobs import Knobs
from flyball.core.protocols import Allocator
from flyball.core.records import Records
from flyball.core.state import State, clone


@dataclass(frozen=True)
class Preset:
    """Holds a policy as a preset of knobs.

    Attributes:
        name: the name users write.
        summary: the rule in one line.
        knobs: the settings of the kernel.
        allocator: computes the target shares of a policy with order = shares.
    """

    name: str
    summary: str
    knobs: Knobs
    allocator: Allocator | None = None

    def decide(self, state: State, outlook: Outlook = NO_OUTLOOK) -> Records:
        """Return the plan for this snapshot, which is not changed. Forecasts are not used."""
        from flyball.schedule.kernel import decide_now

        copy = clone(state)
        decide_now(copy, self.knobs.pack())
        plan: Records = copy.plan[: copy.clock[0].actions]  # type: ignore[assignment]
        return plan
