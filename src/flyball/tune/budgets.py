"""Tracks power and host capacity of a plan draft, so that no plan exceeds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.records import CAP_LEVELS
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, POWER_SLACK

Placement = tuple[tuple[int, int], ...]
"""Where a job is: (node, mask of devices) in the order of its rows."""


class PowerBudget:
    """Tracks what the cluster would draw against its budget, if it has one."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._budget_w = float(state.clock[0].budget_w) * POWER_SLACK
        self._drawn_w = float(state.clock[0].power_w)

    def allows(self, job: int, pool: int, count: int, cap: int) -> bool:
        """Return whether a start would keep the budget."""
        if self._budget_w <= 0.0:
            return True
        return self._drawn_w + self.added_w(job, pool, count, cap) <= self._budget_w

    def add(self, job: int, pool: int, count: int, cap: int, sign: int) -> None:
        """Add the draw of a start (sign 1), or subtract that of an end (-1)."""
        if self._budget_w > 0.0:
            self._drawn_w += sign * self.added_w(job, pool, count, cap)

    def added_w(self, job: int, pool: int, count: int, cap: int) -> float:
        """Return the watts that a job adds to the draw of `count` idle devices, alone on them."""
        state = self._state
        rate = state.rates[int(state.jobs["profile"][job]) * len(state.pools) + pool]
        power = float(state.caps[pool * CAP_LEVELS + cap].power)
        share = count * int(state.jobs["milli"][job]) / MILLI_PER_DEVICE
        return share * (float(rate.watts) * power - float(state.pools[pool].idle_w))


class HostCapacity:
    """Tracks cores and memory left on every host; k of n devices take that part, rounded up."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._cpu = state.nodes["free_cpu_milli"].astype(np.int64)
        self._mib = state.nodes["free_host_mib"].astype(np.int64)

    def room(self, job: int, pool: int, devices: int) -> npt.NDArray[np.bool_]:
        """Return which nodes of a pool have room for `devices` of a job."""
        record = self._state.pools[pool]
        in_pool = slice(int(record.first_node), int(record.first_node) + int(record.nodes))
        cpu, mib = self._share(job, devices)
        enough: npt.NDArray[np.bool_] = (self._cpu[in_pool] >= cpu) & (self._mib[in_pool] >= mib)
        return enough

    def fits(self, job: int, place: Placement) -> bool:
        """Return whether the hosts of a place have room for the job."""
        for node, mask in place:
            cpu, mib = self._share(job, mask.bit_count())
            if self._cpu[node] < cpu or self._mib[node] < mib:
                return False
        return True

    def add(self, job: int, place: Placement, sign: int) -> None:
        """Take the capacity of a start (sign 1), or give back that of an end (-1)."""
        for node, mask in place:
            cpu, mib = self._share(job, mask.bit_count())
            self._cpu[node] -= sign * cpu
            self._mib[node] -= sign * mib

    def _share(self, job: int, devices: int) -> tuple[int, int]:
        jobs: Any = self._state.jobs
        shape = self._state.shapes[int(jobs["shape_id"][job])]
        asked = int(jobs["devices"][job])
        cpu, mib = int(shape.cpu_milli), int(shape.host_mib)
        if asked == 0:
            return cpu, mib
        return -(-cpu * devices // asked), -(-mib * devices // asked)
