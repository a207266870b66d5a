"""What learners need of a twin: knobs as last set, a ledger of totals, an observation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs
from flyball.core.protocols import Allocator
from flyball.core.records import Records
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.twin.stepping.desk import Desk
from flyball.twin.stepping.fields import GAINS_SIZE, OBSERVATION_SIZE
from flyball.twin.stepping.observe import COUNTS, observe_now
from flyball.twin.stepping.window import Part
from flyball.twin.tuning import Tuning


class Stepped:
    """Adds to a twin what a step reads and leaves behind.

    Attributes:
        part: what a fork holds of the whole run; None = this is not a fork.
        ledger: the totals at the end of the last step (`fields.GAINS`, times in us).
    """

    state: State
    allocator: Allocator | None
    tuning: Tuning | None
    part: Part | None
    ledger: Floats
    _knobs: Knobs | Callable[[], Knobs]
    _packed: Records
    _desk: Desk | None

    @property
    def knobs(self) -> Knobs:
        """Return the settings of the decisions."""
        if not isinstance(self._knobs, Knobs):
            self._knobs = self._knobs()
        return self._knobs

    def note_knobs(self, knobs: Knobs | Callable[[], Knobs], packed: Records | None = None) -> None:
        """Take note of knobs that the state has changed over to; a function is called if needed."""
        self._knobs = knobs
        if packed is not None:
            np.copyto(self._packed, packed)

    def _begin_ledger(self, ledger: Floats | None) -> None:
        """Begin with the totals of a step before; None = with those of the start."""
        self.ledger = np.zeros(GAINS_SIZE) if ledger is None else ledger.copy()
        if ledger is None:
            self.ledger[0] = self.state.clock["start_us"][0]
        self._desk = None

    @property
    def decides_in_python(self) -> bool:
        """Return whether a run calls plain Python on its way: for shares or tuners."""
        return self.allocator is not None or self.tuning is not None

    @property
    def desk(self) -> Desk:
        """Return the addresses of the arrays, for compiled code that steps many twins."""
        if self._desk is None or self._desk.state is not self.state:
            self._desk = Desk(self.state, self._packed, self.ledger)
        return self._desk

    def observe(self, now_us: int | None = None, out: Floats | None = None) -> Floats:
        """Return what a scheduler sees (`stepping.fields.OBSERVATION`); nothing is changed.

        Args:
            now_us: not before the last event handled, no later than the next; None = the former.
            out: written to if given.
        """
        out = np.zeros(OBSERVATION_SIZE) if out is None else out
        now_us = int(self.state.clock["now_us"][0]) if now_us is None else now_us
        counts = np.zeros(COUNTS, np.int64)
        observe_now(self.state, self.ledger, now_us, out, np.zeros(GAINS_SIZE), counts)
        return out

    def refuse_beyond(self, until_us: int) -> None:
        """Refuse to go beyond the window of a fork."""
        if self.part is not None and until_us > self.part.until_us:
            raise BadInput(
                f"the fork's window ends at {self.part.until_us} us, before {until_us} us",
                "run up to there, or fork further ahead",
            )

    def _refuse_part(self, what: str) -> None:
        """Refuse what a fork lacks the jobs for."""
        if self.part is not None:
            raise BadInput(
                f"a fork has no {what}: it holds {len(self.part.job_ids):,} jobs, not those that "
                "ended before it or come after its window",
                "use the twin it was forked from, or clone()",
            )
