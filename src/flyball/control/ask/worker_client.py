"""The control plane's side of what is learnt beside it: hears the worker, answers for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flyball.control.ask.reported_steps import StepBook
from flyball.control.ask.start_bands import StartBands
from flyball.control.ask.start_forecast import Forecaster
from flyball.control.journal.tickets import Ticket

NOBODY = "nothing is forecast: no worker runs beside this control plane"
NOT_YET = "the worker has not said anything yet"


class Beside:
    """What the worker last said.

    Attributes:
        loads: forecasts of load, a mapping each (`foresight.loads`).
        status: how good predictions have been; empty = not said yet.
        steps: what running jobs said of themselves.
    """

    def __init__(
        self,
        forecaster: Forecaster,
        predicted: Callable[[Sequence[Sequence[float]]], Ticket | None],
        scaled: Callable[[Sequence[Sequence[float]]], Ticket | None],
    ) -> None:
        """
        Args:
            predicted, scaled: put run times, and how jobs scale, on record.
        """
        self._forecaster = forecaster
        self._record = {"runs": predicted, "scaled": scaled}
        self.loads: list[dict[str, Any]] = []
        self.status: dict[str, Any] = {}
        self.steps = StepBook()
        self.worker: Callable[[], dict[str, Any]] | None = None
        """How the worker is; None = there is none."""
        self.wake: Callable[[], None] = lambda: None
        self.share: Callable[[dict[str, Any]], None] = lambda loads: None
        """Told of forecasts of load, by series: policies may read them."""

    def hear(self, message: dict[str, Any]) -> None:
        """The worker has said something."""
        for name, record in self._record.items():
            ticket = record(message[name]) if name in message else None
            if ticket is not None:
                ticket.wait()
                self.wake()
        if "bands" in message:
            self._forecaster.bands = StartBands.of(message["bands"])
        if "loads" in message:
            self.loads = list(message["loads"])
            self.share({str(each["series"]): each for each in self.loads})
        if "status" in message:
            self.status = dict(message["status"])

    def told(self) -> dict[str, Any]:
        """For the API: forecasts of load, and how good everything has been."""
        note = "" if self.status else NOT_YET if self.worker else NOBODY
        worker = self.worker() if self.worker else {}
        return {"loads": self.loads, "predictions": {**self.status, "note": note, "worker": worker}}
