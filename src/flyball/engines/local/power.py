"""Power limits of accelerators through NVML, where the driver permits; else nothing, said clearly.

Which devices were limited for whom is kept in a file: a limit outlives the control plane, and
whoever comes after must be able to lift it.
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
    """A machine whose devices take no limit from us."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def cap(self, token: Token, uuids: Sequence[str], share: float) -> str:
        """Nothing is limited; why."""
        return f"no power limit: {self.reason}" if uuids else "processor time"

    def lift(self, token: Token) -> None:
        """There is nothing to lift."""

    def keep(self, tokens: Collection[Token]) -> None:
        """There is nothing to keep."""

    def close(self) -> None:
        """Nothing is held."""


class NvmlPower:
    """Limits devices as parts of their usual limit, within what the driver takes."""

    def __init__(self, file: Path, nvml: Any) -> None:
        self._file, self._nvml = file, nvml
        self._limited: dict[str, list[int]] = _read(file)

    def cap(self, token: Token, uuids: Sequence[str], share: float) -> str:
        """Limit these devices; says by how much, or why not."""
        if not uuids:
            return "processor time"
        self._limited |= {uuid: list(token) for uuid in uuids}
        self._write()  # first: a limit that nobody remembers would stay
        try:
            watts = [self._limit(uuid, share) for uuid in uuids]
        except self._nvml.NVMLError as error:
            return f"no power limit: {error}"
        if share >= 1.0:
            self._limited = {each: who for each, who in self._limited.items() if each not in uuids}
            self._write()
        return f"power limit {min(watts):g} W on {len(watts)} devices"

    def lift(self, token: Token) -> None:
        """An attempt is over: its devices have their usual limit again."""
        if mine := [uuid for uuid, who in self._limited.items() if tuple(who) == token]:
            self.cap(token, mine, 1.0)

    def keep(self, tokens: Collection[Token]) -> None:
        """Lift the limits of all attempts but these."""
        for who in {(job, attempt) for job, attempt in self._limited.values()} - set(tokens):
            self.lift(who)

    def close(self) -> None:
        """Let go of the driver; limits stay."""
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
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(self._limited))
        os.replace(beside, self._file)


def open_power(folder: Path, uuids: Sequence[str], nvml: Any = None) -> NvmlPower | NoPower:
    """What limits the devices of this machine.

    Args:
        folder: where it is kept which are limited.
        uuids: of the devices; none = cores are the devices.
        nvml: stands in for the library of NVIDIA's driver.
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
