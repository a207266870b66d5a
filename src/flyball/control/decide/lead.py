"""The pathway that a live cluster follows: that of the class with most of the device time.

It is chosen anew every `LEAD_S`, so that a few jobs do not turn the cluster's settings over and
back; each decision records which one it followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flyball.core.knobs import Knobs
from flyball.core.protocols import Tuner
from flyball.core.units import to_us
from flyball.tune.pathways import Pathway, pathway_of, settings
from flyball.tune.registry import LIVE

LEAD_S = 300.0
"""Time between two choices of the leading pathway."""


class Lead:
    """Holds the pathway that leads, and applies its settings to those of the operator.

    Attributes:
        pathway: the one that leads; None = none was chosen yet.
    """

    def __init__(self, knobs: Knobs) -> None:
        """
        Args:
            knobs: those of the operator's policy.
        """
        self._base = knobs
        self._period = -1
        self.pathway: Pathway | None = None

    def choose(self, leading: Callable[[], Pathway | None], now_us: int) -> None:
        """Choose the pathway that leads, if it is time to and there are jobs to choose by."""
        period = now_us // to_us(LEAD_S)
        if period != self._period and (pathway := leading()) is not None:
            self._period, self.pathway = period, pathway

    def follow(self, label: str) -> None:
        """Follow the pathway that a recorded decision followed."""
        self.pathway = pathway_of(0, label)

    @property
    def label(self) -> str | None:
        """The name of the pathway that leads; None = none does."""
        return None if self.pathway is None else self.pathway.label

    @property
    def knobs(self) -> Knobs:
        """The operator's knobs with those of the pathway."""
        return self._base if self.pathway is None else settings(self.pathway).apply(self._base)

    @property
    def tuners(self) -> dict[str, Tuner]:
        """The tuners of the pathway that can act on a live cluster, by name."""
        return {} if self.pathway is None else live_tuners(self.pathway)

    def view(self) -> dict[str, Any] | None:
        """Return the pathway with its knobs and tuners, for JSON; None = none leads."""
        if self.pathway is None:
            return None
        knobs = {name: _plain(value) for name, value in settings(self.pathway).knobs.items()}
        return {"pathway": self.label, "knobs": knobs, "tuners": list(self.tuners)}


def live_tuners(pathway: Pathway) -> dict[str, Tuner]:
    """Return the tuners of a pathway that can act on a live cluster, in their order."""
    named = {type(tuner).__name__.lower(): tuner for tuner in settings(pathway).tuners}
    return {name: named[name] for name in LIVE if name in named}


def _plain(value: Any) -> Any:
    return value.name.lower() if hasattr(value, "name") else value
