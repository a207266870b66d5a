"""Slurm's notation: times, sizes, arrays, dependencies, signals, GPUs, variables."""

from __future__ import annotations

import signal

import pytest

from flyball.cli.jobs import sbatch
from flyball.core.errors import BadInput


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("0", 0),
        ("1:30", 90),
        ("1:30:00", 5400),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        ("1-00:00:01", 86_401),
        ("UNLIMITED", 0),
        ("infinite", 0),
        ("45s", 45),
        ("90m", 5400),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("2d", 172_800),
        ("2min", 120),
        (" 10S ", 10),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert sbatch.time_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-5",
        "1:2:3:4",
        "1-",
        "-1",
        "1-2-3",
        "1:",
        ":30",
        "3w",
        "1e3",
        "1.5",
        "٣",
    ],
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(BadInput, match="is not a time"):
        sbatch.time_s(text)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("512", 512), ("4G", 4096), ("1.5g", 1536), ("1T", 2**20), ("1024K", 1), ("1K", 1),
        ("0", 0), ("2GB", 2048), ("2GiB", 2048), ("300M", 300),
    ],
)  # fmt: skip
def test_sizes(text: str, mib: int) -> None:
    assert sbatch.memory_mib(text) == mib


@pytest.mark.parametrize("text", ["", "G", "-1", "1P", "lots", "1e3", "nan"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(BadInput, match="is not a size"):
        sbatch.memory_mib(text)


@pytest.mark.parametrize(
    ("text", "indices", "limit"),
    [
        ("0-3", (0, 1, 2, 3), 0),
        ("0-9%4", tuple(range(10)), 4),
        ("1,3,5-7:2", (1, 3, 5, 7), 0),
        ("0-30:10", (0, 10, 20, 30), 0),
        ("7", (7,), 0),
        ("3,1,1-2%1", (1, 2, 3), 1),
        ("1, 3", (1, 3), 0),
    ],
)
def test_arrays(text: str, indices: tuple[int, ...], limit: int) -> None:
    tasks = sbatch.array_tasks(text)
    assert tasks == (indices, limit, text.replace(" ", ""))


@pytest.mark.parametrize(
    "text", ["", "a", "5-3", "0-9%", "0-9%0", "0-9:0", "1--2", "0-10000", "0-9999999999", "1,,2"]
)
def test_what_is_no_array(text: str) -> None:
    with pytest.raises(BadInput, match="array"):
        sbatch.array_tasks(text)


def test_an_array_of_many_ranges_is_bounded_as_well() -> None:
    with pytest.raises(BadInput, match="more than 10,000 tasks"):
        sbatch.array_tasks("0-8000,10000-18000")


def test_dependencies() -> None:
    assert sbatch.dependencies("afterok:12:13,afterany:14_2") == [
        ("afterok", "12"),
        ("afterok", "13"),
        ("afterany", "14_2"),
    ]
    assert sbatch.dependencies("AfterNotOK:1") == [("afternotok", "1")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("afterok:1?afterok:2", "'any one of' is not supported"),
        ("afterok", "no job after 'afterok'"),
        ("afterok:", "no job after 'afterok'"),
        ("singleton", "'singleton' is not supported; use afterany:ID"),
        ("after:3", "'after' is not supported; use afterany:ID"),
        ("aftrok:3", "did you mean 'afterok'"),
        ("", "unknown dependency"),
    ],
)
def test_bad_dependencies(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        sbatch.dependencies(text)


def test_signals() -> None:
    assert sbatch.limit_signal("USR1@60") == (signal.SIGUSR1, 60.0, False)
    assert sbatch.limit_signal("B:SIGUSR2") == (signal.SIGUSR2, None, True)
    assert sbatch.limit_signal("10") == (10, None, False)
    for text in ("", "NONE", "USR1@", "999", "0", "USR1@x"):
        with pytest.raises(BadInput, match="is not a signal"):
            sbatch.limit_signal(text)


def test_devices() -> None:
    assert sbatch.gpu_share("2") == (2, 1000)
    assert sbatch.gpu_share("0.25") == (1, 250)
    assert sbatch.gpu_share(".5") == (1, 500)
    assert sbatch.gpu_share("gpu:a100:2") == (2, 1000)
    assert sbatch.gpu_share("a100:2") == (2, 1000)
    for text in ("", "1.5", "-1", "0.0", "many", "a100:2,v100:1", "a100"):
        with pytest.raises(BadInput, match="is not a number of GPUs"):
            sbatch.gpu_share(text)


@pytest.mark.parametrize(
    ("text", "share", "others"),
    [
        ("gpu", (1, 1000), []),
        ("gpu:2", (2, 1000), []),
        ("gpu:a100", (1, 1000), []),
        ("gpu:a100:2", (2, 1000), []),
        ("gpu:a100:2(S:0-1)", (2, 1000), []),
        ("gres/gpu=4", (4, 1000), []),
        ("gpu:1,tmpdisk:10", (1, 1000), ["tmpdisk"]),
        ("tmpdisk:100", (0, 1000), ["tmpdisk"]),
        ("tmpdisk:100,gpu:v100:2,shard", (2, 1000), ["tmpdisk", "shard"]),
        ("gpu:a100:1,gpu:v100:2", (3, 1000), []),
        ("gpu:0.5", (1, 500), []),
        ("none", (0, 1000), []),
    ],
)
def test_devices_among_other_things(text: str, share: tuple[int, int], others: list[str]) -> None:
    assert sbatch.gres_share(text) == share
    assert sbatch.gres(text)[1] == others


@pytest.mark.parametrize("text", ["gpu:2x", "gpu:a:b:c:1", "gpu:0.5,gpu:1"])
def test_what_is_no_number_of_devices(text: str) -> None:
    with pytest.raises(BadInput, match="GPUs"):
        sbatch.gres_share(text)


def test_variables() -> None:
    environ = {"PATH": "/bin", "HOME": "/root", "SECRET": "x"}
    assert sbatch.exported("ALL", {"A": "1", "SLURM_JOB_ID": "7"}) == {"A": "1"}
    assert sbatch.exported(None, environ) == {"PATH": "/bin"}
    assert sbatch.exported("NONE", environ) == {}
    assert sbatch.exported("ALL", environ) == environ
    assert sbatch.exported("ALL,A=1", environ) == {**environ, "A": "1"}
    assert sbatch.exported("HOME,B=2=3,ABSENT", environ) == {"HOME": "/root", "B": "2=3"}
    with pytest.raises(BadInput, match="is not a variable"):
        sbatch.exported("1A=2", environ)
