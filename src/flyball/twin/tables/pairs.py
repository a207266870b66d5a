"""Table of pairs: how jobs of a workload slow each other down on one device.

Like the table of rates it is indexed by profile; kernel and reference read the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from flyball.core.cluster import Cluster
from flyball.core.results import Floats
from flyball.physics import catalogue
from flyball.physics.catalogue import DeviceType
from flyball.physics.sharing import SharedSpeed, Sharer, speed_beside
from flyball.twin.tables.rates import Profiles

LOWEST = 0.01
"""Lowest guessed speed of a pair that fits together."""

Rule = Callable[[DeviceType, Sharer, Sharer], SharedSpeed]


def pair_table(
    profiles: Profiles,
    cluster: Cluster,
    error_sigma: float,
    seed: int,
    first: Rule = speed_beside,
) -> tuple[Floats, Floats]:
    """Return the tables `pairs[(pool * P + a) * P + b]`: speed of profile a with b, 1 = as alone.

    Only jobs of one device can share a device; 0 = the two cannot.

    Args:
        profiles: of the workload.
        cluster: its groups are the pools.
        error_sigma: spread of the log-normal error of the guesses; 0 = they are exact.
        seed: of that error.
        first: guesses the speed of a pair before it has run.

    Returns:
        The true speeds, and the initial guesses that tuners see.
    """
    single = np.array(
        [at for at, profile in enumerate(profiles.profiles) if profile.devices == 1], int
    )
    sharers = [Sharer(profiles.profiles[at].model, profiles.profiles[at].kind) for at in single]
    true = np.zeros((len(cluster.groups), len(profiles.profiles), len(profiles.profiles)))
    guess = np.zeros_like(true)
    for pool, group in enumerate(cluster.groups):
        here = np.ix_(single, single)
        device = catalogue.get(group.device)
        true[pool][here] = _matrix(device, sharers, speed_beside)
        guess[pool][here] = _matrix(device, sharers, first)
    if error_sigma:
        rng = np.random.default_rng([seed, 6])
        wrong = guess * np.exp(error_sigma * rng.standard_normal(guess.shape))
        guess = np.clip(wrong, LOWEST, 1.0)
    # Two jobs run together or not at all.
    together = (true > 0) & (true.swapaxes(1, 2) > 0)
    return (true * together).ravel(), (guess * together).ravel()


def _matrix(device: DeviceType, sharers: Sequence[Sharer], rule: Rule) -> Floats:
    """Return the speed of each sharer next to each; equal sharers are looked up once."""
    kinds = list(dict.fromkeys(sharers))
    values = np.array([[rule(device, a, b).value for b in kinds] for a in kinds])
    kind_of = [kinds.index(sharer) for sharer in sharers]
    return values[np.ix_(kind_of, kind_of)] if kind_of else np.zeros((0, 0))
