"""Writes the lock files: what pip resolves for `pyproject.toml` here and now, as exact pins.

    make lock

Pins name versions only: no hosts, no paths, no build labels, so that any index serves them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = {
    "lock.txt": (
        ["build"],
        "What `flyball` needs. Installed by `make install` and `make up`.",
    ),
    "lock-dev.txt": (
        ["dev"],
        "The same and the tools of `make test`, torch for the nets and rivals to compare with.",
    ),
    "lock-models.txt": (
        ["models"],
        "The extra `models` with all it needs; torch's own wheel decides about CUDA.",
    ),
    "lock-torch.txt": (
        ["learn"],
        "The extra `learn` with all it needs; torch's own wheel decides about CUDA.",
    ),
}


def resolve(extras: list[str]) -> list[str]:
    """`name==version` of everything pip would install for these extras."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
    command += ["--ignore-installed", "--report", "-", f"{HERE.parent}[{','.join(extras)}]"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    chosen = [package["metadata"] for package in json.loads(done.stdout)["install"]]
    pins = {one["name"]: one["version"].partition("+")[0] for one in chosen}
    pins.pop("flyball")
    return sorted((f"{name}=={version}" for name, version in pins.items()), key=str.lower)


for name, (extras, meaning) in FILES.items():
    lines = [f"# {meaning}", "# Made by `make lock`; do not edit.", *resolve(extras)]
    (HERE / name).write_text("\n".join(lines) + "\n")
