"""Serves a policy to a live cluster: from snapshots to choices, and from records to the same ones.

It implements `control.decide.governing.Governs`, which is how the control plane sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from flyball.core.knobs import Knobs
from flyball.core.signals import Signal
from flyball.core.state import State
from flyball.learn.env.memory import Outside
from flyball.learn.env.spaces import INCUMBENT, PRIORITIES, Floats
from flyball.learn.policy.artifact import SHOWN
from flyball.learn.policy.governor import Choice, Governor, Seen, choice_of
from flyball.twin.stepping.fields import GAINS_SIZE, LATELY, LATELY_FIELDS, OBSERVATION_SIZE
from flyball.twin.stepping.observe import COUNTS, observe_now

Record = Mapping[str, Any]
DECIMALS = 6
"""Of the inputs that are recorded: a choice is made from what is on record."""


class Moment(Protocol):
    """What a choice is made from; see `control.decide.governing.Moment`."""

    @property
    def state(self) -> State: ...
    @property
    def knobs(self) -> Knobs: ...
    @property
    def now_us(self) -> int: ...
    @property
    def lately(self) -> Any: ...
    @property
    def signals(self) -> tuple[Signal | None, Signal | None]: ...


class LiveGovernor:
    """Chooses knobs for a live cluster.

    Attributes:
        about: name, hash and epoch of the policy.
    """

    def __init__(self, governor: Governor) -> None:
        self._governor = governor
        file = governor.file
        self.about: Record = {
            "file": str(Path(file.path).resolve()),
            "hash": file.hash,
            "epoch_s": file.epoch_s,
            "price": bool(governor.priorities[PRIORITIES.index("money")] > 0),
            "carbon": bool(governor.priorities[PRIORITIES.index("carbon")] > 0),
        }

    def due(self, now_us: int) -> bool:
        """Return whether a choice is due."""
        return self._governor.due(now_us)

    def choose(self, moment: Moment) -> Record:
        """Return the choice, with the inputs that no snapshot holds."""
        outside = np.round(Outside(*moment.signals).numbers(moment.now_us), DECIMALS)
        inputs = {"lately": list(moment.lately), "outside": outside.tolist()}
        choice = self._governor.choose(_seen(moment, inputs))
        return self._record(choice, inputs)

    def repeat(self, moment: Moment, record: Record) -> Record:
        """Return the choice made again from recorded inputs."""
        inputs = record["inputs"]
        choice = self._governor.repeat(_seen(moment, inputs), choice_of(record))
        return self._record(choice, inputs)

    def knobs(self, record: Record) -> Knobs:
        """Return the knobs of a recorded choice."""
        return choice_of(record).knobs

    def settle(self) -> None:
        """Note that the last choice is on record."""
        self._governor.settle()

    def view(self) -> dict[str, Any]:
        """Return what it chose last, and how often it fell back."""
        last, counts = self._governor.last, dict(self._governor.counts)
        return {
            "policy": Path(self._governor.file.path).stem,
            "hash": self._governor.file.hash[:SHOWN],
            "epoch_s": self._governor.file.epoch_s,
            "choices": counts.pop("choices", 0),
            "fallbacks": counts,
            "last": last.as_dict() if last else None,
        }

    def _record(self, choice: Choice, inputs: Mapping[str, Any]) -> Record:
        base, knobs = INCUMBENT.as_dict(), choice.knobs.as_dict()
        changed = {name: value for name, value in knobs.items() if value != base[name]}
        return {
            "policy": self._governor.file.hash[:SHOWN],
            **choice.as_dict(),
            "knobs": changed,
            "inputs": dict(inputs),
        }


def _seen(moment: Moment, inputs: Mapping[str, Any]) -> Seen:
    """Return what a choice sees: the snapshot's numbers, and those on record."""
    ledger = np.zeros(GAINS_SIZE)
    ledger[0] = moment.now_us  # nothing has happened since: what has is in `lately`
    cluster: Floats = np.zeros(OBSERVATION_SIZE)
    sums, counts = np.zeros(GAINS_SIZE), np.zeros(COUNTS, np.int64)
    observe_now(moment.state, ledger, moment.now_us, cluster, sums, counts)
    cluster[LATELY : LATELY + len(LATELY_FIELDS)] = inputs["lately"]
    outside = np.array(inputs["outside"], np.float64)
    return Seen(moment.state, moment.knobs, moment.now_us, cluster, outside)
