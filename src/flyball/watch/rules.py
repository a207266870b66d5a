"""Maps a Slurm site's scheduling rules to the nearest knobs of the decision kernel.

`docs/guide/slurm.md` has the same table, with what is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flyball.core.knobs import Backfill, Knobs

MAX_DEPTH = 100_000
DEFAULT_TESTED = {"bf_max_job_test": 500}
"""Slurm's own default where a site states none (22.05)."""


class Rules(NamedTuple):
    """Holds how a site decides, in our terms.

    Attributes:
        knobs: the nearest setting of the decision kernel.
        ages: whether priorities are computed (multifactor) rather than first come, first served.
        memory_counts: whether memory is allocated.
        whole_nodes: whether every job gets its nodes alone.
        sentences: what was mapped to what.
    """

    knobs: Knobs
    ages: bool
    memory_counts: bool
    whole_nodes: bool
    sentences: tuple[str, ...]


def rules_of(settings: Mapping[str, str]) -> Rules:
    """Return the rules of a site from `scontrol show config`, names in lower case."""
    scheduler = settings.get("schedulertype", "")
    parameters = _parameters(settings.get("schedulerparameters", ""))
    select = settings.get("selecttype", "")
    select_parameters = settings.get("selecttypeparameters", "").upper()
    ages = "multifactor" in settings.get("prioritytype", "")
    whole_nodes = "linear" in select
    memory_counts = "MEMORY" in select_parameters
    sentences = []
    if "backfill" in scheduler:
        tested = _whole(parameters.get("bf_max_job_test"), DEFAULT_TESTED["bf_max_job_test"])
        depth = max(1, min(MAX_DEPTH, tested))
        knobs = Knobs(backfill=Backfill.EASY, depth=depth)
        sentences.append(f"{scheduler}: backfill=easy by time limits, depth={depth}")
    else:
        knobs = Knobs(backfill=Backfill.STRICT)
        sentences.append(f"{scheduler}: backfill=strict")
    order = "by Slurm's present priority" if ages else "first come, first served in a tier"
    sentences.append(f"{settings.get('prioritytype', 'no PriorityType')}: {order}")
    sentences.append("a request that fits one node waits for one; a larger one for whole nodes")
    sentences.append("PriorityTier of partitions: before any priority")
    if settings.get("preempttype", "preempt/none") not in ("preempt/none", "(null)"):
        sentences.append(f"{settings['preempttype']}: not modelled")
    return Rules(knobs, ages, memory_counts, whole_nodes, tuple(sentences))


def _parameters(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name.strip().lower(): value for name, _equals, value in pairs}


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() else default
