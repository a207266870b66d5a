"""What starting and running costs, application by application.

Other simulators charge each application its own set-up time, and run it slower than its profile.
A preset of such costs (`data/costs.toml`, `flyball.twin.inputs.costs`) is an effect of the twin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from flyball.core.errors import BadInput


class AppCosts(NamedTuple):
    """The costs of one application.

    Attributes:
        restart_s: set-up time of a start, before any progress.
        slowdown: how many times longer it runs than its profile says.
    """

    restart_s: float
    slowdown: float = 1.0


class RunTimes(Protocol):
    """Knows how long a whole training takes, where that was tabulated rather than modelled."""

    def __hash__(self) -> int: ...
    def rigid_s(self, model: str, device: str, devices: int, across: bool) -> float | None:
        """Return the seconds with the batch as the user set it; None = cannot run so."""
        ...

    def elastic_s(self, model: str, device: str, devices: int, across: bool) -> float | None:
        """Return the seconds with the best batch for this gang; None = cannot run so."""
        ...

    def steps_per_s(self, model: str, device: str, devices: int, across: bool) -> float:
        """Return the steps per second with the batch as the user set it; 0 = cannot run so."""
        ...


@dataclass(frozen=True)
class Costs:
    """The costs of all applications, and what goes with them.

    Attributes:
        name: of the preset.
        applications: by name, as in `bert (batch size 384)` before the bracket.
        others: of every other model.
        first_part: set-up time of a job's first start, as a part of that of a restart.
        free_moves: a job that goes on at once elsewhere in its pool, on as many devices and nodes,
            needs no set-up.
        round_s: time between two decisions.
        cluster: name of the cluster the costs were meant for.
        run_times: of whole trainings; None = by the speed model.
    """

    name: str
    applications: Mapping[str, AppCosts]
    others: AppCosts
    first_part: float = 0.0
    free_moves: bool = False
    round_s: float = 60.0
    cluster: str = ""
    run_times: RunTimes | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, (restart_s, slowdown) in {**self.applications, "others": self.others}.items():
            if not 0 <= restart_s < float("inf") or not 0 < slowdown < float("inf"):
                raise BadInput(
                    f"costs {self.name}: {name} has a restart of {restart_s} s and a slowdown of "
                    f"{slowdown}",
                    "use 0 s or more, and a slowdown above 0",
                )
        if not 0 <= self.first_part < float("inf"):
            raise BadInput(f"costs {self.name}: first_part = {self.first_part}", "use 0 or more")

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.applications.items()), self.others))

    def of(self, application: str) -> AppCosts:
        """Return the costs of an application."""
        return self.applications.get(application, self.others)
