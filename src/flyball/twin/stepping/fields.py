"""What an observation and a step's gains consist of, number by number.

An observation has the same length on every cluster and is made of ratios and logarithms, so that
what is learned on one cluster means the same on another. It holds only what a scheduler can see:
estimates, never true durations. `docs/concept/stepping.md` has the table, printed from here.
"""

from __future__ import annotations

from typing import NamedTuple

OBSERVATION_VERSION = 1
"""Raised whenever a number is added, removed or computed in another way."""

POOLS_SEEN = 4
"""Pools that an observation describes: those with the most devices, largest first; of equal ones
the one that the cluster lists first. With fewer pools the rest is 0."""


class Field(NamedTuple):
    """Describes one number.

    Attributes:
        name: unique.
        unit: how it is normalised; the glossary is in `docs/concept/stepping.md`.
        meaning: what is counted.
    """

    name: str
    unit: str
    meaning: str


QUEUE_FIELDS = (
    Field("pending_jobs", "log1p(x / devices)", "jobs in the queue"),
    Field("held_jobs", "log1p(x / devices)", "jobs that wait for other jobs or for their array"),
    Field("pending_devices", "log1p(x / devices)", "devices that pending jobs ask for"),
    Field("pending_work", "log1p(x / (devices x hour))", "estimated device time left, pending"),
    Field("restarted", "part of pending jobs", "started before: preempted, or lost their node"),
    Field("mean_wait", "log time", "mean time since submission of pending jobs"),
    Field("longest_wait", "log time", "longest time since submission of a pending job"),
    Field("head_devices", "part of devices", "devices that the first job in the order asks for"),
    Field("head_work", "log time", "estimated work left of that job"),
)
_SIZE_NAMES = ("1", "4", "8", "more")
_LENGTH_NAMES = ("10min", "1h", "6h", "1day", "more")
SIZE_FIELDS = (
    *(Field(f"jobs_size_{n}", "part of pending jobs", f"up to {n} devices") for n in _SIZE_NAMES),
    *(Field(f"work_size_{n}", "part of pending work", f"up to {n} devices") for n in _SIZE_NAMES),
)
LENGTH_FIELDS = (
    *(Field(f"jobs_len_{n}", "part of pending jobs", f"up to {n} left") for n in _LENGTH_NAMES),
    *(Field(f"work_len_{n}", "part of pending work", f"up to {n} left") for n in _LENGTH_NAMES),
)
RUNNING_FIELDS = (
    Field("running_jobs", "x / devices", "jobs that run"),
    Field("running_work", "log1p(x / (devices x hour))", "estimated device time left, running"),
    Field("running_done", "part of the estimate", "mean part done, at most 1"),
    Field("running_late", "part of running jobs", "have done more work than was estimated"),
)
NODE_FIELDS = (
    Field("used", "part of devices", "capacity in use, fractions counted as such"),
    Field("free", "part of devices", "wholly free devices of nodes that are up"),
    Field("down", "part of devices", "devices of nodes that are down"),
    Field("idle_nodes", "part of nodes", "up, with nothing on them"),
    Field("asleep_nodes", "part of nodes", "idle and asleep"),
    Field("largest_hole", "part of a node", "largest part of any one node that is wholly free"),
)
POOL_FIELDS = tuple(
    field
    for n in range(POOLS_SEEN)
    for field in (
        Field(f"pool{n}_size", "part of devices", "devices of the pool"),
        Field(f"pool{n}_free", "part of the pool", "wholly free devices of nodes that are up"),
        Field(f"pool{n}_speed", "rank", "1 = fastest pool for the workload, towards 0 = slowest"),
    )
)
LATELY_FIELDS = (
    Field("elapsed", "log time", "time since the last step"),
    Field("arrivals", "log1p(x / (devices x hour))", "jobs submitted since the last step"),
    Field("offered", "x / (devices x elapsed)", "estimated device time of these jobs"),
    Field("starts", "log1p(x / (devices x hour))", "starts since the last step"),
    Field("ends", "log1p(x / (devices x hour))", "ends since the last step"),
    Field("preemptions", "part of starts", "preemptions since the last step"),
    Field("failures", "x / nodes", "failures of nodes since the last step"),
)
OUTSIDE_FIELDS = (
    Field("power", "x / idle draw", "power of the cluster over that of the awake, idle cluster"),
    Field("budget", "part of the budget", "the same over the power budget; 0 = no budget"),
    Field("price", "x / mean so far", "price of energy over its mean since the start; 0 = none"),
    Field("carbon", "x / mean so far", "carbon intensity likewise"),
    Field("day_sin", "", "sine of the time of day on the workload's clock"),
    Field("day_cos", "", "its cosine"),
)

OBSERVATION = (
    *QUEUE_FIELDS,
    *SIZE_FIELDS,
    *LENGTH_FIELDS,
    *RUNNING_FIELDS,
    *NODE_FIELDS,
    *POOL_FIELDS,
    *LATELY_FIELDS,
    *OUTSIDE_FIELDS,
)
"""Every number of an observation, in order."""
OBSERVATION_SIZE = len(OBSERVATION)

QUEUE = 0
SIZE = QUEUE + len(QUEUE_FIELDS)
LENGTH = SIZE + len(SIZE_FIELDS)
RUNNING = LENGTH + len(LENGTH_FIELDS)
NODES = RUNNING + len(RUNNING_FIELDS)
POOLS = NODES + len(NODE_FIELDS)
LATELY = POOLS + len(POOL_FIELDS)
OUTSIDE = LATELY + len(LATELY_FIELDS)

GAINS = (
    Field("elapsed_s", "s", "time since the last step"),
    Field("arrivals", "jobs", "submitted"),
    Field("starts", "jobs", "started"),
    Field("ends", "jobs", "ended"),
    Field("preemptions", "jobs", "preempted, moves included"),
    Field("failures", "nodes", "failed"),
    Field("offered_s", "device-s", "estimated device time of the jobs submitted"),
    Field("flow_s", "job-s", "from submission to end, summed over the jobs that ended"),
    Field("presence_s", "job-s", "integral of the jobs in the system: held, pending, running"),
    Field("work_s", "device-s", "work done, in device time of the reference device"),
    Field("busy_s", "device-s", "device time in use"),
    Field("energy_j", "J", "energy of all nodes"),
    Field("money", "currency", "price of that energy; 0 without a price"),
    Field("carbon_g", "g", "CO2 of that energy; 0 without a carbon intensity"),
)
"""What a step adds up, for rewards. True durations enter here (`work_s`, `flow_s`)."""
GAINS_SIZE = len(GAINS)
