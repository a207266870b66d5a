"""Jobs as a server shows them, for tests."""

from __future__ import annotations

from typing import Any


def job(number: int, state: str = "PENDING", **more: Any) -> dict[str, Any]:
    """A job; `more` replaces what is usual."""
    shown = {
        "id": number,
        "label": str(number),
        "name": f"job{number}",
        "state": state,
        "reason": "",
        "attempts": 0 if state == "PENDING" else 1,
        "submit_time": 1000.0,
        "start_time": None if state == "PENDING" else 1010.0,
        "end_time": None,
        "exit_code": None,
        "signal": None,
        "user": "ada",
        "tenant": "",
        "cpus": 1,
        "gpus": 0,
        "memory_mib": 0,
        "node": "vm" if state == "RUNNING" else None,
        "array_id": None,
        "spec": {"argv": ["python", "train.py"]},
        "progress": None,
    }
    return shown | more


def task(array: int, index: int, state: str = "PENDING", **more: Any) -> dict[str, Any]:
    """A task of an array."""
    label = f"{array}_{index}"
    return job(array + index, state, label=label, array_id=array, name="sweep") | more
