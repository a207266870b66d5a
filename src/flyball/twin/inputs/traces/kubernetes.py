"""Kubernetes pods as a trace: watch events or Pod objects, one a line; or a list of Pods.

A pod with a GPU is a job; pods of one Kubeflow or Volcano job that came and went together are
one gang. `docs/reference/traces.md` says what becomes of each field.
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
"""Pods of one gang are created within this time, and end within it."""

WORST = (Outcome.FAILED, Outcome.CANCELLED, Outcome.COMPLETED)


def read(path: Path, notes: list[str]) -> Workload:
    """Read pods; the last event of each counts."""
    events = _Events(path)
    events.read()
    if not events.pods:
        raise BadInput(f"{path} has no Pod", "write pods: kubectl get pods -A -o json")
    note_count(notes, path, events.others, "objects passed over: no Pod")
    jobs = _Jobs(path, notes)
    drafts = jobs.drafts(list(events.pods.values()))
    if not drafts:
        raise BadInput(f"{path} has no pod with a GPU that ran and ended", _why_none(notes))
    return workload_of(path, drafts)


def _why_none(notes: list[str]) -> str:
    return "; ".join(notes) or "write pods that ended: kubectl get pods -A -w -o json"


class _Events:
    """The pods of a file, each as last seen."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.row = 1
        self.pods: dict[str, Pod] = {}
        self.others = 0

    def read(self) -> None:
        """Line by line; a first line that is no whole value begins a file of one value."""
        for number, (row, line) in enumerate(json_lines(self.path)):
            self.row = row
            if number == 0 and not _is_whole(line):
                self.take(parsed(self.path, 1, whole_text(self.path), self.kept))
                return
            self.take(parsed(self.path, row, line, self.kept))

    def kept(self, found: dict[str, Any]) -> Any:
        """What to keep of an object as it is read: a pod becomes a few numbers."""
        try:
            return pod_of(self.row, found) if is_pod(found) else found
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise BadInput(
                f"{at(self.path, self.row)}: {_named(found)} cannot be read ({error})",
                "write it with kubectl get pods -o json",
            ) from None

    def take(self, value: Any) -> None:
        """A line: a pod, an event with a pod, or a list of pods."""
        if isinstance(value, Pod):
            self.pods[value.uid] = value
        elif isinstance(value, list):
            for each in value:
                self.take(each)
        elif isinstance(value, dict) and isinstance(value.get("object"), Pod):
            pod: Pod = value["object"]
            self.pods[pod.uid] = pod._replace(deleted=value.get("type") == "DELETED")
        elif isinstance(value, dict) and isinstance(value.get("items"), list):
            self.take(value["items"])
        elif isinstance(value, dict):
            self.others += value.get("type") != "BOOKMARK"
        else:
            raise BadInput(f"{at(self.path, self.row)}: is no object", "write one Pod a line")


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _named(found: dict[str, Any]) -> str:
    meta = found.get("metadata")
    return f"Pod {meta.get('name')}" if isinstance(meta, dict) else "a Pod"


class _Jobs:
    """Makes jobs of pods, and notes what it leaves out."""

    def __init__(self, path: Path, notes: list[str]) -> None:
        self.path, self.notes = path, notes
        self.names: Counter[str] = Counter()

    def drafts(self, pods: list[Pod]) -> list[Draft]:
        without = [each for each in pods if each.share == NO_GPU]
        shared = [each for each in pods if each.share == UNKNOWN_SHARE]
        asking = [each for each in pods if each.share.devices > 0]
        gone = [each for each in asking if each.deleted and each.end() is None]
        ended = [each for each in asking if each.end() is not None]
        ran = [each for each in ended if each.started_s is not None]
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
        made = [self._draft([each]) for each in single] + [self._draft(each) for each in gangs]
        unknown = Counter(
            each.product for each in ran if each.product and not device_of(each.product)
        )
        note_types(self.notes, self.path, unknown)
        return made

    def _draft(self, pods: list[Pod]) -> Draft:
        """One job of one pod, or of a gang of like pods."""
        first = min(pods, key=lambda each: (each.created_s, each.row))
        began_s = min(each.started_s for each in pods if each.started_s is not None)
        ends = [end for each in pods if (end := each.end()) is not None]
        last_s = max(end_s for end_s, _ in ends)
        outcome = next(each for each in WORST if each in {how for _, how in ends})
        timed_out = any(each.reason == "DeadlineExceeded" for each in pods)
        name = f"{first.namespace}/{first.gang if len(pods) > 1 else first.name}"
        self.names[name] += 1
        again = f"#{self.names[name]}" if self.names[name] > 1 else ""
        return Draft(
            row=first.row,
            id=f"{name}{again}",
            submit_s=first.created_s,
            duration_s=max(0.0, last_s - began_s),  # clocks of nodes differ
            devices=sum(each.share.devices for each in pods),
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
    """Pods that came and went together as one gang, and all others."""

    def whose(each: Pod) -> tuple[str, str]:
        return each.namespace, each.gang

    gangs, single = [], [each for each in pods if not each.gang]
    grouped = sorted((each for each in pods if each.gang), key=whose)
    for _, members in groupby(grouped, whose):
        for run in _runs(sorted(members, key=lambda each: (each.created_s, each.row))):
            if len(run) > 1 and _together(run):
                gangs.append(run)
            else:
                single += run
    return gangs, single


def _runs(pods: list[Pod]) -> list[list[Pod]]:
    """Pods in order of creation, cut where one comes later than a minute after the first."""
    runs: list[list[Pod]] = []
    for each in pods:
        if runs and each.created_s - runs[-1][0].created_s <= TOGETHER_S:
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def _together(pods: list[Pod]) -> bool:
    """Whole devices of one type, ending within a minute."""
    ends = [end[0] for each in pods if (end := each.end()) is not None]
    return (
        max(ends) - min(ends) <= TOGETHER_S
        and len({each.product for each in pods}) == 1
        and all(each.share.milli == MILLI_PER_DEVICE for each in pods)
    )
