"""`flyball submit --profile`: a job's demand from the report of `flyball optimize`.

The report has the measured time of a call and the memory of the optimised model. They become the
job's memory limit, cores and, with a number of calls, its expected run time, which placement and
start forecasts use. What the command line states takes precedence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flyball.core.errors import BadInput

MEMORY_MARGIN = 1.25
"""Factor on the model's memory, for what back ends allocate besides tensors."""
RUNTIME_MIB = 768
"""Memory of Python with torch and a back end before a model is loaded, measured: 400 to 700 MiB."""
MOST_BYTES = 64 * 2**20
HINT = "give the report.json that `flyball optimize --out DIR` wrote"


def is_profile(value: str) -> bool:
    """Return whether an option's value names a report; Slurm's --profile takes words like `all`."""
    return value.endswith(".json")


def profile_options(path: Path, calls: float | None, stated: Mapping[str, str]) -> dict[str, str]:
    """Return the options that a report fills in, except those that are stated.

    Args:
        path: of the report.
        calls: number of calls of the model in the job; None = unknown, so no run time.
        stated: options of the command line by long name.

    Raises:
        BadInput: not such a report, or a number in it is out of range.
    """
    report = _read(path)
    options: dict[str, str] = {"model": str(report["model"])[:200]}
    options["cpus-per-task"] = str(_number(path, report, "threads", 1, 4096, whole=True))
    if report.get("memory_bytes") is not None:
        size = _number(path, report, "memory_bytes", 0, 2**50)
        options["mem"] = f"{math.ceil(MEMORY_MARGIN * size / 2**20) + RUNTIME_MIB}M"
    if calls is not None:
        if not 0 < calls <= 1e15:
            raise BadInput(f"--calls {calls:g} is out of range", "give how often the job runs it")
        call_s = _number(path, report, "optimised_s", 0, 1e6)
        options["estimate"] = f"{max(1, math.ceil(calls * call_s))}s"
    taken = {"mem": ("mem-per-cpu", "mem-per-gpu"), "cpus-per-task": ("ntasks", "cpus-per-gpu")}
    return {
        name: value
        for name, value in options.items()
        if name not in stated and not any(other in stated for other in taken.get(name, ()))
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{path} is larger than {MOST_BYTES >> 20} MiB", HINT)
        report = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", HINT) from None
    except ValueError:
        raise BadInput(f"{path} is not JSON", HINT) from None
    if not isinstance(report, dict) or not {"model", "threads", "optimised_s"} <= report.keys():
        raise BadInput(f"{path} is not a report of an optimised model", HINT)
    return report


def _number(
    path: Path, report: dict[str, Any], name: str, low: float, high: float, whole: bool = False
) -> float | int:
    value = report[name]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or (whole and value != int(value)):
        raise BadInput(f"{path}: {name} is {value!r}", HINT)
    return int(value) if whole else float(value)
