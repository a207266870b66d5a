"""Effects: which parts of reality the twin simulates, and with what numbers.

By default everything here is off or costs nothing, except a restart after a preemption.
`docs/concept/twin.md` explains where the numbers come from.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from flyball.core.costs import Costs
from flyball.core.errors import BadInput


@dataclass(frozen=True)
class Effects:
    """Settings of the twin that are not decisions.

    Attributes:
        restart_s: set-up time of every start but the first, for gangs of 1, 2..8 and more devices.
        checkpoint_s: time a preempted job spends writing its checkpoint, at the end of its slice.
        checkpoint_every_s: interval of periodic checkpoints, which survive a node failure; 0 =
            none, a failure then loses the whole slice.
        mtbf_h: mean time between failures of one node; 0 = nodes never fail.
        repair_h: mean time to repair.
        estimate_sigma: spread of the log-normal error of run-time estimates where the
            workload states none; 0 = estimates are exact.
        step_slice_s: length of the slices in which a job completes whole training steps only, where
            its steps per second are measured; 0 = work is continuous.
        network: False = no penalty for gangs spread over nodes.
        elastic: False = jobs that may be resized keep the devices they ask for.
        adaptive_batch: an elastic job's batch follows its devices; else it is as the user set it.
        share_limit: jobs that one device may serve at a time, if tuners pair them; 1 = no sharing.
        speed_error: spread of the log-normal error of the speeds that tuners are given.
        slack_s: how long tuners may defer a job, beyond its submission; 0 = not at all.
        seed: of all random draws made for these effects.
        costs: set-up times and slowdowns by application, which replace `restart_s`; None = none.
    """

    restart_s: tuple[float, float, float] = (7.0, 30.0, 60.0)
    checkpoint_s: float = 0.0
    checkpoint_every_s: float = 0.0
    mtbf_h: float = 0.0
    repair_h: float = 4.0
    estimate_sigma: float = 0.0
    step_slice_s: float = 0.0
    network: bool = True
    elastic: bool = True
    adaptive_batch: bool = False
    share_limit: int = 1
    speed_error: float = 0.0
    slack_s: float = 0.0
    seed: int = 0
    costs: Costs | None = None

    def __post_init__(self) -> None:
        for effect in fields(self):
            value = getattr(self, effect.name)
            if effect.name == "costs":
                continue  # they check themselves
            numbers = value if isinstance(value, tuple) else (value,)
            if not all(0 <= number < float("inf") for number in numbers):
                raise BadInput(f"effect {effect.name} = {value} is out of range", "use 0 or more")
