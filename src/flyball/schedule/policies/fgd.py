"""Placement by fragmentation gradient (Weng et al., USENIX ATC 2023), in order of submission.

Free capacity of a node is a *fragment* for a kind of job that cannot use it: all of it if the
node lacks whole devices, cores or memory for the kind, else the devices with too little left. A
node's fragmentation is the sum over the most common kinds of jobs (95 % of the workload's jobs),
weighted by their number. A job goes to the node and device where it adds least fragmentation. Any
job that fits starts, in order of submission.

Knobs: none in particular; `place=fgd` goes with every order. It wins where jobs ask for fractions
of devices and for host cores, on clusters that are nearly full: more of the devices can be
allocated (on openb 4.7 % are left over, with best-fit 6.4 %: `flyball bench placement`). It changes
little where every job asks for whole devices of one size, and it ignores speed: on mixed hardware
`place=fastest` ends jobs sooner.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Place
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="fgd",
    summary="in order of submission, skipping what does not fit; placed to add least fragmentation",
    knobs=Knobs(place=Place.FGD),
)
