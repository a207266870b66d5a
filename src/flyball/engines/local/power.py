"""Power limits of accelerators through NVML, where the driver permits; else a reason why not.

The limited devices and their attempts are kept in a file: a limit outlives the control plane, and
the next one must be able to lift it.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

Token = tuple[int, int]
"""(job, attempt)."""

FILE = "power.json"


class NoPower:
    """Stands in on a machine whose devices cannot be limited."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def cap(self, token: Token, uuids: Sequence[str], share: float) -> str:
        """Limit nothing; return the reason."""
        return f"no power limit: {self.reason}" if uuids else "processor time"

    def lift(self, token: Token) -> None:
        """Do nothing."""

    def keep(self, tokens: Collection[Token]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class NvmlPower:
    """Limits devices to a share of their default limit, within the driver's range."""

    def __init__(self, file: Path, nvml: Any) -> None:
        self._file, self._nvml = file, nvml
        self._limited: dict[str, list[int]] = _read(file)

    def cap(self, token: Token, uuids: Sequence[str], share: float) -> str:
        """Limit these devices; return the limit, or the reason why there is none."""
        if not uuids:
            return "processor time"
        self._limited |= {uuid: list(token) for uuid in uuids}
        self._write()  # first: a limit that is not on record would never be lifted
        try:
            watts = [self._limit(uuid, share) for uuid in uuids]
        except self._nvml.NVMLError as error:
            return f"no power limit: {error}"
        if share >= 1.0:
            others = self._limited.items()
            self._limited = {uuid: owner for uuid, owner in others if uuid not in uuids}
            self._write()
        return f"power limit {min(watts):g} W on {len(watts)} devices"

    def lift(self, token: Token) -> None:
        """Restore the default limit of an attempt's devices."""
        if mine := [uuid for uuid, owner in self._limited.items() if tuple(owner) == token]:
            self.cap(token, mine, 1.0)

    def keep(self, tokens: Collection[Token]) -> None:
        """Lift the limits of all attempts but these."""
        for token in {(job, attempt) for job, attempt in self._limited.values()} - set(tokens):
            self.lift(token)

    def close(self) -> None:
        """Close the driver's library; limits stay."""
        self._nvml.nvmlShutdown()

    def _limit(self, uuid: str, share: float) -> float:
        nvml = self._nvml
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        usual_mw = nvml.nvmlDeviceGetPowerManagementDefaultLimit(device)
        least_mw, most_mw = nvml.nvmlDeviceGetPowerManagementLimitConstraints(device)
        limit_mw = min(max(round(usual_mw * share), least_mw), most_mw)
        nvml.nvmlDeviceSetPowerManagementLimit(device, limit_mw)
        return float(limit_mw / 1000)

    def _write(self) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps(self._limited))
        os.replace(draft, self._file)


def open_power(folder: Path, uuids: Sequence[str], nvml: Any = None) -> NvmlPower | NoPower:
    """Return the power control of this machine's devices.

    Args:
        folder: where the record of limited devices is kept.
        uuids: UUIDs of the devices; none = cores are the devices.
        nvml: replaces NVIDIA's library in tests.
    """
    if not uuids:
        return NoPower("there are no accelerators")
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except ImportError:
        return NoPower("nvidia-ml-py is not installed")
    except nvml.NVMLError as error:
        return NoPower(str(error))
    return NvmlPower(folder / FILE, nvml)


def _read(file: Path) -> dict[str, list[int]]:
    try:
        return dict(json.loads(file.read_text()))
    except (OSError, ValueError):
        return {}
