"""Device types that a cluster file describes."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from flyball.app import build_twin, policy_settings
from flyball.core.cluster import Network
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.workload import JobClass, Workload
from flyball.physics import catalogue
from flyball.physics.speed import speed
from flyball.twin.inputs.cluster_file import load_cluster, parse_cluster

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "clusters.md"


@pytest.fixture(autouse=True)
def _no_types_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_defined", {})


def example() -> str:
    """The example of the page."""
    text: str = re.findall(r"```yaml\n(types:.*?)```", PAGE.read_text("utf-8"), re.S)[0]
    return text


def relative(model: str | None, device: str, base: str) -> float:
    types = catalogue.get(device), catalogue.get(base)
    return speed(model, JobClass.COMPUTE_INTENSIVE, *types, 1, False, Network()).value


def parse(**own: Any) -> None:
    nodes = [{"device": "Mine", "devices": 8}]
    parse_cluster({"types": {"Mine": own}, "nodes": nodes}, "mine.yaml")


def test_the_example_of_the_docs_is_read_as_described(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(example())
    cluster = load_cluster(path)
    assert [group.device for group in cluster.groups] == ["A100-fast", "V100"]
    device, like = catalogue.get("a100 fast"), catalogue.get("A100")
    assert (device.memory_gib, device.peak_w) == (96, 500)
    assert device.idle_w == pytest.approx(like.idle_w * 500 / like.peak_w)
    assert device.bandwidth_gb_s == like.bandwidth_gb_s
    assert relative("ResNet-50", "A100-fast", "V100") == pytest.approx(3.1)
    assert relative("Transformer", "A100-fast", "A100") == pytest.approx(1.24)
    for model in (None, "ResNet-18", "something new"):
        assert relative(model, "A100-fast", "A100") == pytest.approx(1.15)
        assert relative(model, "A100", "A100-fast") == pytest.approx(1 / 1.15)
    assert relative("ResNet-50", "A100-fast", "A100-fast") == 1.0


def test_stated_speed_decides_the_run_time(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(example())
    cluster = load_cluster(path)
    workload = Workload.of(
        "two", [0, 0], [3100.0, 3100.0], model=[0, 1], models=("ResNet-50", "unheard of"),
        device=[0, 0], device_names=("V100",), devices=[1, 1],
        kind=[int(JobClass.COMPUTE_INTENSIVE)] * 2,
    )  # fmt: skip
    (fast,) = policy_settings("fifo", ["place=fastest"])
    results = build_twin(cluster, workload, fast, Effects()).replay()
    assert results.pool.tolist() == [0, 0]
    assert results.end_us[0] / 1e6 == pytest.approx(1000, rel=1e-6)
    ratio = relative("unheard of", "A100", "V100") * 1.15
    assert results.end_us[1] / 1e6 == pytest.approx(3100 / ratio, rel=1e-6)


def test_types_travel_with_the_cluster_to_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(example())
    sent = pickle.dumps(load_cluster(path))
    monkeypatch.setattr(catalogue, "_defined", {})  # as a new process begins
    cluster = pickle.loads(sent)
    workload = Workload.of("one", [0], [10.0], devices=[1])
    (fifo,) = policy_settings("fifo", [])
    assert build_twin(cluster, workload, fifo, Effects()).replay().end_us[0] > 0


def test_two_files_may_describe_a_name_differently() -> None:
    """The one whose twin is built counts, not the one read last."""
    ends = []
    clusters = [
        parse_cluster(
            {
                "types": {"Mine": {"like": "V100", "speed": times}},
                "nodes": [{"device": "Mine", "devices": 1}],
            },
            "mine.yaml",
        )
        for times in (1.0, 4.0)
    ]
    workload = Workload.of("one", [0], [400.0], devices=[1], device=[0], device_names=("V100",))
    (fifo,) = policy_settings("fifo", [])
    for cluster in clusters:
        ends.append(build_twin(cluster, workload, fifo, Effects()).replay().end_us[0] / 1e6)
    assert ends == pytest.approx([400.0, 100.0])


def test_recorded_on_may_name_a_described_type() -> None:
    content = yaml.safe_load(example()) | {"recorded_on": "A100-fast"}
    assert parse_cluster(content, "mine.yaml").recorded_on == "A100-fast"


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"speed": 2}, "types: Mine has no 'like'"),
        ({"like": "A10O"}, "did you mean"),
        ({"like": "A100", "sped": 2}, "did you mean 'speed'"),
        ({"like": "A100", "speed": 0}, "speed = 0 is not valid; use 0.001 to 1000"),
        ({"like": "A100", "speed": True}, "speed = True is not valid"),
        ({"like": "A100", "memory_gib": "much"}, "memory_gib = 'much' is not valid"),
        ({"like": "A100", "idle_w": 500}, "idle_w is not below peak_w"),
        ({"like": "A100", "speeds": 3}, "speeds must be models with speeds"),
        ({"like": "A100", "speeds": {"resnet50": -1}}, "resnet50 = -1 is not valid"),
        ({"like": "A100", "speeds": {"m": {"Mine": 2}}}, "samples per second of Mine"),
        ({"like": "A100", "speeds": {"m": {"Mine": 2, "V10O": 1}}}, "did you mean 'V100'"),
    ],
)
def test_errors_say_where_and_what_to_do(own: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(**own)
    assert says in str(caught.value)
    assert "mine.yaml: types" in str(caught.value)


def test_names_of_the_catalogue_are_refused() -> None:
    with pytest.raises(BadInput, match="'a100' is in the catalogue already"):
        parse_cluster(
            {"types": {"a100": {"like": "V100"}}, "nodes": [{"device": "V100", "devices": 1}]}, "f"
        )


def test_unknown_device_of_a_group_suggests_a_described_type() -> None:
    content = {
        "types": {"Superchip": {"like": "H100"}},
        "nodes": [{"device": "Superchp", "devices": 1}],
    }
    with pytest.raises(BadInput, match="did you mean 'Superchip'"):
        parse_cluster(content, "f")
