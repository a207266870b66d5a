"""What a Kubernetes Pod says of a job: when it ran, on what, whose it was, how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from flyball.core.codes import Outcome
from flyball.core.units import MILLI_PER_DEVICE
from flyball.twin.inputs.traces.gpus import Share, gathered, slice_of
from flyball.twin.inputs.traces.job_rows import seconds_since_1970

WHOLE = (
    *("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "habana.ai/gaudi"),
    *("aws.amazon.com/neuron", "aws.amazon.com/neurondevice"),
)
MIG = "nvidia.com/mig-"
TIME_SLICED = "nvidia.com/gpu.shared"
HAMI_PERCENT, HAMI_MIB = "nvidia.com/gpucores", "nvidia.com/gpumem"
KAI_FRACTION, KAI_DEVICES = "gpu-fraction", "gpu-fraction-num-devices"
PRODUCTS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
)
GANGS = ("training.kubeflow.org/job-name", "volcano.sh/job-name")

ENDED = ("Succeeded", "Failed")

NO_GPU = Share(0)
UNKNOWN_SHARE = Share(-1)
"""A time-sliced GPU: how many pods share it is not in the pod."""


class Pod(NamedTuple):
    """One pod as last seen.

    Attributes:
        row: the line of the file.
        uid: tells apart pods of the same name.
        namespace, name: as named.
        created_s, started_s, finished_s: seconds since 1970; finished = the last container.
        removed_s: when it was to be gone, if someone deleted it.
        phase, reason: `status.phase`, `status.reason`.
        share: the GPUs it asks for.
        product: the type of GPU it asks for, as written.
        priority: of its priority class.
        deadline_s: `activeDeadlineSeconds`.
        gang: the Kubeflow or Volcano job it belongs to.
        deleted: the last event was its removal.
    """

    row: int
    uid: str
    namespace: str
    name: str
    created_s: float
    started_s: float | None
    finished_s: float | None
    removed_s: float | None
    phase: str
    reason: str
    share: Share
    product: str
    priority: float
    deadline_s: float | None
    gang: str
    deleted: bool = False

    def end(self) -> tuple[float, Outcome] | None:
        """When and how it ended; None while it has not."""
        if self.phase in ENDED:
            outcome = Outcome.COMPLETED if self.phase == "Succeeded" else Outcome.FAILED
        elif self.deleted:
            outcome = Outcome.CANCELLED
        else:
            return None
        end_s = self.removed_s if self.finished_s is None else self.finished_s
        return None if end_s is None else (end_s, outcome)


def is_pod(found: dict[str, Any]) -> bool:
    """Whether an object is a Pod; lists of the API leave out the kind, bookmarks the name."""
    if "kind" in found:
        named = (found.get("metadata") or {}).get("name")
        return bool(found["kind"] == "Pod" and named)
    return {"metadata", "spec", "status"} <= found.keys() and "containers" in found["spec"]


def pod_of(row: int, found: dict[str, Any]) -> Pod:
    """The pod of an object.

    Raises:
        ValueError, TypeError, AttributeError: a field is not as it should be.
    """
    meta, spec = found["metadata"], found.get("spec") or {}
    status = found.get("status") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    created_s = _time(meta.get("creationTimestamp"))
    if created_s is None:
        raise ValueError("no metadata.creationTimestamp")
    name, namespace = str(meta.get("name") or ""), str(meta.get("namespace") or "default")
    ended, started = _container_times(status)
    deadline = spec.get("activeDeadlineSeconds")
    return Pod(
        row,
        str(meta.get("uid") or f"{namespace}/{name}@{created_s:.0f}"),
        namespace,
        name,
        created_s,
        _time(status.get("startTime")) or started,
        ended if ended is not None else _last_change(status),
        _time(meta.get("deletionTimestamp")),
        str(status.get("phase") or ""),
        str(status.get("reason") or ""),
        _share(spec, notes),
        _product(spec, labels),
        float(spec.get("priority") or 0),
        float(deadline) if deadline else None,
        next((str(each[key]) for key in GANGS for each in (labels, notes) if each.get(key)), ""),
    )


def _time(text: Any) -> float | None:
    return seconds_since_1970(str(text)) if text else None


def _container_times(status: dict[str, Any]) -> tuple[float | None, float | None]:
    """When the last container ended (None while one has not) and the first began."""
    containers = status.get("containerStatuses") or []
    states = [(each.get("state") or {}).get("terminated") for each in containers]
    ends = [_time(each.get("finishedAt")) for each in states if each]
    begins = [_time(each.get("startedAt")) for each in states if each]
    known_ends = [each for each in ends if each is not None]
    known_begins = [each for each in begins if each is not None]
    all_ended = len(states) > 0 and all(states) and bool(known_ends)
    return max(known_ends) if all_ended else None, min(known_begins, default=None)


def _last_change(status: dict[str, Any]) -> float | None:
    """An evicted pod has no containers left: its conditions last changed when it ended."""
    if status.get("phase") not in ENDED:
        return None
    changes = (_time(each.get("lastTransitionTime")) for each in status.get("conditions") or [])
    return max((each for each in changes if each is not None), default=None)


def _share(spec: dict[str, Any], annotations: dict[str, Any]) -> Share:
    """The GPUs a pod asks for, by device plug-in and by the sharing of KAI and HAMi."""
    if annotations.get(KAI_FRACTION):
        milli = round(float(annotations[KAI_FRACTION]) * MILLI_PER_DEVICE)
        if not 1 <= milli <= MILLI_PER_DEVICE:
            raise ValueError(f"{KAI_FRACTION} {annotations[KAI_FRACTION]} is outside 0 to 1")
        return Share(int(annotations.get(KAI_DEVICES) or 1), milli)
    asked = _asked(spec)
    whole = sum(asked.get(name, 0) for name in WHOLE)
    if whole:
        percent = asked.get(HAMI_PERCENT, 100)
        milli = percent * MILLI_PER_DEVICE // 100 if 0 < percent < 100 else MILLI_PER_DEVICE
        return Share(whole, milli, asked.get(HAMI_MIB, 0))
    slices = [
        (found, count)
        for name, count in asked.items()
        if name.startswith(MIG) and count and (found := slice_of(name))
    ]
    if slices:
        return gathered(slices)
    return UNKNOWN_SHARE if asked.get(TIME_SLICED) else NO_GPU


def _asked(spec: dict[str, Any]) -> dict[str, int]:
    """Resources of the pod: its containers together, or its largest init container if larger."""
    together: dict[str, int] = {}
    for name, count in _resources(spec.get("containers")):
        per_device = name in (HAMI_PERCENT, HAMI_MIB)
        before = together.get(name, 0)
        together[name] = max(before, count) if per_device else before + count
    for name, count in _resources(spec.get("initContainers")):
        together[name] = max(together.get(name, 0), count)
    return together


def _resources(containers: Any) -> Iterator[tuple[str, int]]:
    for each in containers or []:
        resources = each.get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        for name, quantity in asked.items():
            if name in WHOLE or name.startswith(("nvidia.com/", "amd.com/")):
                yield name, _count(name, quantity)


def _count(name: str, quantity: Any) -> int:
    if not re.fullmatch(r"\d{1,9}", str(quantity)):
        raise ValueError(f"{name} {quantity!r} is not a whole number")
    return int(quantity)


def _product(spec: dict[str, Any], labels: dict[str, Any]) -> str:
    """The type of GPU: node selector, node affinity with one value, or the pod's own label."""
    chosen = spec.get("nodeSelector") or {}
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity")) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    wanted = (terms[0].get("matchExpressions") or []) if len(terms) == 1 else []
    only = {
        each.get("key"): each["values"][0]
        for each in wanted
        if each.get("operator") == "In" and len(each.get("values") or []) == 1
    }
    return next(
        (str(each[key]) for each in (chosen, only, labels) for key in PRODUCTS if each.get(key)), ""
    )
