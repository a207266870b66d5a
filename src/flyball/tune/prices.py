"""Computes what a device of each pool is worth: the dual prices of a linear programme.

Equal jobs (same shape and curve) form a kind. A variable is the number of jobs of a kind
that run in a pool with some number of devices:

    maximise   sum of value * x
    such that  sum over the options of a kind of x      <= its active jobs
               sum over the options of a pool of count x <= its devices

The dual of a pool's row is its price: what one more device there would add, in reference
device-seconds per second.
"""

from __future__ import annotations

import numpy as np

from flyball.core.results import Floats
from flyball.tune.options import Options

A_HAIR = 1e-3
"""Devices added to each pool, so that prices are the worth of one more device.

Without it, where all devices are in use and no job needs more, the programme may return the worth
of the last one instead.
"""


def prices(options: Options, worth: Floats, capacity: Floats) -> Floats:
    """Return the price of one device in each pool.

    Args:
        options: options of all active jobs.
        worth: worth of each option, in reference device-seconds per second.
        capacity: devices of each pool.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    kinds, size = len(options.begin) - 1, len(options.kind)
    if not size:
        return np.zeros(len(capacity))
    columns = np.arange(size)
    matrix = coo_matrix(
        (
            np.append(np.ones(size), options.count),
            (np.append(options.kind, kinds + options.pool), np.append(columns, columns)),
        ),
        shape=(kinds + len(capacity), size),
    ).tocsr()
    jobs = np.bincount(options.of_job, minlength=kinds)
    scale = max(float(worth.max()), 1e-300)
    result = linprog(
        -worth / scale,
        A_ub=matrix,
        b_ub=np.append(jobs, capacity + A_HAIR),
        method="highs",
        options={"presolve": False},
    )
    assert result.x is not None, f"the programme of prices has a solution: {result.message}"
    duals: Floats = np.maximum(0.0, -result.ineqlin.marginals[kinds:]) * scale
    return duals
