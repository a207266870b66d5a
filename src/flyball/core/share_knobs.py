"""Choices of the knobs of target shares (order = shares)."""

from __future__ import annotations

from enum import IntEnum


class Types(IntEnum):
    """In which order a round of target shares fills the pools."""

    FASTEST = 0  # the pool that is fastest for the workload first
    SHUFFLED = 1  # in an order drawn for each round


class Starts(IntEnum):
    """When a policy of target shares starts jobs."""

    ANY_TIME = 0  # in rounds, and on free devices whenever something happens
    ROUNDS = 1  # in rounds only: devices that come free stay idle until the next one
    DIVIDED = 2  # as rounds, and a job submitted since the last division waits for the next one


class Leftover(IntEnum):
    """Who gets what the jobs with a target in a pool leave over."""

    LAST = 0  # jobs without a target there, after all pools were filled by targets
    BY_POOL = 1  # jobs without a target there, before the next pool is filled


class Optimum(IntEnum):
    """Which of several best solutions a policy of target shares takes."""

    CORNER = 0  # that of the simplex method
    CENTRE = 1  # the centre of them all, as interior-point methods find it


class Turns(IntEnum):
    """Whose turn it is in a pool, among jobs with a target there."""

    SHARE = 0  # the least served of its target since the last division
    OWED = 1  # the one that is owed most time, over all divisions
