"""Rows of run-time prediction: what is known of a job when it is submitted, and its end.

Rows are plain mappings, as in the `Estimator` contract. Known at submission: `submit_s`
(required), `tenant`, `user`, `name`, `kind` (class), `devices`, `limit_s`. Known later: `end_s`,
when it ended, and `run_s`, how long it ran (else the time from `start_s`, or from submission, to
the end). A row without an end is unfinished.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flyball.core.errors import BadInput
from flyball.core.units import US_PER_S
from flyball.core.workload import CLASS_LABELS, Workload

SHORTEST_S = 1.0
"""Least run time; shorter ones count as this long, as their logarithms carry no information."""
LONGEST_S = 1e9


@dataclass(frozen=True, slots=True)
class Asked:
    """Holds what is known of a job when it is submitted; "" and 0 = not stated."""

    submit_s: float
    tenant: str = ""
    user: str = ""
    name: str = ""
    kind: str = ""
    devices: int = 1
    limit_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """Holds a job and its run.

    Attributes:
        start_s: when it started, or its submission if that is not known.
        end_s: when it ended; infinite = it has not.
        run_s: how long it ran; NaN while it has not ended.
    """

    asked: Asked
    start_s: float
    end_s: float
    run_s: float

    @property
    def log_s(self) -> float:
        """The logarithm of its run time."""
        return math.log(max(SHORTEST_S, self.run_s))


def asked_of(row: Mapping[str, object], at: int = 0) -> Asked:
    """Return the part of a row that is known at submission.

    Args:
        row: plain values; see the docstring of this module.
        at: its index in the sequence, for the error.

    Raises:
        BadInput: there is no submission time, or a value is not a number or a text.
    """
    return Asked(
        submit_s=_number(row, "submit_s", at),
        tenant=_text(row, "tenant"),
        user=_text(row, "user"),
        name=plain_name(_text(row, "name")),
        kind=_text(row, "kind"),
        devices=max(0, int(_number(row, "devices", at, 1.0))),
        limit_s=max(0.0, _number(row, "limit_s", at, 0.0)),
    )


def run_of(row: Mapping[str, object], at: int = 0) -> Run:
    """Return a job with its run; without `end_s` and `run_s` it is unfinished.

    Raises:
        BadInput: as `asked_of`, or an end before the start.
    """
    asked = asked_of(row, at)
    start_s = _number(row, "start_s", at, asked.submit_s)
    run_s = _number(row, "run_s", at, math.nan)
    end_s = _number(row, "end_s", at, start_s + run_s if run_s == run_s else math.inf)
    if math.isinf(end_s):
        return Run(asked, start_s, math.inf, math.nan)
    if run_s != run_s:
        run_s = end_s - start_s
    if not 0.0 <= run_s <= LONGEST_S or end_s < asked.submit_s:
        why = f"row {at}: a run time of {run_s:g} s that ends at {end_s:g} s"
        raise BadInput(f"{why} is not possible", "correct its start and end")
    return Run(asked, start_s, end_s, run_s)


def runs_of(rows: Sequence[Mapping[str, object]]) -> list[Run]:
    """Return all rows as runs, in order of submission."""
    runs = [run_of(row, index) for index, row in enumerate(rows)]
    return sorted(runs, key=lambda run: run.asked.submit_s)


def rows_of(workload: Workload) -> list[dict[str, object]]:
    """Return a workload's jobs as rows; one without a recorded start is taken to start at once."""
    return [
        {
            "submit_s": int(workload.submit_us[at]) / US_PER_S,
            "start_s": _recorded_s(workload.start_us[at]),
            "end_s": _recorded_s(workload.end_us[at]),
            "run_s": float(workload.duration_us[at]) / US_PER_S,
            "devices": int(workload.devices[at]),
            "tenant": _coded(workload.tenants, int(workload.tenant[at])),
            "user": _coded(workload.users, int(workload.user[at])),
            "name": _coded(workload.models, int(workload.model[at])),
            "kind": _coded(CLASS_LABELS, int(workload.kind[at])),
            "limit_s": int(workload.limit_us[at]) / US_PER_S,
        }
        for at in range(len(workload))
    ]


def _recorded_s(time_us: int) -> float | None:
    return int(time_us) / US_PER_S if time_us >= 0 else None


def _coded(names: Sequence[str], code: int) -> str:
    return names[code] if code >= 0 else ""


def plain_name(name: str) -> str:
    """Return a name without its numbers: `train_lr0.01_3` and `train_lr0.1_7` are one program."""
    return re.sub(r"\d+(?:\.\d+)*", "#", name)


def _text(row: Mapping[str, object], field: str) -> str:
    value = row.get(field)
    return "" if value is None else str(value)


def _number(row: Mapping[str, object], field: str, at: int, default: float | None = None) -> float:
    value = row.get(field)
    if value is None and default is not None:
        return default
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"row {at}: {field} is {value!r}", "it must be a number")
    return number
