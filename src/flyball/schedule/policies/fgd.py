"""Placement by fragmentation gradient (Weng et al., USENIX ATC 2023), in order of submission.

What is free on a node is a *fragment* for a kind of job that cannot use it: all of it if the
node lacks whole devices, cores or memory for the kind, else the devices too small for it. A
node's fragmentation is the sum over the usual kinds of jobs (the popular ones of the workload,
95 % of its jobs), by how many there are. A job goes to the node and device where it adds least
to that. Whoever fits goes, in order of submission.

Knobs: none of its own; `place=fgd` goes with every order. It wins where jobs ask for fractions of
devices and for host cores, on clusters that are nearly full: more of the devices can be given
out (on openb 4.7 % are left over, with best-fit 6.4 %: `flyball bench placement`). It changes
little where every job asks for whole devices of one size, and it does not look at speed: on mixed
hardware `place=fastest` ends jobs sooner.
"""

from __future__ import annotations

from flyball.core.knobs import Knobs, Place
from flyball.schedule.policies.preset import Preset

POLICY = Preset(
    name="fgd",
    summary="in order of submission, whoever fits; placed where least is left over in useless bits",
    knobs=Knobs(place=Place.FGD),
)
