"""The wheel holds all that the package needs, and works without the source tree."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "flyball"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    sources = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("flyball/")}
    assert packed == sources
    for needed in (
        "data/devices.toml",
        "data/tuned.json",
        "control/journal/migrations/env.py",
        "py.typed",
    ):
        assert f"flyball/{needed}" in packed


def test_installed_wheel_works_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    """Dependencies are those of this environment; Flyball is the wheel's."""
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    code = (
        "import sys; sys.path[:0] = [{site!r}, {libraries!r}];"
        "import flyball; assert flyball.__file__.startswith({site!r}), flyball.__file__;"
        "from flyball.__main__ import main; sys.exit(main())"
    ).format(site=str(site), libraries=sysconfig.get_paths()["purelib"])
    for arguments, shown in (
        (["policies"], "easy"),
        (["clusters"], "five-mixed"),
        (["devices"], "A100"),
        (["trace", "generate", "mixed", "week.csv", "--days", "1", "--seed", "3"], "wrote"),
    ):
        # -S: without it the editable install of the source tree would be found.
        done = subprocess.run(
            [sys.executable, "-S", "-c", code, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout + done.stderr
