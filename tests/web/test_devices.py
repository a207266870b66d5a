"""The table of devices: who holds each, and what is sent of it when something changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flyball.core.jobs import Job, JobSpec, JobState, Row
from flyball.web.devices import device_table

NODE = {"name": "a", "up": True, "device": "V100", "devices": 2}


def job(number: int, user: str) -> Job:
    spec = JobSpec(("true",), name="train", user=user, kind="memory-bound", gpus=1)
    return replace(Job(number, spec, 0), state=JobState.RUNNING, rows=(Row(0, 1),))


def test_virtual_devices_are_modelled() -> None:
    nodes: list[dict[str, Any]] = [NODE | {"held": [[7], []]}, NODE | {"held": [[], []]}]
    table = device_table(nodes, [job(7, "ada")], {}, None)
    assert table.job == [7, 0, 0, 0]
    assert table.use == [100, 0, 0, 0]
    assert table.held == 1
    assert table.jobs == {7: ["ada", "train", "memory-bound", "7"]}
    assert table.power_w[0] > table.power_w[1] == table.power_w[2]
    assert table.temperature_c == [-1] * 4
    assert (table.power_source, table.use_source) == ("modelled", "modelled")
    again = device_table(nodes, [job(7, "ada")], {}, table)
    assert again.nodes is table.nodes  # so that only changes are sent


def test_measured_values_are_used_where_there_are_any() -> None:
    nodes: list[dict[str, Any]] = [NODE | {"held": [[7], []]}]
    telemetry = {"gpu0.use_percent": 83.0, "gpu0.power_w": 210.0, "gpu0.temperature_c": 61.0}
    table = device_table(nodes, [job(7, "ada")], telemetry, None)
    assert (table.use, table.temperature_c) == ([83, -1], [61, -1])
    assert table.power_w[0] == 210
    assert table.power_source == "measured"
