"""Kubernetes pods: golden sample, gangs, shares, faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.twin.inputs.traces import detect, read_trace

SAMPLE = Path(__file__).parent / "samples" / "kubernetes.jsonl"
WEDNESDAY_8_H = 2 * 86_400 + 8 * 3_600


def pod(name: str = "p", **changes: Any) -> dict[str, Any]:
    """A pod that ran from 8:00:10 to 8:10:10 on one GPU."""
    meta = {"name": name, "namespace": "n", "uid": f"uid-{name}", **changes.pop("metadata", {})}
    status = {
        "phase": "Succeeded",
        "startTime": "2024-05-01T08:00:10Z",
        "containerStatuses": [
            {"state": {"terminated": {"finishedAt": "2024-05-01T08:10:10Z", "exitCode": 0}}}
        ],
        **changes.pop("status", {}),
    }
    limits = changes.pop("limits", {"nvidia.com/gpu": "1"})
    spec = {"containers": [{"resources": {"limits": limits}}], **changes.pop("spec", {})}
    return {
        "kind": "Pod",
        "metadata": {"creationTimestamp": "2024-05-01T08:00:00Z", **meta},
        "spec": spec,
        "status": status,
        **changes,
    }


def written(folder: Path, *values: Any) -> Path:
    path = folder / "pods.jsonl"
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values))
    return path


def test_sample() -> None:
    notes: list[str] = []
    got = read_trace(SAMPLE, notes=notes)
    assert got.ids.tolist() == [
        "vision/train-a", "chat/infer", "chat/note", "vision/big", "vision/loose-0",
        "vision/loose-1", "speech/again", "speech/again#2", "chat/half", "chat/third",
    ]  # fmt: skip
    minutes = np.array([0, 5, 6, 10, 20, 20, 30, 31, 40, 41])
    assert (got.submit_us / 1e6 - WEDNESDAY_8_H).tolist() == (minutes * 60).tolist()
    assert (got.duration_us / 1e6).tolist() == [
        3600, 600, 1800, 6500, 2400, 6000, 30, 30, 600, 600,
    ]  # fmt: skip
    assert got.devices.tolist() == [3, 1, 1, 16, 1, 1, 1, 1, 1, 1]
    assert got.milli.tolist() == [1000, 142, 1000, 1000, 1000, 1000, 1000, 1000, 500, 300]
    assert got.memory_mib.tolist() == [0, 5 * 1024, 0, 0, 0, 0, 0, 0, 0, 3000]
    assert got.priority.tolist() == [10, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    devices = [got.device_names[code] if code >= 0 else None for code in got.device]
    assert devices == ["A100", None, "T4", None, None, None, None, None, None, None]
    assert [got.tenants[code] for code in got.tenant] == [str(job).split("/")[0] for job in got.ids]
    assert got.estimate_us[1] == 600e6
    assert np.isnan(np.delete(got.estimate_us, 1)).all()
    assert got.limit_us.tolist() == [0, 600_000_000, 0, 0, 0, 0, 0, 0, 0, 0]
    assert [Outcome(code).name[0] for code in got.outcome] == list("CFC" + "CCC" + "FF" + "CC")
    assert got.outcome[2] == Outcome.CANCELLED
    assert notes == [
        "kubernetes.jsonl: 1 objects skipped: not a Pod",
        "kubernetes.jsonl: 1 pods left out: no GPU, and the twin schedules devices",
        "kubernetes.jsonl: 1 pods left out: a time-sliced GPU, whose share is not in the pod",
        "kubernetes.jsonl: 1 pods left out: not ended",
        "kubernetes.jsonl: 1 pods left out: never started",
        "kubernetes.jsonl: 2 pods gathered into 1 gangs",
        "kubernetes.jsonl: jobs on devices the catalogue does not have: NVIDIA-B300 (2); taken "
        "as jobs that name no device type",
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_as_kubectl_prints_it(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "pods.json"
    listed = {"apiVersion": "v1", "kind": "List", "items": [pod("a"), pod("b")]}
    path.write_text(json.dumps(listed, indent=indent))
    assert detect(path) == "kubernetes"
    assert read_trace(path).ids.tolist() == ["n/a", "n/b"]


def test_a_list_longer_than_a_line_may_be(tmp_path: Path) -> None:
    path = written(tmp_path, {"kind": "PodList", "items": [pod(f"p{i}") for i in range(400)]})
    assert path.stat().st_size > 100_000
    assert len(read_trace(path)) == 400


def test_items_of_the_api_have_no_kind(tmp_path: Path) -> None:
    plain = pod("a")
    del plain["kind"]
    assert read_trace(written(tmp_path, plain)).ids.tolist() == ["n/a"]


def test_the_last_event_counts(tmp_path: Path) -> None:
    running = pod(status={"phase": "Running", "containerStatuses": []})
    failed = pod(status={"phase": "Failed"})
    path = written(
        tmp_path, {"type": "ADDED", "object": running}, {"type": "MODIFIED", "object": failed}
    )
    assert read_trace(path).outcome.tolist() == [Outcome.FAILED]


def test_a_finished_pod_that_is_deleted_stays_finished(tmp_path: Path) -> None:
    gone = pod(metadata={"deletionTimestamp": "2024-05-01T20:00:00Z"})
    got = read_trace(written(tmp_path, {"type": "DELETED", "object": gone}))
    assert got.outcome.tolist() == [Outcome.COMPLETED]
    assert got.duration_us.tolist() == [600e6]


def test_an_evicted_pod_ends_when_its_conditions_changed(tmp_path: Path) -> None:
    changed = [{"type": "Ready", "lastTransitionTime": "2024-05-01T08:05:10Z"}]
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "containerStatuses": [],
        "conditions": changed,
    }
    got = read_trace(written(tmp_path, pod(status=status)))
    assert got.duration_us.tolist() == [300e6]


def worker(name: str, created: str, finished: str, **changes: Any) -> dict[str, Any]:
    ended = [{"state": {"terminated": {"finishedAt": f"2024-05-01T{finished}Z"}}}]
    meta = {
        "creationTimestamp": f"2024-05-01T{created}Z",
        "labels": {"volcano.sh/job-name": "gang"},
    }
    return pod(name, metadata=meta, status={"containerStatuses": ended}, **changes)


@pytest.mark.parametrize(
    ("second", "devices"),
    [
        (worker("b", "08:00:59", "09:00:59"), [2]),
        (worker("b", "08:01:01", "09:00:00"), [1, 1]),
        (worker("b", "08:00:00", "09:01:01"), [1, 1]),
        (worker("b", "08:00:00", "09:00:00", spec={"nodeSelector": {"x": "y"}}), [2]),
        (
            worker("b", "08:00:00", "09:00:00",
                   spec={"nodeSelector": {"nvidia.com/gpu.product": "T4"}}),
            [1, 1],
        ),
        (worker("b", "08:00:00", "09:00:00", limits={"nvidia.com/mig-1g.5gb": 1}), [1, 1]),
    ],
)  # fmt: skip
def test_what_makes_a_gang(tmp_path: Path, second: dict[str, Any], devices: list[int]) -> None:
    got = read_trace(written(tmp_path, worker("a", "08:00:00", "09:00:00"), second))
    assert got.devices.tolist() == devices


def test_a_gang_ends_as_badly_as_its_worst_pod(tmp_path: Path) -> None:
    bad = worker("b", "08:00:00", "09:00:00")
    bad["status"]["phase"] = "Failed"
    got = read_trace(written(tmp_path, worker("a", "08:00:00", "09:00:00"), bad))
    assert got.ids.tolist() == ["n/gang"]
    assert got.outcome.tolist() == [Outcome.FAILED]


def test_init_containers_count_if_they_ask_for_more(tmp_path: Path) -> None:
    first = [{"resources": {"requests": {"nvidia.com/gpu": 4}}}]
    got = read_trace(written(tmp_path, pod(spec={"initContainers": first})))
    assert got.devices.tolist() == [4]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"kind": "Pod"', "row 1: is not JSON"),
        (json.dumps(pod()) + "\n{broken", "row 2: is not JSON"),
        (json.dumps(pod()) + "\n\n7", "row 3: is not an object"),
        ('{"kind": "Node", "metadata": {"name": "x"}}', "has no Pod"),
        (json.dumps(pod(metadata={"creationTimestamp": None})),
         "row 1: Pod p cannot be read (no metadata.creationTimestamp)"),
        (json.dumps(pod(metadata={"creationTimestamp": "soon"})), "row 1: Pod p cannot be read"),
        (json.dumps(pod(limits={"nvidia.com/gpu": "one"})),
         "row 1: Pod p cannot be read (nvidia.com/gpu 'one' is not a whole number)"),
        (json.dumps(pod(metadata={"annotations": {"gpu-fraction": "1.5"}})), "outside 0 to 1"),
        (json.dumps(pod(limits={})), "has no pod with a GPU that ran and ended"),
        (json.dumps(pod(status={"phase": "Running"})), "1 pods left out: not ended"),
    ],
)  # fmt: skip
def test_faults(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_trace(path, "kubernetes")
    assert says in str(caught.value)
    assert "bad.jsonl" in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("resource", "label", "value", "device"),
    [
        (
            "google.com/tpu",
            "cloud.google.com/gke-tpu-accelerator",
            "tpu-v5-lite-podslice",
            "TPUv5e",
        ),
        ("amd.com/gpu", "amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM", "MI300X"),
        ("habana.ai/gaudi", "nvidia.com/gpu.product", "Gaudi2", "Gaudi2"),
        ("aws.amazon.com/neuron", "nvidia.com/gpu.product", "trn1", "Trainium1"),
        ("nvidia.com/gpu", "cloud.google.com/gke-accelerator", "nvidia-l4", "L4"),
    ],
)
def test_accelerators_of_other_makers(
    tmp_path: Path, resource: str, label: str, value: str, device: str
) -> None:
    asked = pod(limits={resource: "4"}, spec={"nodeSelector": {label: value}})
    got = read_trace(written(tmp_path, asked))
    assert got.devices.tolist() == [4]
    assert [got.device_names[code] for code in got.device] == [device]
