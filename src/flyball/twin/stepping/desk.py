"""Passes twins to compiled code by address.

To call a compiled function with a state takes some 20 us: numba unpacks forty arrays. That is as
long as a small cluster takes for an hour of virtual time. So the addresses of a twin's arrays are
written down once, in a row of integers, and compiled code makes the arrays from them. One call
can then serve many twins.

Without the compiler (`NUMBA_DISABLE_JIT=1`) a row is the tuple of the objects themselves.
"""

from __future__ import annotations

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
from flyball.twin.build import build_state

WORDS = 3
"""Integers that describe an array: its address and up to two dimensions."""
PARTS = 3
"""Things on a desk: the state, the packed knobs and the ledger."""


class Desk:
    """Holds a twin's state, knobs and ledger where compiled code finds them.

    Attributes:
        state: the state that the addresses are of; keep the desk only as long as it is in use.
        row: the addresses.
    """

    def __init__(self, state: State, packed: Records, ledger: Any) -> None:
        self.state, self._kept = state, (packed, ledger)
        self.row: Any = (state, packed, ledger)
        if not config.DISABLE_JIT:
            self.row = np.zeros(WORDS * (len(State._fields) + PARTS - 1), np.int64)
            write_addresses(state, packed, ledger, self.row)


def rows_of(desks: list[Desk]) -> Any:
    """Return the rows of several desks, as compiled code takes them."""
    rows = [desk.row for desk in desks]
    return rows if config.DISABLE_JIT else np.array(rows)


def open_desk(rows: Any, at: int) -> Any:
    """Return (state, packed knobs, ledger) of one row."""
    return rows[at]


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
        table = context.make_array(signature.args[0])(context, builder, args[0])
        step = builder.extract_value(table.strides, 0)
        first = builder.add(builder.ptrtoint(table.data, INT), builder.mul(args[1], step))
        values = [
            _array(context, builder, kind, first, WORDS * 8 * place)
            for place, kind in enumerate(_arrays(desk))
        ]
        state = context.make_tuple(builder, desk.types[0], values[:-2])
        return context.make_tuple(builder, desk, [state, *values[-2:]])

    return desk(rows, at), emit


INT = ir.IntType(64)


def _word(builder: Any, first: Any, offset: int) -> Any:
    """Emit a load of the integer `offset` bytes behind an address."""
    place = builder.add(first, ir.Constant(INT, offset))
    return builder.load(builder.inttoptr(place, INT.as_pointer()))


def _array(context: Any, builder: Any, kind: Any, first: Any, offset: int) -> Any:
    """Emit the array that three integers describe."""
    address = _word(builder, first, offset)
    shape = [_word(builder, first, offset + 8 * (1 + axis)) for axis in range(kind.ndim)]
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


@entry
def write_addresses(state: Any, packed: Any, ledger: Any, row: Any) -> None:
    """Write down where the arrays are."""
    _store(state, packed, ledger, row)
