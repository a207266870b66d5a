"""Integer codes used in the state arrays and in plans."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """The status of a job. Everything from DONE on is final."""

    FUTURE = 0  # not submitted yet
    HELD = 1  # submitted; waits for other jobs, for its array's turn, or is deferred
    PENDING = 2  # in the queue
    RUNNING = 3
    DONE = 4
    TIMEOUT = 5  # killed at its time limit


class Outcome(IntEnum):
    """How a job ends after its duration; a failed job has used its devices too."""

    COMPLETED = 0
    FAILED = 1
    CANCELLED = 2


class TwinEventKind(IntEnum):
    """Kinds of events, in the order in which those of the same microsecond are handled."""

    END = 0
    REPAIR = 1
    RELEASE = 2  # a deferred job may wait no longer


class ActionKind(IntEnum):
    """The kinds of actions in a plan."""

    START = 0  # a row for each node it starts on
    PREEMPT = 1
    RESERVE = 2  # a row for each node kept for the head (-1 = none); `gain` is the instant (us)
    CAP = 3  # a running job goes on under the power cap of `level`
    SLEEP = 4  # an idle node goes to sleep now
    WAKE = 5  # a sleeping node wakes, an idle one stays awake
    REPLICAS = 6  # the service (an array of jobs) is to have `level` replicas; -1 = it ends
    RELEASE = 7  # a deferred job joins the queue
    BUDGET = 8  # from now on starts may not exceed a draw of `gain` watts
    DEFER = 9  # a pending job is held back; `gain` is the latest instant (us) of its release


class Reason(IntEnum):
    """Why an action was taken. `schedule.explain` has the sentences."""

    IN_ORDER = 0  # next in the queue's order and it fits
    SKIPPED_AHEAD = 1  # a job before it does not fit; this one does
    BACKFILLED = 2  # does not delay the reservation of the head
    MADE_ROOM = 3  # started on devices taken from jobs behind it
    GAVE_WAY = 4  # preempted for a job before it
    KEPT_FOR_HEAD = 5  # reserved for the first job that does not fit
    ITS_TURN = 6  # furthest behind its target share of those that fit
    BORROWED = 7  # started beyond its tenant's quota, on devices no other job could use
    RECLAIMED = 8  # started within its tenant's quota, on devices taken back from borrowers
    GAVE_BACK = 9  # preempted: it ran on borrowed devices
    GREW = 10  # goes on with more devices: they add more here than elsewhere
    SHRANK = 11  # goes on with fewer devices: they add more elsewhere
    CHANGED_TYPE = 12  # goes on with another type of device
    SIZED = 13  # started with another number of devices than it asked for
    SHARED = 14  # started on a device that another job does not fill
    PARTED = 15  # stopped sharing: slower than its limit
    CAPPED = 16  # less power for the same work
    UNCAPPED = 17
    SENT_TO_SLEEP = 18  # no job is expected to need the node soon
    WOKEN = 19  # a job is expected to need the node soon
    MOVED = 20  # goes on elsewhere, so that a larger job fits
    SCALED = 21  # replicas follow the expected requests
    LET_IN = 22  # started where other jobs were moved away
    OVERDUE = 23  # started before all others: it waited too long
    YIELDED = 24  # preempted for a job that waited too long
    MOVED_UP = 25  # goes on in a faster pool: that saves more than its restart costs
    RELEASED = 26  # deferred so far: to wait longer is not expected to save more
    RATIONED = 27  # what is left of the day's budget, as a limit of the draw
    OVER_BUDGET = 28  # preempted: even the strongest caps would exceed the day's budget
    PAUSED = 29  # preempted and deferred: its rest is expected to cost less later
    OUTBID = 30  # preempted: its devices are worth more to others


class JobClass(IntEnum):
    """The five workload classes."""

    COMPUTE_INTENSIVE = 0
    MEMORY_BOUND = 1
    LATENCY_SENSITIVE = 2
    BANDWIDTH_LIMITED = 3
    MIXED = 4

    @property
    def label(self) -> str:
        """The name as users write it: `compute-intensive`."""
        return self.name.lower().replace("_", "-")


CLASS_LABELS = tuple(kind.label for kind in JobClass)
