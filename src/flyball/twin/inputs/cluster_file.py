"""Clusters from files and by name.

A cluster file is YAML:

    nodes:
      - {name: a, count: 8, device: V100, devices: 8, cpus: 64, memory_gib: 512}
    power_budget_kw: 20                      # optional: starts that would exceed it wait
    budget: {money_per_day: 400, carbon_kg_per_day: 900, power_kw: 20}   # likewise, any of them
    network:                                 # optional
      between_nodes_gbit_s: 100
      inside_node_gbit_s: 1200
    tenants:                                 # optional: its tenants, for order = fair
      - {name: vision, quota: 32, borrow: 16, weight: 1}
    recorded_on: A100                        # optional: device type of traces that name none
    types:                                   # optional: device types the catalogue lacks
      A100-fast: {like: A100, memory_gib: 96, peak_w: 500, speed: 1.15, speeds: {resnet50: 3.1}}
    price: 0.25                              # optional: of a kWh; a number, or over time
    carbon: {file: grid.csv, column: gco2}   # optional: g CO2 per kWh, likewise
    currency: EUR                            # optional: of the price

`price` and `carbon` over time: see `twin/inputs/signals.py`.

Every group of nodes needs `device` and `devices`; the rest has a default. What is not
recognised is refused; the error gives the place and the nearest name. A name that ends in `.csv`
or `.csv.gz` is a list of nodes: see `twin/inputs/node_list.py`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from flyball.core.cluster import (
    MAX_DEVICES_PER_NODE,
    MAX_POOLS,
    Cluster,
    DefinedType,
    ModelSpeed,
    Network,
    NodeGroup,
    Tenant,
)
from flyball.core.errors import BadInput, UnknownName
from flyball.core.signals import Signal
from flyball.physics import catalogue
from flyball.twin.inputs.checked import kind_of, mapping, named_text, number, whole
from flyball.twin.inputs.node_list import is_node_list, read_nodes
from flyball.twin.inputs.signals import parse_signal
from flyball.twin.tables.tenants import check_tenants

MAX_FILE_BYTES = 1_000_000
MAX_NODES = 100_000
MAX_GBIT_S = 1e6
MAX_BUDGET_KW = 1e6

NODE_KEYS = ("name", "count", "device", "devices", "cpus", "memory_gib")
CLUSTER_KEYS = (
    *("name", "about", "nodes", "power_budget_kw", "network", "tenants", "recorded_on", "types"),
    *("price", "carbon", "currency", "budget"),
)
TYPE_KEYS = ("like", "memory_gib", "idle_w", "peak_w", "speed", "speeds")
MAX_TYPES = 100
NETWORK_KEYS = ("between_nodes_gbit_s", "inside_node_gbit_s")
BUDGET_KEYS = ("power_kw", "money_per_day", "carbon_kg_per_day")
MAX_PER_DAY = 1e12
TENANT_KEYS = ("name", "quota", "borrow", "weight")
MAX_QUOTA = 100_000_000


def load_cluster(name_or_path: str | Path) -> Cluster:
    """Return a preset by name, or the cluster that a YAML file or a node list (CSV) describes.

    Raises:
        BadInput: no such file or preset, or a file with errors.
    """
    text = str(name_or_path)
    by_name = presets()
    if text in by_name:
        return parse_cluster(by_name[text], where=f"preset {text}", name=text)
    path = Path(name_or_path)
    if not path.exists():
        if path.suffix in (".yaml", ".yml", ".csv", ".gz") or len(path.parts) > 1:
            raise BadInput(f"{text}: no such cluster file", "write one, or see `flyball clusters`")
        raise UnknownName("cluster", text, by_name)
    if is_node_list(path):
        return read_nodes(path)
    return parse_cluster(read_yaml(path), text, path.stem, path.parent)


@cache
def presets() -> dict[str, dict[str, Any]]:
    """Return the clusters that ship with Flyball, by name, as the content of their files."""
    text = files("flyball").joinpath("data", "clusters.yaml").read_text("utf-8")
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return loaded


def load_signals(path: Path) -> tuple[Signal | None, Signal | None, str]:
    """Return price, carbon and currency of a cluster file, or of a file with these keys alone.

    Raises:
        BadInput: no such file, or one with errors.
    """
    if not path.exists():
        raise BadInput(f"{path}: no such file", "name a YAML file with the keys price and carbon")
    top = mapping(read_yaml(path), str(path), CLUSTER_KEYS)
    return _signals(top, str(path), path.parent)


def parse_cluster(
    content: Any, where: str, name: str = "cluster", folder: Path | None = None
) -> Cluster:
    """Return the cluster that a file's content describes.

    Args:
        content: the parsed YAML.
        where: the file, for error messages.
        name: name of the cluster, unless the file states one.
        folder: where the files that it names are; None = the current folder.
    """
    top = mapping(content, where, CLUSTER_KEYS)
    rows = top.get("nodes")
    if not isinstance(rows, list) or not rows:
        raise BadInput(
            f"{where}: 'nodes' must be a list of groups of nodes",
            "e.g. nodes: [{name: a, count: 8, device: V100, devices: 8}]",
        )
    if len(rows) > MAX_POOLS:
        raise BadInput(f"{where}: {len(rows)} groups of nodes", f"use at most {MAX_POOLS}")
    types = _types(top.get("types"), f"{where}: types")
    groups = tuple(_group(row, f"{where}: nodes[{i}]", i) for i, row in enumerate(rows))
    _check_groups(groups, where)
    price, carbon, currency = _signals(top, where, folder or Path())
    budget = _budget(top, where, price, carbon)
    cluster = Cluster(
        name=named_text(top, "name", where, name),
        groups=groups,
        power_budget_w=budget["power_kw"] * 1000.0,
        network=_network(top.get("network"), f"{where}: network"),
        tenants=_tenants(top.get("tenants"), where),
        recorded_on=_device(top, "recorded_on", where) if "recorded_on" in top else "",
        types=types,
        price=price,
        carbon=carbon,
        currency=currency,
        money_per_day=budget["money_per_day"],
        carbon_kg_per_day=budget["carbon_kg_per_day"],
    )
    check_tenants(cluster, where)
    return cluster


def _budget(
    top: dict[str, Any], where: str, price: Signal | None, carbon: Signal | None
) -> dict[str, float]:
    """Return the budgets of a file by their keys, 0 = none.

    Raises:
        BadInput: one that is not positive, stated twice, or has no signal to be counted by.
    """
    power_kw = number(top, "power_budget_kw", where, 0.0, 0.0, MAX_BUDGET_KW)
    if "budget" not in top:
        return {**dict.fromkeys(BUDGET_KEYS, 0.0), "power_kw": power_kw}
    place = f"{where}: budget"
    fields = mapping(top["budget"], place, BUDGET_KEYS)
    if "power_kw" in fields and "power_budget_kw" in top:
        raise BadInput(f"{where} states power_budget_kw and budget: power_kw", "keep one of them")
    budget = {key: number(fields, key, place, 0.0, 0.0, MAX_PER_DAY) for key in BUDGET_KEYS}
    budget["power_kw"] = budget["power_kw"] or power_kw
    needed = (("money_per_day", "price", price), ("carbon_kg_per_day", "carbon", carbon))
    for key, name, signal in needed:
        if budget[key] and signal is None:
            raise BadInput(f"{place}: {key} needs the {name} of a kWh", f"add the key {name!r}")
    return budget


def _signals(
    top: dict[str, Any], where: str, folder: Path
) -> tuple[Signal | None, Signal | None, str]:
    """Return price, carbon and currency of a file."""
    price, carbon = (
        parse_signal(top[key], key, f"{where}: {key}", folder) if key in top else None
        for key in ("price", "carbon")
    )
    return price, carbon, named_text(top, "currency", where, "") if "currency" in top else ""


def _group(row: Any, where: str, index: int) -> NodeGroup:
    fields = mapping(row, where, NODE_KEYS)
    for needed in ("device", "devices"):
        if needed not in fields:
            raise BadInput(f"{where} has no {needed!r}", "e.g. {device: V100, devices: 8}")
    device = _device(fields, "device", where)
    return NodeGroup(
        name=named_text(fields, "name", where, f"n{index}-"),
        count=whole(fields, "count", where, 1, 1, MAX_NODES),
        device=device,
        devices=whole(fields, "devices", where, 1, 1, MAX_DEVICES_PER_NODE),
        cpus=whole(fields, "cpus", where, NodeGroup.cpus, 1, 100_000),
        memory_gib=number(fields, "memory_gib", where, NodeGroup.memory_gib, 0.0, 1e6),
    )


def _device(fields: dict[str, Any], key: str, where: str) -> str:
    """Return the catalogue's name of the device type under a key."""
    try:
        return catalogue.get(named_text(fields, key, where, "")).name
    except UnknownName as unknown:
        raise BadInput(f"{where}: {unknown}") from None


def _types(content: Any, where: str) -> tuple[DefinedType, ...]:
    """Return the device types a file describes, and add them to the catalogue."""
    if content is None:
        return ()
    if not isinstance(content, dict) or not content or len(content) > MAX_TYPES:
        raise BadInput(
            f"{where} must be 1 to {MAX_TYPES} names with figures, not {kind_of(content)}",
            "e.g. types: {A100-fast: {like: A100, speed: 1.15}}",
        )
    types = tuple(_type(str(name), row, f"{where}: {name}") for name, row in content.items())
    try:
        catalogue.define(types)
    except BadInput as problem:
        raise BadInput(f"{where}: {problem}") from None
    return types


def _type(name: str, row: Any, where: str) -> DefinedType:
    fields = mapping(row, where, TYPE_KEYS)
    if "like" not in fields:
        raise BadInput(f"{where} has no 'like'", "name the type it is nearest to, e.g. like: A100")
    like = _device(fields, "like", where)
    figures = {
        key: number(fields, key, where, 0.0, low, high)
        for key, low, high in (
            ("memory_gib", 0.1, 10_000.0),
            ("idle_w", 0.1, 10_000.0),
            ("peak_w", 1.0, 10_000.0),
        )
        if key in fields
    }
    if figures.get("idle_w", 0.0) >= figures.get("peak_w", catalogue.get(like).peak_w):
        raise BadInput(f"{where}: idle_w is not below peak_w", "swap or correct them")
    return DefinedType(
        name=named_text({"name": name}, "name", where, ""),
        like=like,
        speed=number(fields, "speed", where, 1.0, 0.001, 1000.0),
        speeds=_speeds(fields.get("speeds"), name, f"{where}: speeds"),
        **figures,
    )


def _speeds(content: Any, type_name: str, where: str) -> tuple[ModelSpeed, ...]:
    """Return measured speeds by model.

    A speed is a multiple of a V100's, or samples per second of this and of another type.
    """
    if content is None:
        return ()
    if not isinstance(content, dict):
        raise BadInput(f"{where} must be models with speeds", "e.g. speeds: {resnet50: 3.1}")
    return tuple(
        _model_speed(str(model), value, type_name, where) for model, value in content.items()
    )


def _model_speed(model: str, value: Any, type_name: str, where: str) -> ModelSpeed:
    if not isinstance(value, dict):
        times = number({model: value}, model, where, 0.0, 0.001, 1000.0)
        return ModelSpeed(model, times, catalogue.REFERENCE)
    other_types = [name for name in value if name != type_name]
    if type_name not in value or len(other_types) != 1:
        raise BadInput(
            f"{where}: {model} must have the samples per second of {type_name} and of one other "
            "type",
            f"e.g. {model}: {{{type_name}: 1240, V100: 400}}, or a number: times a V100",
        )
    here = f"{where}: {model}"
    against = _device({"type": other_types[0]}, "type", here)
    ours, theirs = (
        number(value, name, here, 0.0, 1e-6, 1e9) for name in (type_name, other_types[0])
    )
    return ModelSpeed(model, ours / theirs, against)


def _check_groups(groups: tuple[NodeGroup, ...], where: str) -> None:
    seen: set[str] = set()
    for group in groups:
        if group.name in seen:
            raise BadInput(
                f"{where}: two groups of nodes are named {group.name!r}", "give each its own name"
            )
        seen.add(group.name)
    total = sum(group.count for group in groups)
    if total > MAX_NODES:
        raise BadInput(f"{where}: {total} nodes in all", f"use at most {MAX_NODES}")


def _tenants(content: Any, where: str) -> tuple[Tenant, ...]:
    if content is None:
        return ()
    if not isinstance(content, list):
        raise BadInput(
            f"{where}: 'tenants' must be a list, not {kind_of(content)}",
            "e.g. tenants: [{name: vision, quota: 32}]",
        )
    return tuple(_tenant(row, f"{where}: tenants[{i}]") for i, row in enumerate(content))


def _tenant(row: Any, where: str) -> Tenant:
    fields = mapping(row, where, TENANT_KEYS)
    for needed in ("name", "quota"):
        if needed not in fields:
            raise BadInput(f"{where} has no {needed!r}", "e.g. {name: vision, quota: 32}")
    limited = fields.get("borrow") not in (None, "none")
    return Tenant(
        name=named_text(fields, "name", where, ""),
        quota=whole(fields, "quota", where, 0, 0, MAX_QUOTA),
        borrow=whole(fields, "borrow", where, 0, 0, MAX_QUOTA) if limited else None,
        weight=number(fields, "weight", where, 1.0, 1e-6, 1e6),
    )


def _network(content: Any, where: str) -> Network:
    if content is None:
        return Network()
    fields = mapping(content, where, NETWORK_KEYS)
    default = Network()
    between, inside = (
        number(fields, key, where, getattr(default, key), 1e-6, MAX_GBIT_S) for key in NETWORK_KEYS
    )
    return Network(between_nodes_gbit_s=between, inside_node_gbit_s=inside)


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file."""
    try:
        if path.is_file() and path.stat().st_size > MAX_FILE_BYTES:
            raise BadInput(f"{path}: larger than a cluster file can be", "is it a trace?")
        return yaml.safe_load(path.read_text("utf-8"))
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadInput(f"{path}{line}: not YAML: {error.problem}", "correct that line") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError):
        raise BadInput(f"{path}: not a YAML text file", "see `flyball clusters --help`") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}", "name a YAML file") from None
