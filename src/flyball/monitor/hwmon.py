"""Finds the sensors of the mainboard and its chips in /sys/class/hwmon."""

from __future__ import annotations

import re

from flyball.monitor.sensor import KeptFile, Site, kept, text_of

ODD = re.compile(r"[^a-z0-9]+")


def chip_inputs(site: Site, kind: str) -> dict[str, KeptFile]:
    """Return every readable input of a kind (`temp`, `in`), by names like `coretemp0_core_1`."""
    inputs: dict[str, KeptFile] = {}
    for chip in sorted(site.sys("class/hwmon").glob("hwmon*"), key=_number):
        label = text_of(chip / "name", "chip") + str(_number(chip))
        for path in sorted(chip.glob(f"{kind}[0-9]*_input"), key=_number):
            stem = path.name.removesuffix("_input")
            file = kept(path)
            if file is not None:
                inputs[plain(f"{label}_{text_of(chip / f'{stem}_label', stem)}")] = file
    return inputs


def plain(name: str) -> str:
    """Return a name in lower case, with only letters, digits and underscores."""
    return ODD.sub("_", name.lower()).strip("_")


def _number(path: object) -> int:
    digits = re.findall(r"\d+", str(path).rsplit("/", 1)[-1])
    return int(digits[0]) if digits else 0
