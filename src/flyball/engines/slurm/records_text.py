"""Reads `scontrol -o show`: nodes, partitions, settings, and where a running job is.

One line per record, `Key=value` between spaces. Only a job's record holds text that a user chose:
its name may contain anything, so that a line may be forged. Allocations are therefore taken only
from the one line that begins with the job asked about and is the only one that does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from flyball.core.errors import BadInput
from flyball.engines.slurm.queue_text import NOTHING, gpus_of, limit_s

_PAIR = re.compile(r"(?:^|\s)([A-Za-z][\w/:.-]*)=")
_GRES_GPU = re.compile(r"(?:^|,)gpu(?::([A-Za-z][^:(,]*))?:(\d+)")
_SHARE = re.compile(r"\sNodes=(\S+) CPU_IDs=(\S*) Mem=(\d+) GRES=(\S*)")
OUT = {
    *("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "FUTURE", "INVAL", "INVALID"),
    *("INVALID_REG", "MAINT", "MAINTENANCE", "NOT_RESPONDING", "PERFCTRS", "POWERING_DOWN"),
    *("REBOOT", "REBOOT_ISSUED", "UNKNOWN"),
}
"""Words in a node's state in which no new job starts on it."""


class SlurmNode(NamedTuple):
    """Holds one node.

    Attributes:
        available: whether new jobs may start on it.
        address: at which other nodes reach it.
        reason: why it is not available, as an administrator stated it.
        cpus_used, gpus_used, memory_used_mib: what all jobs on it have.
        gpu_type: as the site writes it; "" = not stated, or there are none.
    """

    name: str
    cpus: int
    memory_mib: int
    gpus: int
    gpu_type: str
    state: str
    available: bool
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    address: str = ""
    reason: str = ""
    cpus_used: int = 0
    gpus_used: int = 0
    memory_used_mib: int = 0


class Partition(NamedTuple):
    """Holds one partition: whether it is up, its rank among others, its longest time limit."""

    name: str
    up: bool
    tier: int
    max_s: float | None
    default_s: float | None
    exclusive: bool


class Share(NamedTuple):
    """Holds what a running job has on one node."""

    node: str
    cpus: int
    memory_mib: int
    gpus: int


def read_nodes(output: bytes) -> list[SlurmNode]:
    """Return the nodes of `scontrol -o -d show node`."""
    return [_node(record) for record in _records(output, "NodeName")]


def read_partitions(output: bytes) -> list[Partition]:
    """Return the partitions of `scontrol -o show partition`."""
    return [_partition(record) for record in _records(output, "PartitionName")]


def read_settings(output: bytes) -> dict[str, str]:
    """Return the settings of `scontrol show config`, by name in lower case."""
    settings = {}
    for line in _text(output).splitlines():
        name, equals, value = line.partition("=")
        if equals and " " not in name.strip():
            settings[name.strip().lower()] = value.strip()
    if "schedulertype" not in settings:
        raise _unknown("scontrol show config", "SchedulerType")
    return settings


def read_shares(output: bytes, job_id: int) -> list[Share] | None:
    """Return where a running job is, by `scontrol -o -d show job`; None if that is not certain."""
    lines = [line for line in _text(output).split("\n") if line.startswith("JobId=")]
    if len(lines) != 1 or not lines[0].startswith(f"JobId={job_id} "):
        return None
    job_shares = lines[0].rpartition(" JOB_GRES=")
    if not job_shares[1]:
        return None
    shares = []
    for nodes, cpu_ids, mem, gres in _SHARE.findall(job_shares[2]):
        gpus = sum(int(count) for _type, count in _GRES_GPU.findall(gres))
        for node in expanded(nodes):
            shares.append(Share(node, _count(cpu_ids), int(mem), gpus))
    return shares or None


def _node(record: dict[str, str]) -> SlurmNode:
    words = set(re.split(r"[+]", record["State"].upper().rstrip("*$~#!%@^-")))
    gpus = [(type_, int(count)) for type_, count in _GRES_GPU.findall(record.get("Gres", ""))]
    used = [int(count) for _type, count in _GRES_GPU.findall(record.get("GresUsed", ""))]
    types = {type_ for type_, _count in gpus if type_}
    partitions = record.get("Partitions", "")
    features = record.get("ActiveFeatures", "")
    return SlurmNode(
        name=record["NodeName"],
        cpus=int(record.get("CPUEfctv") or record["CPUTot"]),
        memory_mib=int(record["RealMemory"]),
        gpus=sum(count for _type, count in gpus),
        gpu_type=types.pop() if len(types) == 1 else "",
        state=record["State"],
        available=not words & OUT and not record["State"].endswith("*"),
        partitions=() if partitions in NOTHING else tuple(partitions.split(",")),
        features=() if features in NOTHING else tuple(features.split(",")),
        address=record.get("NodeAddr", ""),
        reason=record.get("Reason", "").partition(" [")[0],
        cpus_used=int(record.get("CPUAlloc") or 0),
        # AllocTRES has them only where AccountingStorageTRES names them.
        gpus_used=sum(used) or gpus_of(record.get("AllocTRES", ""))[0],
        memory_used_mib=int(record.get("AllocMem") or 0),
    )


def _partition(record: dict[str, str]) -> Partition:
    return Partition(
        name=record["PartitionName"],
        up=record["State"].upper() in ("UP",),
        tier=int(record.get("PriorityTier", 1)),
        max_s=limit_s(record.get("MaxTime", "UNLIMITED")),
        default_s=limit_s(record.get("DefaultTime", "NONE")),
        exclusive=record.get("OverSubscribe", "NO") == "EXCLUSIVE",
    )


def _records(output: bytes, key: str) -> Iterator[dict[str, str]]:
    for line in _text(output).splitlines():
        if not line.strip():
            continue
        if line.startswith("No ") and "in the system" in line:
            return
        marks = list(_PAIR.finditer(line))
        ends = [mark.start() for mark in marks[1:]] + [len(line)]
        pairs = zip(marks, ends, strict=True)
        record = {mark[1]: line[mark.end() : end].strip() for mark, end in pairs}
        needed = {
            "NodeName": ("State", "CPUTot", "RealMemory"),
            "PartitionName": ("State",),
        }[key]
        for name in (key, *needed):
            if name not in record:
                raise _unknown(f"scontrol -o show, record {line[:40]!r}", name)
        yield record


def _unknown(where: str, name: str) -> BadInput:
    return BadInput(
        f"{where} has no {name}",
        "tested with Slurm 22.05; report your version (`scontrol --version`) and its output",
    )


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")


def _count(ids: str) -> int:
    """Return how many numbers `0-3,6` lists."""
    total = 0
    for part in filter(None, ids.split(",")):
        low, _, high = part.partition("-")
        total += int(high or low) - int(low) + 1
    return total


def expanded(host_list: str) -> list[str]:
    """Return the names in Slurm's notation of host lists: `n[1-3,07],login` has five."""
    names: list[str] = []
    for entry in _split(host_list):
        names += _expanded_entry(entry)
    return names


def _split(host_list: str) -> Iterator[str]:
    """Yield the entries between commas that are not in brackets."""
    depth = begin = 0
    for at, letter in enumerate(host_list):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            yield host_list[begin:at]
            begin = at + 1
    if host_list[begin:]:
        yield host_list[begin:]


def _expanded_entry(entry: str) -> list[str]:
    before, bracket, rest = entry.partition("[")
    if not bracket:
        return [entry]
    inside, _, after = rest.partition("]")
    names = []
    for part in inside.split(","):
        low, dash, high = part.partition("-")
        for number in range(int(low), int(high if dash else low) + 1):
            names += [f"{before}{number:0{len(low)}}{tail}" for tail in _expanded_entry(after)]
    return names
