"""Reads the job facts of a Kubernetes Pod: run times, devices, owner, outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from flyball.core.codes import Outcome
from flyball.core.units import MILLI_PER_DEVICE
from flyball.twin.inputs.traces.gpus import GpuShare, gathered, slice_of
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

NO_GPU = GpuShare(0)
UNKNOWN_SHARE = GpuShare(-1)
"""Share of a time-sliced GPU: the pod does not state how many pods share it."""


class Pod(NamedTuple):
    """Holds the last state of one pod.

    Attributes:
        row: its line in the file.
        uid: distinguishes pods of the same name.
        namespace, name: as in the metadata.
        created_s, started_s, finished_s: seconds since 1970; finished = the last container.
        removed_s: its deletion time stamp, if it was deleted.
        phase, reason: `status.phase`, `status.reason`.
        share: the GPUs it asks for.
        product: the type of GPU it asks for, as written.
        priority: value of its priority class.
        deadline_s: `activeDeadlineSeconds`.
        gang: the Kubeflow or Volcano job it belongs to.
        deleted: whether the last event was its deletion.
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
    share: GpuShare
    product: str
    priority: float
    deadline_s: float | None
    gang: str
    deleted: bool = False

    def end(self) -> tuple[float, Outcome] | None:
        """Return when and how it ended; None while it has not."""
        if self.phase in ENDED:
            outcome = Outcome.COMPLETED if self.phase == "Succeeded" else Outcome.FAILED
        elif self.deleted:
            outcome = Outcome.CANCELLED
        else:
            return None
        end_s = self.removed_s if self.finished_s is None else self.finished_s
        return None if end_s is None else (end_s, outcome)


def is_pod(value: dict[str, Any]) -> bool:
    """Return whether an object is a Pod; API lists leave out the kind, bookmarks the name."""
    if "kind" in value:
        name = (value.get("metadata") or {}).get("name")
        return bool(value["kind"] == "Pod" and name)
    return {"metadata", "spec", "status"} <= value.keys() and "containers" in value["spec"]


def pod_of(row: int, value: dict[str, Any]) -> Pod:
    """Return the pod of an object.

    Raises:
        ValueError, TypeError, AttributeError: a field has the wrong form.
    """
    meta, spec = value["metadata"], value.get("spec") or {}
    status = value.get("status") or {}
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
        next((str(tags[key]) for key in GANGS for tags in (labels, notes) if tags.get(key)), ""),
    )


def _time(text: Any) -> float | None:
    return seconds_since_1970(str(text)) if text else None


def _container_times(status: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return when the last container ended (None while one runs) and the first started."""
    containers = status.get("containerStatuses") or []
    states = [(container.get("state") or {}).get("terminated") for container in containers]
    ends = [_time(state.get("finishedAt")) for state in states if state]
    starts = [_time(state.get("startedAt")) for state in states if state]
    known_ends = [end_s for end_s in ends if end_s is not None]
    known_starts = [start_s for start_s in starts if start_s is not None]
    all_ended = len(states) > 0 and all(states) and bool(known_ends)
    return max(known_ends) if all_ended else None, min(known_starts, default=None)


def _last_change(status: dict[str, Any]) -> float | None:
    """Return the last change of conditions: the end of an evicted pod, which has no containers."""
    if status.get("phase") not in ENDED:
        return None
    changes = (
        _time(condition.get("lastTransitionTime")) for condition in status.get("conditions") or []
    )
    return max((change_s for change_s in changes if change_s is not None), default=None)


def _share(spec: dict[str, Any], annotations: dict[str, Any]) -> GpuShare:
    """Return the GPUs a pod asks for, from device plug-ins and from the sharing of KAI and HAMi."""
    if annotations.get(KAI_FRACTION):
        milli = round(float(annotations[KAI_FRACTION]) * MILLI_PER_DEVICE)
        if not 1 <= milli <= MILLI_PER_DEVICE:
            raise ValueError(f"{KAI_FRACTION} {annotations[KAI_FRACTION]} is outside 0 to 1")
        return GpuShare(int(annotations.get(KAI_DEVICES) or 1), milli)
    requested = _requested(spec)
    devices = sum(requested.get(name, 0) for name in WHOLE)
    if devices:
        percent = requested.get(HAMI_PERCENT, 100)
        milli = percent * MILLI_PER_DEVICE // 100 if 0 < percent < 100 else MILLI_PER_DEVICE
        return GpuShare(devices, milli, requested.get(HAMI_MIB, 0))
    slices = [
        (slice_, count)
        for name, count in requested.items()
        if name.startswith(MIG) and count and (slice_ := slice_of(name))
    ]
    if slices:
        return gathered(slices)
    return UNKNOWN_SHARE if requested.get(TIME_SLICED) else NO_GPU


def _requested(spec: dict[str, Any]) -> dict[str, int]:
    """Return a pod's resources: its containers together, or its largest init container."""
    totals: dict[str, int] = {}
    for name, count in _resources(spec.get("containers")):
        per_device = name in (HAMI_PERCENT, HAMI_MIB)
        total = totals.get(name, 0)
        totals[name] = max(total, count) if per_device else total + count
    for name, count in _resources(spec.get("initContainers")):
        totals[name] = max(totals.get(name, 0), count)
    return totals


def _resources(containers: Any) -> Iterator[tuple[str, int]]:
    for container in containers or []:
        resources = container.get("resources") or {}
        requested = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        for name, quantity in requested.items():
            if name in WHOLE or name.startswith(("nvidia.com/", "amd.com/")):
                yield name, _count(name, quantity)


def _count(name: str, quantity: Any) -> int:
    if not re.fullmatch(r"\d{1,9}", str(quantity)):
        raise ValueError(f"{name} {quantity!r} is not a whole number")
    return int(quantity)


def _product(spec: dict[str, Any], labels: dict[str, Any]) -> str:
    """Return the GPU type of the node selector, a one-value node affinity or the pod's label."""
    chosen = spec.get("nodeSelector") or {}
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity")) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    rules = (terms[0].get("matchExpressions") or []) if len(terms) == 1 else []
    only = {
        rule.get("key"): rule["values"][0]
        for rule in rules
        if rule.get("operator") == "In" and len(rule.get("values") or []) == 1
    }
    return next(
        (str(tags[key]) for tags in (chosen, only, labels) for key in PRODUCTS if tags.get(key)), ""
    )
