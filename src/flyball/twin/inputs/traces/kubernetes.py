"""Kubernetes pods as a trace: watch events or Pod objects, one per line, or a list of Pods.

A pod with a GPU is a job; pods of one Kubeflow or Volcano job that started and ended together are
one gang. `docs/reference/traces.md` describes how each field is used.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput, at
from flyball.core.units import MILLI_PER_DEVICE, S_PER_MIN
from flyball.core.workload import Workload
from flyball.twin.inputs.traces.gpus import device_of
from flyball.twin.inputs.traces.job_rows import Draft, note_count, note_types, workload_of
from flyball.twin.inputs.traces.json_text import json_lines, parsed, whole_text
from flyball.twin.inputs.traces.pods import NO_GPU, UNKNOWN_SHARE, Pod, is_pod, pod_of

TOGETHER_S = S_PER_MIN
"""Longest time between the first and the last creation of a gang's pods, and between their ends."""

WORST_FIRST = (Outcome.FAILED, Outcome.CANCELLED, Outcome.COMPLETED)


def read(path: Path, notes: list[str]) -> Workload:
    """Read pods; the last event of each counts."""
    events = _Events(path)
    events.read()
    if not events.pods:
        raise BadInput(f"{path} has no Pod", "write pods: kubectl get pods -A -o json")
    note_count(notes, path, events.others, "objects skipped: not a Pod")
    jobs = _JobBuilder(path, notes)
    drafts = jobs.drafts(list(events.pods.values()))
    if not drafts:
        raise BadInput(f"{path} has no pod with a GPU that ran and ended", _why_none(notes))
    return workload_of(path, drafts)


def _why_none(notes: list[str]) -> str:
    return "; ".join(notes) or "write pods that ended: kubectl get pods -A -w -o json"


class _Events:
    """Reads the pods of a file and keeps the last state of each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.row = 1
        self.pods: dict[str, Pod] = {}
        self.others = 0

    def read(self) -> None:
        """Read line by line, or as one value if the first line is not a complete value."""
        for number, (row, line) in enumerate(json_lines(self.path)):
            self.row = row
            if number == 0 and not _is_complete(line):
                self.take(parsed(self.path, 1, whole_text(self.path), self.kept))
                return
            self.take(parsed(self.path, row, line, self.kept))

    def kept(self, value: dict[str, Any]) -> Any:
        """Return what to keep of an object as it is read: a pod becomes a few numbers."""
        try:
            return pod_of(self.row, value) if is_pod(value) else value
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise BadInput(
                f"{at(self.path, self.row)}: {_named(value)} cannot be read ({error})",
                "write it with kubectl get pods -o json",
            ) from None

    def take(self, value: Any) -> None:
        """Add the value of a line: a pod, an event with a pod, or a list of pods."""
        if isinstance(value, Pod):
            self.pods[value.uid] = value
        elif isinstance(value, list):
            for item in value:
                self.take(item)
        elif isinstance(value, dict) and isinstance(value.get("object"), Pod):
            pod: Pod = value["object"]
            self.pods[pod.uid] = pod._replace(deleted=value.get("type") == "DELETED")
        elif isinstance(value, dict) and isinstance(value.get("items"), list):
            self.take(value["items"])
        elif isinstance(value, dict):
            self.others += value.get("type") != "BOOKMARK"
        else:
            raise BadInput(f"{at(self.path, self.row)}: is not an object", "write one Pod per line")


def _is_complete(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _named(value: dict[str, Any]) -> str:
    meta = value.get("metadata")
    return f"Pod {meta.get('name')}" if isinstance(meta, dict) else "a Pod"


class _JobBuilder:
    """Turns pods into jobs, and notes what it leaves out."""

    def __init__(self, path: Path, notes: list[str]) -> None:
        self.path, self.notes = path, notes
        self.names: Counter[str] = Counter()

    def drafts(self, pods: list[Pod]) -> list[Draft]:
        without = [pod for pod in pods if pod.share == NO_GPU]
        shared = [pod for pod in pods if pod.share == UNKNOWN_SHARE]
        asking = [pod for pod in pods if pod.share.devices > 0]
        gone = [pod for pod in asking if pod.deleted and pod.end() is None]
        ended = [pod for pod in asking if pod.end() is not None]
        ran = [pod for pod in ended if pod.started_s is not None]
        waiting = len(asking) - len(ended) - len(gone)
        for count, what in (
            (len(without), "pods left out: no GPU, and the twin schedules devices"),
            (len(shared), "pods left out: a time-sliced GPU, whose share is not in the pod"),
            (waiting, "pods left out: not ended"),
            (len(gone), "pods left out: deleted at a time not known"),
            (len(ended) - len(ran), "pods left out: never started"),
        ):
            note_count(self.notes, self.path, count, what)
        gangs, single = _gangs(ran)
        note_count(
            self.notes, self.path, sum(map(len, gangs)), f"pods gathered into {len(gangs):,} gangs"
        )
        drafts = [self._draft([pod]) for pod in single] + [self._draft(gang) for gang in gangs]
        unknown = Counter(pod.product for pod in ran if pod.product and not device_of(pod.product))
        note_types(self.notes, self.path, unknown)
        return drafts

    def _draft(self, pods: list[Pod]) -> Draft:
        """Return the job of one pod, or of a gang of like pods."""
        first = min(pods, key=lambda pod: (pod.created_s, pod.row))
        began_s = min(pod.started_s for pod in pods if pod.started_s is not None)
        ends = [end for pod in pods if (end := pod.end()) is not None]
        last_s = max(end_s for end_s, _ in ends)
        outcome = next(
            outcome for outcome in WORST_FIRST if outcome in {result for _, result in ends}
        )
        timed_out = any(pod.reason == "DeadlineExceeded" for pod in pods)
        name = f"{first.namespace}/{first.gang if len(pods) > 1 else first.name}"
        self.names[name] += 1
        suffix = f"#{self.names[name]}" if self.names[name] > 1 else ""
        return Draft(
            row=first.row,
            id=f"{name}{suffix}",
            submit_s=first.created_s,
            duration_s=max(0.0, last_s - began_s),  # the clocks of nodes differ
            devices=sum(pod.share.devices for pod in pods),
            milli=first.share.milli,
            memory_mib=first.share.memory_mib,
            priority=first.priority,
            device=device_of(first.product) if first.product else "",
            tenant=first.namespace,
            estimate_s=first.deadline_s,
            limit_s=first.deadline_s or 0.0 if timed_out else 0.0,
            outcome=outcome,
            start_s=began_s,
        )


def _gangs(pods: list[Pod]) -> tuple[list[list[Pod]], list[Pod]]:
    """Split pods into gangs, which started and ended together, and single pods."""

    def owner(pod: Pod) -> tuple[str, str]:
        return pod.namespace, pod.gang

    gangs, single = [], [pod for pod in pods if not pod.gang]
    grouped = sorted((pod for pod in pods if pod.gang), key=owner)
    for _, members in groupby(grouped, owner):
        for run in _runs(sorted(members, key=lambda pod: (pod.created_s, pod.row))):
            if len(run) > 1 and _together(run):
                gangs.append(run)
            else:
                single += run
    return gangs, single


def _runs(pods: list[Pod]) -> list[list[Pod]]:
    """Split pods in order of creation where one is created over a minute after the first."""
    runs: list[list[Pod]] = []
    for pod in pods:
        if runs and pod.created_s - runs[-1][0].created_s <= TOGETHER_S:
            runs[-1].append(pod)
        else:
            runs.append([pod])
    return runs


def _together(pods: list[Pod]) -> bool:
    """Return whether pods use whole devices of one type and end within a minute of each other."""
    ends = [end[0] for pod in pods if (end := pod.end()) is not None]
    return (
        max(ends) - min(ends) <= TOGETHER_S
        and len({pod.product for pod in pods}) == 1
        and all(pod.share.milli == MILLI_PER_DEVICE for pod in pods)
    )
