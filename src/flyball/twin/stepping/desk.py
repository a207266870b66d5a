"""Passes twins to compiled code by address.

To call a compiled function with a state takes some 20 us: numba unpacks forty arrays. That is as
long as a small cluster takes for an hour of virtual time. So the addresses of a twin's arrays are
written down once, in a row of integers, and compiled code makes the arrays from them. One call
can then serve many twins. It calls the event loop of `Twin.run` by its address too: the same
machine code, which need not be compiled a second time.

Without the compiler (`NUMBA_DISABLE_JIT=1`) a row is the tuple of the objects themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.knobs import KNOBS, Knobs
from flyball.core.records import Records, records
from flyball.core.state import State
from flyball.core.workload import Workload
from flyball.physics.compile import NUMBA_TYPES, entry
from flyball.twin import kernel
from flyball.twin.build import build_state

WORDS = 3
"""Integers that describe an array: its address and up to two dimensions."""
PARTS = 3
"""Things on a desk: the state, the packed knobs and the ledger."""


class Desk:
    """Holds a twin's state, knobs and ledger where compiled code finds them.

    Attributes:
        state: the state that the addresses are of; keep the desk only as long as it is in use.
        place: where the addresses of its arrays are.
    """

    def __init__(self, state: State, packed: Records, ledger: Any) -> None:
        self.state, self._kept = state, (packed, ledger)
        self.place: Any = (state, packed, ledger)
        if not config.DISABLE_JIT:
            self._row = np.zeros(WORDS * (len(State._fields) + PARTS - 1), np.int64)
            write_addresses(state, packed, ledger, self._row)
            self.place = address_of(self._row)


def address_of(array: Any) -> int:
    """Return where the first byte of an array is."""
    return int(array.ctypes.data)  # its `__array_interface__` describes every field: 20 us


def rows_of(desks: Sequence[Desk]) -> Any:
    """Return where several desks are, as compiled code takes it."""
    places = [desk.place for desk in desks]
    return places if config.DISABLE_JIT else np.array(places, np.int64)


def knobs_of(packed: Records) -> Any:
    """Return where the settings of a table are, as compiled code takes it."""
    if config.DISABLE_JIT:
        return [packed[at : at + 1] for at in range(len(packed))]
    return address_of(packed) + packed.itemsize * np.arange(len(packed))


def open_desk(rows: Any, at: int) -> Any:
    """Return (state, packed knobs, ledger) of one row."""
    return rows[at]


def open_knobs(rows: Any, at: int) -> Any:
    """Return a tuple of one packed setting of a table."""
    return (rows[at],)


def run_at(_address: int, state: Any, packed: Any, until_us: int) -> None:
    """Call `kernel.run`, of which compiled code has the address."""
    kernel.run(state, packed, until_us, False)


@cache
def address_of_run() -> int:
    """Return where the machine code of `kernel.run` is; compile it if need be."""
    if config.DISABLE_JIT:
        return 0
    state, packed, _ledger = _desk_type().types
    signature = (state, packed, types.int64, types.boolean)
    kernel.run.compile(signature)  # type: ignore[attr-defined]
    compiled = kernel.run.overloads[signature]  # type: ignore[attr-defined]
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


@cache
def _desk_type() -> Any:
    """Return the numba type of what `open_desk` returns."""
    cluster = Cluster("tiny", (NodeGroup("a", 1, "V100", 1),))
    state = build_state(cluster, Workload.of("tiny", [0.0], [1.0]), Knobs(), Effects())
    return NUMBA_TYPES.Tuple(
        (numba.typeof(state), numba.typeof(records(1, KNOBS)), types.float64[::1])
    )


def _arrays(desk: Any) -> list[Any]:
    state, packed, ledger = desk.types
    return [*state.types, packed, ledger]


@intrinsic  # type: ignore[untyped-decorator]
def _load(_context: Any, rows: Any, at: Any) -> Any:
    desk = _desk_type()

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = _entry(context, builder, signature, args)
        values = [
            _array(context, builder, kind, first, WORDS * 8 * place)
            for place, kind in enumerate(_arrays(desk))
        ]
        state = context.make_tuple(builder, desk.types[0], values[:-2])
        return context.make_tuple(builder, desk, [state, *values[-2:]])

    return desk(rows, at), emit


INT = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def _load_knobs(_context: Any, rows: Any, at: Any) -> Any:
    only = NUMBA_TYPES.Tuple(_desk_type().types[1:2])  # a function may not return an array itself

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _entry(context, builder, signature, args)
        packed = _made(context, builder, only.types[0], place, [ir.Constant(INT, 1)])
        return context.make_tuple(builder, only, [packed])

    return only(rows, at), emit


@intrinsic  # type: ignore[untyped-decorator]
def _call_run(_context: Any, address: Any, state: Any, packed: Any, until_us: Any) -> Any:
    kinds = (state, packed, types.int64, types.boolean)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function_type = context.call_conv.get_function_type(types.boolean, kinds)
        function = builder.inttoptr(args[0], function_type.as_pointer())
        resume = context.get_constant(types.boolean, False)
        context.call_conv.call_function(
            builder, function, types.boolean, kinds, [*args[1:], resume]
        )
        return context.get_dummy_value()

    return types.none(address, state, packed, until_us), emit


def _entry(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Emit the load of an integer from a list of them."""
    table = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.load(builder.gep(table.data, [args[1]]))


def _word(builder: Any, first: Any, offset: int) -> Any:
    """Emit a load of the integer `offset` bytes behind an address."""
    place = builder.add(first, ir.Constant(INT, offset))
    return builder.load(builder.inttoptr(place, INT.as_pointer()))


def _array(context: Any, builder: Any, kind: Any, first: Any, offset: int) -> Any:
    """Emit the array that three integers describe."""
    address = _word(builder, first, offset)
    shape = [_word(builder, first, offset + 8 * (1 + axis)) for axis in range(kind.ndim)]
    return _made(context, builder, kind, address, shape)


def _made(context: Any, builder: Any, kind: Any, address: Any, shape: list[Any]) -> Any:
    """Emit the array of a kind and shape at an address."""
    data_type = context.get_data_type(kind.dtype)
    size = ir.Constant(INT, context.get_abi_sizeof(data_type))
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    array = context.make_array(kind)(context, builder)
    populate_array(
        array,
        data=builder.inttoptr(address, data_type.as_pointer()),
        shape=cgutils.pack_array(builder, shape, INT),
        strides=cgutils.pack_array(builder, strides, INT),
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


@intrinsic  # type: ignore[untyped-decorator]
def _store(_context: Any, state: Any, packed: Any, ledger: Any, row: Any) -> Any:
    desk = _desk_type()
    if NUMBA_TYPES.Tuple((state, packed, ledger)) != desk:
        raise TypingError(f"the arrays of this state are of other types: {state}")

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        fields = [builder.extract_value(args[0], at) for at in range(len(desk.types[0]))]
        target = context.make_array(signature.args[3])(context, builder, args[3])
        first = builder.ptrtoint(target.data, INT)
        for place, (kind, value) in enumerate(
            zip(_arrays(desk), [*fields, args[1], args[2]], strict=True)
        ):
            array = context.make_array(kind)(context, builder, value)
            words = [builder.ptrtoint(array.data, INT)]
            words += [builder.extract_value(array.shape, axis) for axis in range(kind.ndim)]
            for at, word in enumerate(words):
                spot = builder.add(first, ir.Constant(INT, 8 * (WORDS * place + at)))
                builder.store(word, builder.inttoptr(spot, INT.as_pointer()))
        return context.get_dummy_value()

    return types.none(state, packed, ledger, row), emit


@overload(open_desk)  # type: ignore[untyped-decorator]
def _compiled_open_desk(rows: Any, at: Any) -> Any:
    def compiled(rows: Any, at: Any) -> Any:
        return _load(rows, np.int64(at))

    return compiled


@overload(open_knobs)  # type: ignore[untyped-decorator]
def _compiled_open_knobs(rows: Any, at: Any) -> Any:
    def compiled(rows: Any, at: Any) -> Any:
        return _load_knobs(rows, np.int64(at))

    return compiled


@overload(run_at)  # type: ignore[untyped-decorator]
def _compiled_run_at(_address: Any, state: Any, packed: Any, until_us: Any) -> Any:
    def compiled(_address: Any, state: Any, packed: Any, until_us: Any) -> Any:
        _call_run(_address, state, packed, np.int64(until_us))

    return compiled


@entry
def write_addresses(state: Any, packed: Any, ledger: Any, row: Any) -> None:
    """Write down where the arrays are."""
    _store(state, packed, ledger, row)
