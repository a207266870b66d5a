"""Small clusters with jobs on them, for the tests of tuners."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import ActionKind
from flyball.core.effects import Effects
from flyball.core.knobs import Knobs
from flyball.core.protocols import Outlook
from flyball.core.records import ACTION, Records, records
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

MIXED = Cluster(
    "mixed", (NodeGroup("t4", 3, "T4", 4), NodeGroup("a100", 1, "A100-40GB", 8)), power_budget_w=0.0
)
MODELS = ("cifar10:2048", "bert:384", "deepspeech2:320")
NO_PLAN = records(0, ACTION)


class EmptyPlan:
    """A policy that returns an empty plan and leaves everything to the tuners."""

    def decide(self, state: State, outlook: Outlook) -> Records:
        return NO_PLAN


def jobs(devices: list[int], **columns: Any) -> Workload:
    """Return jobs submitted a second apart, elastic by default."""
    size = len(devices)
    defaults: dict[str, Any] = {
        "model": np.arange(size) % len(MODELS),
        "models": MODELS,
        "device": 0,
        "device_names": ("T4",),
        "least": 1,
        "most": -1,
    }
    return Workload.of("w", np.arange(size), 20_000.0, devices, **{**defaults, **columns})


def twin(
    workload: Workload,
    cluster: Cluster = MIXED,
    until_s: float = 100.0,
    effects: Effects | None = None,
    settings: tuple[str, ...] = (),
    tuning: Tuning | None = None,
) -> Twin:
    """A twin that ran for a while."""
    knobs = Knobs().with_settings(["backfill=skip", *settings])
    result = Twin(cluster, workload, knobs, effects, tuning=tuning)
    result.run(round(until_s * 1e6))
    return result


def lines(plan: Records) -> list[tuple[str, int, int, int]]:
    """A plan as (kind, job, node, devices)."""
    return [
        (ActionKind(int(row.kind)).name, int(row.job), int(row.node), int(row.mask).bit_count())
        for row in plan
    ]
