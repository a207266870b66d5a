"""What a device of each pool is worth: the dual prices of a linear programme.

Jobs alike (the same shape and curve) form a kind. A variable is the number of jobs of a kind
that run in a pool with some number of devices:

    maximise   sum of value * x
    such that  sum over the options of a kind of x      <= its active jobs
               sum over the options of a pool of count x <= its devices

The dual of a pool's row is its price: what one more device there would add, in reference
device-seconds a second.
"""

from __future__ import annotations

import numpy as np

from flyball.core.results import Floats
from flyball.tune.options import Options

A_HAIR = 1e-3
"""More devices than there are: what counts is what a further one would be worth. Where all are in
use and nobody wants more the programme may else say what the last one is."""


def prices(options: Options, worth: Floats, capacity: Floats) -> Floats:
    """The price of one device in each pool.

    Args:
        options: of all active jobs.
        worth: of each option, in reference device-seconds a second.
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
    found = linprog(
        -worth / scale,
        A_ub=matrix,
        b_ub=np.append(jobs, capacity + A_HAIR),
        method="highs",
        options={"presolve": False},
    )
    assert found.x is not None, f"the programme of prices has a solution: {found.message}"
    duals: Floats = np.maximum(0.0, -found.ineqlin.marginals[kinds:]) * scale
    return duals
