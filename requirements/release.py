"""Check a release: build the wheel, install it into an empty environment, run what users run first.

    python requirements/release.py

Runs on every Python that is here and that the project supports. Dependencies come from the lock
file, so that what is checked is what is installed by `make install`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("python3.11", "python3.12", "python3.13")
COMMANDS = (
    ("--version",),
    ("policies",),
    ("clusters",),
    ("devices",),
    ("trace", "generate", "mixed", "week.csv", "--days", "3", "--devices", "40", "--load", "1.3"),
    ("demo", "--out", "demo-out"),
)
"""What the wheel must be able to do by itself: catalogue, policies, data, kernels, figures."""


def main() -> None:
    """Check each Python; end with the first failure."""
    with tempfile.TemporaryDirectory(prefix="flyball-release-") as folder:
        wheel = build(Path(folder))
        checked = []
        for name in PYTHONS:
            python = shutil.which(name)
            if python is None or not runs(python):
                print(f"{name}: not here")
                continue
            check(python, wheel, Path(folder) / name)
            checked.append(name)
        if not checked:
            sys.exit(f"none of {', '.join(PYTHONS)} is here")
        print(f"{wheel.name} works on {', '.join(checked)}")


def runs(python: str) -> bool:
    """Whether an interpreter starts: a version manager's shim may name one that is not there."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def build(folder: Path) -> Path:
    """Build the wheel of this tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return next(folder.glob("*.whl"))


def check(python: str, wheel: Path, folder: Path) -> None:
    """Install the wheel into an empty environment of this Python and run the commands."""
    print(f"{python}: installing {wheel.name}", flush=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    lock = str(ROOT / "requirements" / "lock.txt")
    subprocess.run([*pip, "--disable-pip-version-check", "-c", lock, str(wheel)], check=True)
    work = folder / "work"
    work.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(work)}
    for arguments in COMMANDS:
        print(f"{python}: flyball {' '.join(arguments)}", flush=True)
        command = [str(folder / "bin" / "flyball"), *arguments]
        done = subprocess.run(
            command, cwd=work, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"flyball {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")


if __name__ == "__main__":
    main()
