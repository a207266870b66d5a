"""The records of a cluster's state, each dtype defined once.

The twin, live snapshots and dumps on disk all use these. Compiled code and plain
Python read the same fields (`state.jobs[j].devices`). Units are in the names:
`_us` microseconds, `_w` watts, `_j` joules, `_mib` mebibytes, `milli` thousandths
of a device.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

Records = np.recarray[Any, Any]


ALIGNMENT = 64
"""Size of a cache line in bytes; every array begins at a multiple of it."""


def whole_lines(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the same record, padded to whole cache lines."""
    names = dtype.names or ()
    return np.dtype(
        {
            "names": list(names),
            "formats": [dtype[name] for name in names],
            "offsets": [dtype.fields[name][1] for name in names] if dtype.fields else [],
            "itemsize": -(-dtype.itemsize // ALIGNMENT) * ALIGNMENT,
        },
        align=True,
    )


# Fixed for a run ------------------------------------------------------------

JOB = np.dtype(
    [
        # What starts and ends read, in one cache line.
        ("work_us", "f8"),  # true run time on its device type and count: hidden from policies
        ("estimate_us", "f8"),  # run time that policies see instead
        ("limit_us", "i8"),  # kill an attempt after this long; 0 = no limit
        ("devices", "i4"),  # gang size
        ("milli", "i4"),  # thousandths of each device
        ("memory_mib", "i4"),  # per device; 0 = not stated
        ("profile", "i4"),  # row of `rates`
        ("shape_id", "i4"),  # row of `shapes`
        ("group", "i4"),  # row of `groups` (job array with a limit), -1 = none
        ("successors", "i4"),  # first index in `links`
        ("successor_count", "i4"),
        ("priority", "f8"),  # higher goes first
        # The rest.
        ("submit_us", "i8"),
        ("reference_us", "f8"),  # the same work in device-microseconds of the reference device
        ("restart_us", "i8"),  # set-up before progress on every start; the first: `first_part`
        ("checkpoint_us", "i8"),  # end of a preempted slice that is spent on the checkpoint
        ("predecessors", "i4"),  # how many jobs must end first
        ("tenant", "i4"),
        ("kind", "i2"),  # workload class
        ("outcome", "i2"),
        ("owner", "i4"),  # user, else tenant, each with its own numbers
        ("model", "i4"),
        ("curve", "i4"),  # row of `ranges` if its number of devices may change, -1 = it may not
        ("order_stretch", "f4"),  # factor on `estimate_us` for keys: see `order_quantile`
        ("backfill_stretch", "f4"),  # and for expected ends: see `backfill_quantile`
    ],
    align=True,
)
JOB = whole_lines(JOB)

POOL = np.dtype(
    [
        ("first_node", "i4"),  # a pool is a range of identical nodes
        ("nodes", "i4"),
        ("capacity", "i4"),  # devices per node, at most 64
        ("memory_mib", "i4"),  # per device
        ("device_type", "i4"),  # row of the catalogue's list for this cluster
        ("words", "i4"),  # 64-node words of its bitmaps
        ("index", "i8"),  # where its bitmaps begin in `bitmaps`
        ("host_w", "f8"),  # the node without its devices, awake
        ("idle_w", "f8"),  # one idle device
        ("sleep_w", "f8"),  # the whole node asleep
        ("wake_us", "i8"),
        ("visit", "i4"),  # in the k-th record: the pool that a round visits k-th
        ("cpu_milli", "i4"),  # host cores of a node, in thousandths
        ("host_mib", "i4"),  # host memory of a node
    ],
    align=True,
)

RATE = np.dtype(
    [
        ("packed", "f8"),  # progress per microsecond on the fewest nodes; 0 = cannot run here
        ("spread", "f8"),  # the same over more nodes than needed
        ("watts", "f8"),  # draw of one device while running, without a cap
        ("steps", "f8"),  # the model's steps per second of progress; 1 if not known
        ("estimated", "u1"),  # 1 = from the roofline, 0 = measured
    ],
    align=True,
)
"""One row per (profile, pool): `rates[profile * len(pools) + pool]`."""

CAP = np.dtype([("slowdown", "f8"), ("power", "f8")], align=True)
"""Factors on time and on drawn power: `caps[pool * CAP_LEVELS + level]`, level 0 = no cap."""

CAP_LEVELS = 11
"""Number of power-cap levels: level i caps at 1 - i `CAP_STEP` of the draw."""
CAP_STEP = 0.05

RANGE = np.dtype([("least", "i4"), ("most", "i4"), ("first", "i8")], align=True)
"""Minimum and maximum of devices of an elastic job, and where its curve begins in `points`."""

POINT = np.dtype([("packed", "f8"), ("spread", "f8")], align=True)
"""Progress per microsecond, as in `RATE`: `points[first + (count - least) * pools + pool]`."""

OUTAGE = np.dtype([("down_us", "i8"), ("up_us", "i8"), ("node", "i4")], align=True)

STEP = np.dtype([("time_us", "i8"), ("value", "f8"), ("total", "f8")], align=True)
"""A step of a signal: its start, its value, and the signal's integral up to its start."""

# Changed by a run -----------------------------------------------------------

RUN = np.dtype(
    [
        ("done_us", "f8"),  # work saved when the running slice began
        ("rate", "f8"),  # of the running slice
        ("watts", "f8"),  # of all its devices and its share of the hosts, while running
        ("slow", "f8"),  # its speed while sharing its device, as a part of its speed alone
        ("service_us", "f8"),  # device time received, the running slice not included
        ("energy_j", "f8"),  # likewise
        ("lost_us", "f8"),  # work done and lost (checkpoints written, failures)
        ("since_us", "i8"),  # start of the running slice, or when its speed last changed
        ("began_us", "i8"),  # start of the running slice
        ("ready_us", "i8"),  # when its progress begins (after wake and restart)
        ("awake_us", "i8"),  # when all nodes of the running slice are awake
        ("waking_us", "i8"),  # time on nodes not awake yet, the running slice not included
        ("first_start_us", "i8"),  # -1 = never started
        ("end_us", "i8"),  # planned end while running, actual end after; -1 = unknown
        ("first_row", "i4"),  # its allocation: first row, -1 = none
        ("devices", "i4"),  # of the running slice, or of the last
        ("nodes", "i4"),  # nodes it spans
        ("waiting_on", "i4"),  # predecessors not ended
        ("link", "i4"),  # next held task of its array, -1 = none
        ("attempt", "i4"),  # starts so far
        ("preemptions", "i4"),
        ("failures", "i4"),  # attempts ended by a node failure
        ("pool", "i2"),
        ("cap", "u1"),  # cap level of the running slice
        ("status", "u1"),
        ("moves", "i4"),  # preemptions after which it went on elsewhere at once
        ("money", "f8"),  # of `energy_j`, by the price at the time; 0 while signals are constant
        ("carbon_g", "f8"),  # likewise, by the carbon intensity
        ("defer_us", "i8"),  # it may be held back until then; 0 = it may not, or was released
        ("deadline_us", "i8"),  # when it should have ended; 0 = any time
    ],
    align=True,
)

NODE = np.dtype(
    [
        ("free_mask", "u8"),  # whole free devices, bit by bit
        ("open_mask", "u8"),  # devices in use with a remainder
        ("power_w", "f8"),  # drawn now, if awake
        ("energy_j", "f8"),  # until `since_us`
        ("busy_us", "f8"),  # device time in use, until `since_us`
        ("asleep_us", "f8"),  # time asleep, until `since_us`
        ("since_us", "i8"),  # when the four above were last updated
        ("idle_since_us", "i8"),  # -1 = busy or down
        ("sleeps_us", "i8"),  # when it falls asleep if it stays idle
        ("awake_us", "i8"),  # when it is awake after it was woken
        ("reserved_stamp", "i8"),  # kept for the head if equal to the clock's
        ("pool", "i4"),
        ("first_device", "i4"),
        ("free", "i4"),  # whole free devices
        ("used_milli", "i4"),
        ("first_row", "i4"),  # allocations on this node, -1 = none
        ("down", "u1"),
        ("free_cpu_milli", "i4"),  # of its host
        ("free_host_mib", "i4"),
        ("money", "f8"),  # until `since_us`; 0 while signals are constant
        ("carbon_g", "f8"),  # likewise
    ],
    align=True,
)

DEVICE = np.dtype([("free_milli", "i4"), ("free_mib", "i4")], align=True)
"""Free capacity of a device that serves fractions; meaningless while it is whole."""

ROW = np.dtype(
    [
        ("mask", "u8"),  # devices of the node
        ("job", "i4"),
        ("node", "i4"),
        ("next", "i4"),  # next row of the job (or next free row), -1 = none
        ("sibling", "i4"),  # next row on the node, -1 = none
        ("milli", "i2"),  # 0 = a guest: on a device that another job holds whole
    ],
    align=True,
)
"""An allocation is a chain of rows: a job may hold many, a device may serve several jobs."""

SHAPE = np.dtype(
    [
        ("pools", "u8"),  # bit p: pool p could hold it when empty
        ("begin", "i8"),  # its heap's first entry in `queue`
        ("devices", "i4"),
        ("milli", "i4"),
        ("memory_mib", "i4"),
        ("pending", "i4"),  # jobs in its heap
        ("profile", "i4"),
        ("too_long_us", "f8"),  # a job with this much left could not start in this scan
        ("shortest_us", "f8"),  # no job of the window has less left
        ("next_shortest_us", "f8"),  # the same, while a scan recomputes it
        ("sample", "i4"),  # some job of the shape, for trials
        ("blocked", "u1"),  # did not fit, and no capacity was released since
        ("passed", "u1"),  # no room could be made for it in this round
        ("cpu_milli", "i8"),  # host cores of the whole gang, in thousandths; 0 = not stated
        ("host_mib", "i8"),  # host memory of the whole gang; 0 = not stated
    ],
    align=True,
)
"""Jobs of one shape ask for the same resources, so if one does not fit none does."""

ENTRY = np.dtype([("key", "f8"), ("tie", "i8")], align=True)
"""A place in a queue: smallest (key, tie) first; tie is the job's index."""

WINDOW = np.dtype(
    [
        ("key", "f8"),
        ("tie", "i8"),
        ("left_us", "f8"),  # estimated work left; -1 if it was started before
        ("shape_id", "i4"),
        ("tried", "i4"),  # 1 = did not fit, and neither capacity nor the reservation changed
    ],
    align=True,
)
"""A place in a queue, with the fields of the job that a scan reads."""

VICTIM = np.dtype(
    [
        ("key", "f8"),  # smallest (key, tie) first
        ("tie", "i8"),
        # Of the job whose tie names this record; these stay where they are when others move.
        ("node", "i4"),  # where it is, if that is one node of which it has whole devices; else -1
        ("pool", "i4"),
        ("devices", "i4"),  # on that node
        ("reach", "f8"),  # of no job: a bound of the round
    ],
    align=True,
)
"""A running job that may be preempted in this round (`schedule/victims.py`)."""

HEAP_OFFSET = 3
"""A heap's first entry is the fourth of a cache line of four, so that four siblings share one."""

EVENT = np.dtype([("key", "i8"), ("tie", "i8")], align=True)
"""Key is the time, tie is kind * 2**48 + (job or node)."""

GROUP = np.dtype([("limit", "i4"), ("admitted", "i4"), ("head", "i4"), ("tail", "i4")], align=True)

SHARE = np.dtype(
    [
        ("target", "f8"),  # part of the time the job should run in the pool
        ("received_us", "f8"),  # time it ran there since the policy was last asked
        ("deficit_us", "f8"),  # how much more time it should have got by then
    ],
    align=True,
)
"""One row per (job, pool): `shares[job * len(pools) + pool]`; none unless order = shares."""

CLAIM = np.dtype(
    [
        ("alone_us", "f8"),  # time its work so far would have taken on an equal part of the cluster
        ("alone_rate", "f8"),  # its progress on that part when the policy was last asked
        ("done_us", "f8"),  # its work done by then
    ],
    align=True,
)
"""Accounts of finish-time fairness, one row per job; none unless order = shares."""

RANK = np.dtype([("first", "f8"), ("second", "f8"), ("job", "i8")], align=True)
"""A place in a ranking: highest (first, second) first; ties: the lowest job."""

ACTION = np.dtype(
    [
        ("mask", "u8"),
        ("gain", "f8"),  # predicted gain in seconds of the order's key
        ("kind", "i4"),
        ("job", "i4"),
        ("node", "i4"),
        ("milli", "i4"),
        ("reason", "i4"),
        ("level", "i4"),  # cap of a start and of a cap; replicas of a service
    ],
    align=True,
)
"""One row per node of a start, one row for any other action; rows of a job are consecutive."""

SIGNAL = np.dtype(
    [
        ("value", "f8"),  # now
        ("first", "i8"),  # its first row in `steps`
        ("count", "i8"),  # its steps; the row after the last has its end. 0 = none
        ("begin_us", "i8"),
        ("end_us", "i8"),
        ("step_us", "i8"),  # length of its steps, 0 = they differ
        ("period_us", "i8"),  # what repeats outside its dates, 0 = the nearest value holds
        ("period_before", "f8"),  # integral over its first period
        ("period_after", "f8"),  # integral over its last period
        ("given", "u1"),  # 0 = the cluster has no such signal
    ],
    align=True,
)
"""The price of a kWh, or grams of CO2 per kWh (`core/signals.py`)."""

CLOCK = np.dtype(
    [
        ("now_us", "i8"),
        ("start_us", "i8"),
        ("next_job", "i4"),  # first job not yet submitted (jobs are in order of submission)
        ("next_outage", "i4"),
        ("event_count", "i4"),  # entries in `events`
        ("free_row", "i4"),  # head of the list of unused rows
        ("pending", "i4"),
        ("running", "i4"),
        ("finished", "i4"),
        ("actions", "i4"),  # rows of `plan` in use
        ("window_count", "i4"),  # entries of `window` in use
        ("victim_count", "i4"),  # entries of `victims` in use
        ("victims_sorted", "i4"),  # of these, how many are in order at the end
        ("reserved_job", "i4"),  # the head that holds the reservation, -1 = none
        ("reserved_pool", "i4"),
        ("capacity_grew", "u1"),  # something was released since the last decision
        ("scan_due", "u1"),  # the window has jobs that were never tried
        ("hosts", "u1"),  # some job asks for host cores or host memory
        ("reserved_us", "i8"),  # when the head is expected to start
        ("reserved_stamp", "i8"),  # marks the nodes of the reservation
        ("stamp", "i8"),  # marks entries of `scratch` as belonging to this pass
        ("power_w", "f8"),  # of the cluster, sleeping nodes counted as idle
        ("peak_power_w", "f8"),
        ("budget_w", "f8"),  # starts that would exceed it are refused; 0 = none
        ("first_part", "f8"),  # set-up of a job's first start, as a part of its restart's
        ("checkpoint_every_us", "i8"),  # periodic checkpoints for failures; 0 = none
        ("checkpoint_us", "i8"),  # longest of any job
        ("restart_us", "i8"),  # likewise
        ("arrivals", "i8"),  # events so far, by kind
        ("starts", "i8"),
        ("ends", "i8"),
        ("preemptions", "i8"),
        ("failures", "i8"),
        ("repairs", "i8"),
        ("decisions", "i8"),
        ("asked_us", "i8"),  # when the policy last set the target shares; -1 = never
        ("first_live", "i4"),  # every job before this one has ended
        ("shares_due", "u1"),  # jobs or nodes changed since then
        ("settled", "u1"),  # the last round left everything idle, and nothing happened since
        ("free_moves", "u1"),  # going on at once in the same pool and shape costs no set-up
        ("price", SIGNAL),
        ("carbon", SIGNAL),
        # Sums that a step's gains are differences of (`twin/stepping/observe.py`).
        ("arrived_us", "f8"),  # estimated device time of all jobs submitted so far
        ("ended_us", "f8"),  # work of all jobs that ended, in device time of the reference device
        ("flow_us", "f8"),  # of all jobs that ended, from submission to end
        ("presence_us", "f8"),  # integral of the jobs in the system, until `now_us`
        # Budgets: `budget_w` is what applies now, these are what the cluster states; 0 = none.
        ("power_budget_w", "f8"),
        ("money_per_day", "f8"),
        ("carbon_g_per_day", "f8"),
        # The account of the running day, as of the last round.
        ("spent_money", "f8"),
        ("spent_carbon_g", "f8"),
        ("before_money", "f8"),  # totals when the day began
        ("before_carbon_g", "f8"),
        ("day_end_us", "i8"),
    ],
    align=True,
)

SCRATCH = np.dtype(
    [("stamp", "i8"), *((name, "i4") for name in ("value", "memory_mib", "cpu_milli", "host_mib"))],
    align=True,
)
"""Values that are valid only if their stamp is the clock's: advancing the stamp clears them all."""


def records(size: int, dtype: np.dtype[Any], zeroed: bool = True) -> Records:
    """Return an array of records with fields as attributes, at the start of a cache line.

    Args:
        size: number of records.
        dtype: their fields.
        zeroed: whether all are 0; else they hold whatever the memory holds.
    """
    array: Records = np.ndarray.__new__(
        np.recarray, size, _as_record(dtype), aligned(size * dtype.itemsize, zeroed)
    )
    return array


@functools.cache
def _as_record(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of a `recarray` view; building it takes longer than making the array."""
    return np.dtype((np.record, dtype))


def aligned(size: int, zeroed: bool = True) -> npt.NDArray[np.uint8]:
    """Return `size` bytes that begin at a cache line."""
    memory = (np.zeros if zeroed else np.empty)(size + ALIGNMENT, np.uint8)
    offset = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[offset : offset + size]
