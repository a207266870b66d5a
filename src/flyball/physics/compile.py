"""The compiler: decorators for all kernel code, and a cache that cannot go stale.

Numba caches a compiled function by the time stamp of the file that defines it, so it misses a
change in a function it calls. Here the cache folder's name is a hash of every kernel source and of
the versions involved: another source, another folder. Kernel sources are the modules that use this
one, and all that they import, whose constants are compiled in.

`FLYBALL_CACHE` moves the cache (default: `flyball` in the user's cache folder).
`NUMBA_DISABLE_JIT=1` turns the compiler off; the same functions then run as plain Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import AnnotateTypes
from numba.extending import intrinsic, overload

from flyball.physics.kernel_sources import PACKAGE, kernel_sources

Function = TypeVar("Function", bound=Callable[..., Any])


@cache
def cache_folder() -> Path:
    """Return the folder of this version's compiled kernels."""
    digest = hashlib.sha256()
    for part in (sys.version, numba.__version__, np.__version__):
        digest.update(part.encode())
    for source in kernel_sources():
        digest.update(source.relative_to(PACKAGE).as_posix().encode() + source.read_bytes())
    return cache_root() / digest.hexdigest()[:16]


@cache
def compiled_mark() -> Path:
    """Return the file whose presence marks these sources as completely compiled.

    Numba finds a compiled function by its source's folder and time stamp, so neither another
    installation of the same sources nor rewritten files may count as compiled.
    """
    digest = hashlib.sha256(str(PACKAGE).encode())
    for source in kernel_sources():
        digest.update(str(source.stat().st_mtime_ns).encode())
    return cache_folder() / f"compiled-{digest.hexdigest()[:16]}"


def cache_root() -> Path:
    """Return the folder that holds one folder per version of the kernel sources."""
    base = os.environ.get("FLYBALL_CACHE")
    if base:
        return Path(base) / "kernels"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "flyball" / "kernels"


def entry(function: Function) -> Function:
    """Compile a function that plain Python calls, on first use, and keep the result on disk."""
    if config.DISABLE_JIT:
        return function
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())
    try:
        compiled: Function = numba.njit(cache=True, pipeline_class=EntryCompiler, **OPTIONS)(
            function
        )
        return compiled
    finally:
        config.CACHE_DIR = before


def kernel(function: Function) -> Function:
    """Compile an inner function: one that only compiled code calls.

    It is compiled once for all integer widths of its arguments: numba would compile one version
    for each combination, and another for each literal argument.
    """
    return _inner(function, inline=False)


def hot(function: Function) -> Function:
    """Compile an inner function that runs at every event, and always inline it.

    A call that is not inlined passes every array of the state, seven words each.
    """
    return _inner(function, inline=True)


def _inner(function: Function, inline: bool) -> Function:
    if config.DISABLE_JIT:
        return function
    compiled = numba.njit(
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        forceinline=inline,
        pipeline_class=InnerCompiler,
        **OPTIONS,
    )(function)
    resolve = compiled.get_call_template

    def resolve_widened(args: Any, kws: Any) -> Any:
        assert not kws, "compiled functions are called by position"
        return resolve(tuple(_widened(kind) for kind in args), kws)

    compiled.get_call_template = resolve_widened
    return compiled  # type: ignore[no-any-return]


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of one inner function, without that of the functions it calls.

    By default numba would link it with all that it calls, optimise that and generate machine code,
    for every function up to the entry. Only the machine code of the entry is ever run, so the entry
    does all three once.
    """

    def _optimize_functions(self, module: Any) -> None:
        pass

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return _CodegenWithoutAddress(self._codegen)


class EntryLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of an entry: links every inner function that it reaches."""

    def add_linking_library(self, library: Any) -> None:
        if library in self._linking_libraries:
            return
        super().add_linking_library(library)
        if isinstance(library, InnerLibrary):
            for callee in library._linking_libraries:
                self.add_linking_library(callee)


class _CodegenWithoutAddress:
    """The code generator of an inner function: it has no address to set an environment at."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, env: Any) -> None:
        pass


@register_pass(mutates_CFG=False, analysis_only=True)
class UseInnerLibrary(AnalysisPass):  # type: ignore[misc]
    """Lower the function into an `InnerLibrary`."""

    _name = "use_inner_library"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class UseEntryLibrary(AnalysisPass):  # type: ignore[misc]
    """Lower the function into an `EntryLibrary`."""

    _name = "use_entry_library"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.library = EntryLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return False


class InnerCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's pipeline for inner functions: it stops before machine code."""

    library_pass: type[AnalysisPass] = UseInnerLibrary

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(self.library_pass, AnnotateTypes)
        passes.finalize()
        return [passes]


class EntryCompiler(InnerCompiler):
    """Numba's pipeline for entries, which link the inner functions."""

    library_pass = UseEntryLibrary


NUMBA_TYPES: Any = types
"""`numba.core.types`, for names that its type hints leave out."""

OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
"""Options of all compiled functions. Without numba's reference counting (`_nrt`): it would count
all twenty arrays of the state at every call, which costs five times the work itself. In return
kernels must not allocate."""


def _widened(kind: Any) -> Any:
    """Return the type of an argument, without literal types and with 64-bit integers."""
    plain = NUMBA_TYPES.unliteral(kind)
    if isinstance(plain, NUMBA_TYPES.Integer) and plain.signed and plain.bitwidth < 64:
        return types.int64
    return plain


KEPT_VERSIONS = 4
"""Number of cache folders to keep, the newest first."""


def warm(compile_all: Callable[[], None], note: Callable[[str], None] | None = None) -> float:
    """Make sure the kernels are compiled.

    Args:
        compile_all: runs every kernel once on a tiny state.
        note: called with a message if nothing is cached, before the compilation begins.

    Returns:
        Seconds it took.
    """
    began = time.perf_counter()
    first = not config.DISABLE_JIT and not any(cache_folder().rglob("*.nbi"))
    if first and note is not None:
        note("compiling the kernel (first run only, about half a minute)")
    compile_all()
    if first:
        _drop_old_versions()
    return time.perf_counter() - began


def _drop_old_versions() -> None:
    """Delete all cache folders but those of the last few versions."""
    folders = sorted(
        (path for path in cache_root().iterdir() if path.is_dir()),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for folder in folders[KEPT_VERSIONS:]:
        shutil.rmtree(folder, ignore_errors=True)


# Machine instructions without a counterpart in Python --------------------

LINE_BYTES = 64
"""Size of a cache line."""


def lowest_bit(mask: Any) -> int:
    """Return the index of the lowest set bit; `mask` is not 0."""
    return (int(mask) & -int(mask)).bit_length() - 1


def highest_bit(mask: Any) -> int:
    """Return the index of the highest set bit; `mask` is not 0."""
    return int(mask).bit_length() - 1


def bit_count(mask: Any) -> int:
    """Return the number of set bits."""
    return int(mask).bit_count()


def prefetch(table: Any, at: int, line: int) -> None:
    """Fetch a cache line of a record, for later: the one it begins in, or one `line` lines behind.

    Any index does no harm.
    """


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(_context: Any, table: Any, at: Any, line: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        word = ir.IntType(64)
        offset = builder.mul(args[1], builder.extract_value(array.strides, 0))
        offset = builder.add(offset, builder.mul(args[2], word(LINE_BYTES)))
        place = builder.inttoptr(
            builder.add(builder.ptrtoint(array.data, word), offset), ir.IntType(8).as_pointer()
        )
        number, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(function, [place, number(0), number(3), number(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.none(table, at, line), emit


@intrinsic  # type: ignore[untyped-decorator]
def _cttz(_context: Any, _mask: Any) -> Any:
    def emit(_c: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), emit


@intrinsic  # type: ignore[untyped-decorator]
def _ctlz(_context: Any, _mask: Any) -> Any:
    def emit(_c: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), emit


@intrinsic  # type: ignore[untyped-decorator]
def _ctpop(_context: Any, _mask: Any) -> Any:
    def emit(_c: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), emit


@overload(lowest_bit)  # type: ignore[untyped-decorator]
def _compiled_lowest_bit(mask: Any) -> Any:
    def compiled(mask: Any) -> Any:
        return _cttz(np.uint64(mask))

    return compiled


@overload(highest_bit)  # type: ignore[untyped-decorator]
def _compiled_highest_bit(mask: Any) -> Any:
    def compiled(mask: Any) -> Any:
        return 63 - _ctlz(np.uint64(mask))

    return compiled


@overload(bit_count)  # type: ignore[untyped-decorator]
def _compiled_bit_count(mask: Any) -> Any:
    def compiled(mask: Any) -> Any:
        return _ctpop(np.uint64(mask))

    return compiled


@overload(prefetch)  # type: ignore[untyped-decorator]
def _compiled_prefetch(table: Any, at: Any, line: Any) -> Any:
    def compiled(table: Any, at: Any, line: Any) -> Any:
        _prefetch(table, np.int64(at), np.int64(line))

    return compiled
