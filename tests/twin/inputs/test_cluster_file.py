"""Cluster files: how they are read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.core.cluster import Tenant
from flyball.core.errors import BadInput
from flyball.twin.inputs.cluster_file import load_cluster, presets

GROUP = "{name: a, count: 2, device: V100, devices: 4}"


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "c.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_full_file(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        name: lab
        nodes:
          - {name: a, count: 8, device: V100, devices: 8, cpus: 48, memory_gib: 256}
          - {name: b, device: t4, devices: 4}
        power_budget_kw: 20.5
        network: {between_nodes_gbit_s: 25}
        tenants:
          - {name: vision, quota: 32, borrow: 16, weight: 2}
          - {name: speech, quota: 36, borrow: none}
          - {name: others, quota: 0}
        """,
    )
    cluster = load_cluster(path)
    assert cluster.name == "lab"
    assert cluster.node_count == 9
    assert cluster.device_count == 68
    assert cluster.groups[0].cpus == 48
    assert cluster.groups[0].memory_gib == 256.0
    assert cluster.groups[1].device == "T4"
    assert cluster.groups[1].count == 1
    assert cluster.power_budget_w == 20_500.0
    assert cluster.network.between_nodes_gbit_s == 25.0
    assert cluster.network.inside_node_gbit_s == 1200.0
    assert cluster.tenants == (
        Tenant("vision", 32, 16, 2.0),
        Tenant("speech", 36),
        Tenant("others", 0),
    )


def test_the_name_is_the_files(tmp_path: Path) -> None:
    cluster = load_cluster(str(write(tmp_path, f"nodes: [{GROUP}]")))
    assert cluster.name == "c"
    assert cluster.power_budget_w == 0.0


@pytest.mark.parametrize("name", presets())
def test_presets_load(name: str) -> None:
    cluster = load_cluster(name)
    assert cluster.name == name
    assert cluster.device_count > 0
    assert presets()[name]["about"]


def test_presets_users_rely_on() -> None:
    five = load_cluster("five-mixed")
    assert five.node_count == 5
    assert len({group.device for group in five.groups}) == 5
    assert load_cluster("philly-8x8").device_count == 64
    assert load_cluster("philly-26x8").device_count == 208
    assert load_cluster("homogeneous-1k").node_count == 1000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be keys with values, not nothing"),
        ("[1, 2]", "must be keys with values, not a list"),
        ("nodes: []", "'nodes' must be a list"),
        ("nodes: 5", "'nodes' must be a list"),
        (f"nodes: [{GROUP}]\nnode: 3", "did you mean 'nodes'"),
        ("nodes: [5]", r"nodes\[0\] must be keys with values"),
        ("nodes: [{name: a, devices: 4}]", r"nodes\[0\] has no 'device'"),
        ("nodes: [{name: a, device: V100}]", r"nodes\[0\] has no 'devices'"),
        ("nodes: [{device: V10, devices: 4}]", "did you mean 'V100'"),
        ("nodes: [{device: V100, devices: 4, coun: 2}]", "did you mean 'count'"),
        ("nodes: [{device: V100, devices: 65}]", "from 1 to 64"),
        ("nodes: [{device: V100, devices: 0}]", "from 1 to 64"),
        ("nodes: [{device: V100, devices: 1.5}]", "whole number"),
        ("nodes: [{device: V100, devices: true}]", "whole number"),
        ("nodes: [{device: V100, devices: 4, count: 1000000000}]", "from 1 to 100000"),
        ("nodes: [{device: V100, devices: 4, count: -1}]", "from 1 to"),
        ("nodes: [{device: V100, devices: 4, memory_gib: .nan}]", "use 0 to"),
        ("nodes: [{device: V100, devices: 4, memory_gib: .inf}]", "use 0 to"),
        ("nodes: [{device: V100, devices: 4, name: [a]}]", "is not a name"),
        ("nodes: [{device: 100, devices: 4}]", "is not a name"),
        (f"nodes: [{GROUP}, {GROUP}]", "two groups of nodes are named 'a'"),
        (f"nodes: [{GROUP}]\npower_budget_kw: -1", "power_budget_kw"),
        (f"nodes: [{GROUP}]\npower_budget_kw: lots", "power_budget_kw"),
        (f"nodes: [{GROUP}]\nnetwork: fast", "network must be keys"),
        (f"nodes: [{GROUP}]\nnetwork: {{between_gbit: 1}}", "did you mean 'between_nodes_gbit_s'"),
        (f"nodes: [{GROUP}]\nnetwork: {{inside_node_gbit_s: 0}}", "inside_node_gbit_s = 0"),
        ("nodes: [{device: V100, devices: 0x" + "f" * 9000 + "}]", "a huge number"),
        (
            f"nodes: [{GROUP}]\ntenants: {{name: a, quota: 1}}",
            "'tenants' must be a list, not a dict",
        ),
        (f"nodes: [{GROUP}]\ntenants: [a]", r"tenants\[0\] must be keys with values"),
        (f"nodes: [{GROUP}]\ntenants: [{{name: a}}]", r"tenants\[0\] has no 'quota'"),
        (f"nodes: [{GROUP}]\ntenants: [{{quota: 1}}]", r"tenants\[0\] has no 'name'"),
        (f"nodes: [{GROUP}]\ntenants: [{{name: a, quota: -1}}]", "quota = -1 is not valid"),
        (f"nodes: [{GROUP}]\ntenants: [{{name: a, quota: 1, borow: 1}}]", "did you mean 'borrow'"),
        (
            f"nodes: [{GROUP}]\ntenants: [{{name: a, quota: 1, borrow: x}}]",
            "borrow = 'x' is not valid",
        ),
        (
            f"nodes: [{GROUP}]\ntenants: [{{name: a, quota: 1, weight: 0}}]",
            "weight = 0 is not valid",
        ),
        (f"nodes: [{GROUP}]\ntenants: [{{name: a, quota: 9}}]", "sum to 9 .* has 8; lower some"),
        (
            f"nodes: [{GROUP}]\ntenants: [{{name: a, quota: 1}}, {{name: a, quota: 2}}]",
            "two tenants are named 'a'",
        ),
    ],
)
def test_refused_with_place_and_remedy(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BadInput, match=words) as caught:
        load_cluster(path)
    assert "c.yaml" in str(caught.value)
    assert len(str(caught.value)) < 600


def test_yaml_errors_name_the_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="line 4: not YAML"):
        load_cluster(write(tmp_path, "nodes:\n  - {name: a}\n  - {name: b\n: :"))


@pytest.mark.parametrize("text", [b"\xff\xfe\x00bad", b"a: \x00", "[" * 3000, "!!python/none 1"])
def test_not_yaml_at_all(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(BadInput, match=r"c\.yaml"):
        load_cluster(write(tmp_path, text))


def test_yaml_can_run_nothing(tmp_path: Path) -> None:
    target = tmp_path / "touched"
    text = f'!!python/object/apply:pathlib.Path.touch ["{target}"]'
    with pytest.raises(BadInput, match="not YAML"):
        load_cluster(write(tmp_path, text))
    assert not target.exists()


def test_aliases_cannot_blow_up(tmp_path: Path) -> None:
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    text = "\n".join(["a0: &a0 [x]", *levels, "nodes: [{device: V100, devices: *a29}]"])
    with pytest.raises(BadInput):
        load_cluster(write(tmp_path, text))
    text = "\n".join(["nodes:", "- device: V100", "  devices: &a [1, *a]"])
    with pytest.raises(BadInput, match="whole number"):
        load_cluster(write(tmp_path, text))


def test_limits_on_size(tmp_path: Path) -> None:
    many = ", ".join(f"{{name: n{i}, device: V100, devices: 1}}" for i in range(65))
    with pytest.raises(BadInput, match="use at most 62"):
        load_cluster(write(tmp_path, f"nodes: [{many}]"))
    large = ", ".join(f"{{name: n{i}, device: T4, devices: 1, count: 60000}}" for i in range(2))
    with pytest.raises(BadInput, match="120000 nodes in all"):
        load_cluster(write(tmp_path, f"nodes: [{large}]"))
    with pytest.raises(BadInput, match="is it a trace"):
        load_cluster(write(tmp_path, "#" * 1_100_000))


def test_neither_file_nor_preset(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="did you mean 'five-mixed'"):
        load_cluster("five-mixd")
    with pytest.raises(BadInput, match=r"gone\.yaml: no such cluster file"):
        load_cluster(tmp_path / "gone.yaml")
    with pytest.raises(BadInput, match="cannot be read"):
        load_cluster(tmp_path)
