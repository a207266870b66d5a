"""The cache of compiled kernels: another key whenever a source that is compiled in changes."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flyball.physics import compile as compiler
from flyball.physics.kernel_sources import PACKAGE, kernel_sources

DECORATORS = {"entry", "hot", "kernel"}


def statements(body: list[ast.stmt]) -> list[ast.ImportFrom | ast.Import]:
    """Return the imports that run when a module is imported."""
    imports: list[ast.ImportFrom | ast.Import] = []
    for node in body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            imports.append(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            imports += statements(node.body) + statements(node.orelse)
        elif isinstance(node, ast.Try):
            imports += statements(node.body)
    return imports


def modules(path: Path) -> set[str]:
    """Return the names, of modules or within them, that a source imports."""
    names: set[str] = set()
    for node in statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
            continue
        package = ["flyball", *path.relative_to(PACKAGE).parent.parts]
        above = package[: len(package) - node.level + 1] if node.level else []
        origin = ".".join([*above, *([node.module] if node.module else [])])
        names |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    return names


def by_syntax_tree() -> set[Path]:
    """Find the same sources as `kernel_sources`, by parsing instead of searching text."""
    by_name: dict[str, Path] = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        plain = parts[:-1] if parts[-1] == "__init__" else parts
        by_name[".".join(("flyball", *plain))] = path
    compiling = {f"flyball.physics.compile.{name}" for name in DECORATORS}
    pending = [path for path in by_name.values() if modules(path) & compiling]
    pending.append(PACKAGE / "physics" / "compile.py")
    sources: set[Path] = set()
    while pending:
        path = pending.pop()
        if path not in sources:
            sources.add(path)
            pending += [by_name[name] for name in modules(path) if name in by_name]
    return sources - {PACKAGE / "__init__.py"}


def test_sources_are_those_of_the_import_graph() -> None:
    assert set(kernel_sources()) - {PACKAGE / "__init__.py"} == by_syntax_tree()
    assert PACKAGE / "core" / "units.py" in kernel_sources()


def test_every_source_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "flyball"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "data"))
    monkeypatch.setattr(compiler, "PACKAGE", copy)
    monkeypatch.setattr(compiler, "kernel_sources", lambda: kernel_sources(copy))
    folder = compiler.cache_folder.__wrapped__
    keys = {folder()}
    sources = kernel_sources(copy)
    for path in sources:
        with path.open("a") as file:
            file.write("# changed\n")
        keys.add(folder())
    assert len(keys) == len(sources) + 1


def test_other_sources_do_not_change_the_key() -> None:
    names = {path.relative_to(PACKAGE).as_posix() for path in kernel_sources()}
    assert not [name for name in names if name.startswith(("api/", "cli/", "control/", "sdk/"))]


def test_mark_is_of_this_installation_and_its_time_stamps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "flyball"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "data"))
    here = compiler.compiled_mark.__wrapped__()
    monkeypatch.setattr(compiler, "PACKAGE", copy)
    monkeypatch.setattr(compiler, "kernel_sources", lambda: kernel_sources(copy))
    there = compiler.compiled_mark.__wrapped__()
    assert there.name != here.name
    (copy / "core" / "units.py").touch()
    assert compiler.compiled_mark.__wrapped__().name != there.name


def test_finding_sources_imports_none_of_them() -> None:
    code = (
        "import sys; from flyball.physics.kernel_sources import kernel_sources; kernel_sources();"
        "print([m for m in ('numba', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
