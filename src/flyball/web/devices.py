"""The devices of a cluster as columns: who holds each, how busy, how warm, how much power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flyball.core.jobs import Job
from flyball.core.workload import CLASS_LABELS, JobClass
from flyball.physics import catalogue
from flyball.physics.power import draw_w

CORE = "CPU1"
PERCENT = 100


@dataclass(frozen=True)
class DeviceTable:
    """One entry per device, in the order of the nodes.

    Attributes:
        nodes: name, type and number of devices of each node, and whether it is up.
        job: id of the job that holds it; 0 = free.
        use: percent, measured or, as for virtual nodes, whether it is held; -1 = not known.
        power_w: measured or modelled.
        temperature_c: measured; -1 = not known.
        jobs: user, name and class of every running job.
        power_source, use_source: `measured` or `modelled`.
        total_w: power of all devices.
    """

    nodes: list[list[Any]]
    job: list[int]
    use: list[int]
    power_w: list[int]
    temperature_c: list[int]
    jobs: dict[int, list[str]]
    power_source: str
    use_source: str
    total_w: float

    @property
    def held(self) -> int:
        """Return the number of devices that are held."""
        return sum(1 for job in self.job if job)

    def columns(self) -> dict[str, list[int]]:
        """Return what is drawn, by name."""
        return {
            "job": self.job, "use": self.use, "power": self.power_w,
            "temperature": self.temperature_c,
        }  # fmt: skip


def device_table(
    nodes: Sequence[Mapping[str, Any]],
    running: Sequence[Job],
    telemetry: Mapping[str, Any],
    before: DeviceTable | None,
) -> DeviceTable:
    """Return the devices of all nodes.

    Args:
        nodes: as `GET /nodes` returns them.
        before: an earlier table, whose list of nodes is used again if nothing changed.
    """
    of_job = {job.id: job for job in running}
    is_measured = bool(telemetry) and len(nodes) == 1
    table = DeviceTable(
        [], [], [], [], [], {}, "modelled", "measured" if is_measured else "modelled", 0.0
    )
    total_w, has_power = 0.0, False
    for node in nodes:
        table.nodes.append([node["name"], node["device"], node["devices"], bool(node["up"])])
        idle_w, draws = _draws(str(node["device"]))
        for at, holders in enumerate(node["held"]):
            job = of_job.get(holders[0]) if holders else None
            watts = draws[_kind(job)] if job is not None else idle_w
            measured = _measured(telemetry, str(node["device"]), at) if is_measured else {}
            has_power = has_power or "power_w" in measured
            watts = float(measured.get("power_w", watts))
            total_w += watts
            table.job.append(holders[0] if holders else 0)
            table.use.append(round(measured.get("use", -1 if is_measured else PERCENT * bool(job))))
            table.power_w.append(round(watts))
            table.temperature_c.append(round(measured.get("temperature_c", -1)))
    table.jobs.update(
        {job.id: [job.spec.user, job.spec.name, job.spec.kind, job.label] for job in running}
    )
    shared = before.nodes if before is not None and before.nodes == table.nodes else table.nodes
    if is_measured and "power.host_modelled_w" in telemetry and not has_power:
        total_w = float(telemetry["power.host_modelled_w"])
    return DeviceTable(
        shared, table.job, table.use, table.power_w, table.temperature_c, table.jobs,
        "measured" if has_power else "modelled", table.use_source, total_w,
    )  # fmt: skip


def _kind(job: Job) -> str:
    return job.spec.kind if job.spec.kind in CLASS_LABELS else JobClass.COMPUTE_INTENSIVE.label


_DRAWS: dict[str, tuple[float, dict[str, float]]] = {}


def _draws(device: str) -> tuple[float, dict[str, float]]:
    """Return the idle power of a device, and its draw by class of job."""
    if device not in _DRAWS:
        described = catalogue.get(device)
        by_class = {kind.label: draw_w(described, kind) for kind in JobClass}
        _DRAWS[device] = described.idle_w, by_class
    return _DRAWS[device]


def _measured(telemetry: Mapping[str, Any], device: str, at: int) -> dict[str, float]:
    """Return what is measured of one device of this machine."""
    if device == CORE:
        use = telemetry.get(f"compute.core{at}_percent")
        return {} if use is None else {"use": float(use)}
    names = {"use": "use_percent", "power_w": "power_w", "temperature_c": "temperature_c"}
    values = {key: telemetry.get(f"gpu{at}.{name}") for key, name in names.items()}
    return {key: float(value) for key, value in values.items() if value is not None}
