"""The control plane's side of the worker process: takes its messages, and answers from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from flyball.control.ask.reported_steps import ReportedSteps
from flyball.control.ask.start_bands import StartBands
from flyball.control.ask.start_forecast import StartForecaster
from flyball.control.journal.tickets import Ticket
from flyball.core.forecast import Outlook, outlook_from_json
from flyball.core.learning import Message

EARLIER = 4
"""Earlier forecasts of a series that are kept."""
EARLIER_APART = 0.2
"""Least time between two of them, as a part of how far they look ahead."""
NO_WORKER = "nothing is forecast: this control plane has no worker"
NO_MESSAGE = "the worker has not said anything yet"


class WorkerClient:
    """Holds what the worker process last reported.

    Attributes:
        loads: forecasts of load, one mapping per series (`learn.loads`).
        status: how good predictions have been; empty until the first report.
        steps: the steps that running jobs reported.
        state_of_process: returns the state of the process; None if there is none.
        wake: starts a control cycle soon.
        on_outlook: gets the forecasts for policies and tuners.
    """

    def __init__(
        self,
        forecaster: StartForecaster,
        record_runs: Callable[[Sequence[Sequence[float]]], Ticket | None],
        record_scalings: Callable[[Sequence[Sequence[float]]], Ticket | None],
    ) -> None:
        """
        Args:
            record_runs, record_scalings: write predicted run times and scalings to the journal.
        """
        self._forecaster = forecaster
        self._record = {"runs": record_runs, "scaled": record_scalings}
        self.loads: list[dict[str, Any]] = []
        self.status: dict[str, Any] = {}
        self._earlier: dict[str, deque[dict[str, Any]]] = {}
        self.steps = ReportedSteps()
        self.state_of_process: Callable[[], dict[str, Any]] | None = None
        self.wake: Callable[[], None] = lambda: None
        self.on_outlook: Callable[[Outlook], None] = lambda outlook: None

    def receive(self, message: Message) -> None:
        """Take a message of the worker."""
        for name, record in self._record.items():
            ticket = record(message[name]) if name in message else None
            if ticket is not None:
                ticket.wait()
                self.wake()
        if "bands" in message:
            self._forecaster.bands = StartBands.of(message["bands"])
        if "loads" in message:
            self._keep_earlier()
            self.loads = list(message["loads"])
        if "outlook" in message:
            self.on_outlook(outlook_from_json(message["outlook"]))
        if "status" in message:
            self.status = dict(message["status"])

    def _keep_earlier(self) -> None:
        """Keep forecasts that are about to be replaced, so that they can be compared."""
        for row in self.loads:
            kept = self._earlier.setdefault(row["series"], deque(maxlen=EARLIER))
            if not kept or row["time"] - kept[-1]["time"] >= EARLIER_APART * row["ahead_s"][-1]:
                names = ("time", "ahead_s", "p05", "p50", "p95")
                kept.append({name: row[name] for name in names})

    def forecasts(self) -> dict[str, Any]:
        """Return forecasts of load, and how good predictions have been, as the API shows them."""
        running = self.state_of_process
        note = "" if self.status else NO_MESSAGE if running else NO_WORKER
        worker = running() if running else {}
        loads = [
            {**row, "earlier": list(self._earlier.get(row["series"], ()))} for row in self.loads
        ]
        return {"loads": loads, "predictions": {**self.status, "note": note, "worker": worker}}
