"""Clusters from a list of nodes: groups, names of columns and models, errors with file and row."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.core.cluster import NodeGroup
from flyball.core.errors import BadInput
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.inputs.node_list import read_nodes

HEADER = "sn,cpu_milli,memory_mib,gpu,model"
GOOD = "n0,96000,393216,8,T4"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "nodes.csv"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def test_nodes_alike_are_a_group(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        HEADER,
        "n0,96000,393216,8,V100M32",
        "n1,64000,262144,0,",
        "n2,96000,393216,2,T4",
        "n3,96000,393216,8,V100M32",
        "n4,128000,786432,8,G3",
    )
    notes: list[str] = []
    got = read_nodes(path, notes)
    assert got.name == "nodes"
    assert got.groups == (
        NodeGroup("v100m32-8x96c384g-", 2, "V100-32GB", 8, 96, 384.0),
        NodeGroup("t4-2x96c384g-", 1, "T4", 2, 96, 384.0),
        NodeGroup("g3-8x128c768g-", 1, "A100", 8, 128, 768.0),
    )
    assert notes == ["1 nodes have no devices: left out"]
    assert load_cluster(path) == got


def test_the_other_names_of_columns_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "node,cpu_milli,memory_mib,num_gpus,gpu_model", GOOD)
    assert read_nodes(path).groups == (NodeGroup("t4-8x96c384g-", 1, "T4", 8, 96, 384.0),)


def test_groups_that_differ_in_a_fraction_of_a_core_have_unique_names(tmp_path: Path) -> None:
    got = read_nodes(written(tmp_path, HEADER, GOOD, "n1,96500,393216,8,T4"))
    assert [group.name for group in got.groups] == ["t4-8x96c384g-0-", "t4-8x96c384g-1-"]
    assert [group.cpus for group in got.groups] == [96, 96]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("n1,96000,393216,8,Q9", "row 3: unknown device"),
        ("n1,96000,393216,8,", "row 3: unknown device"),
        ("n1,96000,393216,65,T4", "row 3: gpu = '65' is outside 0 to 64"),
        ("n1,0,393216,8,T4", "row 3: cpu_milli = '0'"),
        ("n1,96000,much,8,T4", "row 3: memory_mib = 'much'"),
    ],
)
def test_a_bad_node_is_named_with_file_and_row(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_nodes(written(tmp_path, HEADER, GOOD, row))
    assert f"nodes.csv {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), "is empty"),
        ((HEADER,), "nodes.csv"),
        ((HEADER, "n0,64000,262144,0,"), "has no node with devices"),
        ((HEADER.replace("gpu", "cards"), GOOD), "gpu"),
    ],
    ids=["nothing", "only a header", "no devices", "missing column"],
)
def test_a_list_without_devices_is_refused(
    tmp_path: Path, lines: tuple[str, ...], message: str
) -> None:
    with pytest.raises(BadInput) as caught:
        read_nodes(written(tmp_path, *lines))
    assert message in str(caught.value)
    assert "nodes.csv" in str(caught.value)


def test_too_many_kinds_of_nodes_are_refused(tmp_path: Path) -> None:
    rows = (f"n{at},{1000 + at},393216,8,T4" for at in range(63))
    with pytest.raises(BadInput, match="has 63 kinds of nodes"):
        read_nodes(written(tmp_path, HEADER, *rows))
