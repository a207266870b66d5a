"""A policy is a preset of the knobs of the decision kernel, with a name and a summary."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

from flyball.core.forecast import NO_OUTLOOK, Outlook
from flyball.core.knobs import Knobs
from flyball.core.protocols import Allocator
from flyball.core.records import Records
from flyball.core.state import SHARED, State, clone


@dataclass(frozen=True)
class Preset:
    """Holds a policy as a preset of knobs.

    Attributes:
        name: the name users write.
        summary: the rule in one line.
        knobs: the settings of the kernel.
        allocator: computes the target shares of a policy with order = shares.
        blind: the target shares do not depend on the types of devices.
    """

    name: str
    summary: str
    knobs: Knobs
    allocator: Allocator | None = None
    blind: bool = False

    def allocator_with(self, knobs: Knobs) -> Allocator | None:
        """Return the allocator with the knob `optimum`, if it has a choice of solutions."""
        allocator: Any = self.allocator
        if not is_dataclass(allocator) or isinstance(allocator, type):
            return self.allocator
        if "optimum" not in (field.name for field in fields(allocator)):
            return self.allocator
        changed: Any = replace(allocator, optimum=knobs.optimum)
        return cast(Allocator, changed)

    def decide(
        self, state: State, outlook: Outlook = NO_OUTLOOK, into: State | None = None
    ) -> Records:
        """Return the plan for this snapshot, which is not changed. Forecasts are not used.

        Args:
            state: the snapshot.
            outlook: of load, price and carbon.
            into: an earlier copy of the same state to decide on, overwritten; None = a new one.
                The plan is a part of it.
        """
        from flyball.schedule.kernel import decide_now

        copy = clone(state, into)
        if into is not None:
            copy = copy._replace(**{name: getattr(state, name) for name in SHARED})
        decide_now(copy, self.knobs.pack())
        plan: Records = copy.plan[: copy.clock[0].actions]  # type: ignore[assignment]
        return plan
