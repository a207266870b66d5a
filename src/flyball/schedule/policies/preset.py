"""What a policy is: a setting of the one decision kernel, with a name and a meaning."""

from __future__ import annotations

from dataclasses import dataclass

from flyball.core.knobs import Knobs
from flyball.core.protocols import Allocator, Forecast
from flyball.core.records import Records
from flyball.core.state import State, clone


@dataclass(frozen=True)
class Preset:
    """A policy as a preset of knobs.

    Attributes:
        name: as users write it.
        summary: the rule in a line.
        knobs: the setting.
        allocator: what sets the target shares of a policy with order = shares.
    """

    name: str
    summary: str
    knobs: Knobs
    allocator: Allocator | None = None

    def decide(self, state: State, forecast: Forecast | None = None) -> Records:
        """The plan for this snapshot, which is left as it is. Forecasts are not used."""
        from flyball.schedule.kernel import decide_now

        own = clone(state)
        decide_now(own, self.knobs.pack())
        plan: Records = own.plan[: own.clock[0].actions]  # type: ignore[assignment]
        return plan
