"""Reports of a job on another machine than the control plane: over HTTP, with the attempt's token.

A thread sends what has come since its last request, at most once a second. Nothing is kept for
later: a report is lost if the control plane does not answer. Standard library only.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import ssl
import threading
import urllib.request
from typing import Any

SPACING_S = 1.0
TIMEOUT_S = 5.0
AT_END_S = 2.0
"""How long a program that ends waits for its last report."""


class RemoteReports:
    """Sends the latest values from a thread."""

    def __init__(self, url: str, token: str, ca: str = "") -> None:
        self._url, self._token, self._ca = f"{url.rstrip('/')}/api/v1/attempt/report", token, ca
        self._changed = threading.Condition()
        self._values: dict[str, float] = {}
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="flyball-reports", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    def put(self, values: dict[str, float]) -> None:
        """Have values sent soon; later ones replace earlier ones of the same name."""
        with self._changed:
            self._values.update(values)
            self._changed.notify()

    def end(self) -> None:
        """Send what is left, for a moment only."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(AT_END_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._values or self._ending)
                values, self._values = self._values, {}
                ending = self._ending
            if values:
                with contextlib.suppress(Exception):  # a failed report must not end the job
                    self._send(values)
            if ending:
                return
            with self._changed:
                self._changed.wait_for(lambda: self._ending, timeout=SPACING_S)

    def _send(self, values: dict[str, float]) -> None:
        request = urllib.request.Request(  # noqa: S310  # the URL is the control plane's
            self._url,
            json.dumps({"values": values}, allow_nan=False).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        trust = ssl.create_default_context(cafile=self._ca) if self._ca else None
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=trust):  # noqa: S310
            return


def from_environment() -> Any:
    """Return the sender that the environment of this job describes; None if it describes none."""
    url, token = os.environ.get("FLYBALL_URL", ""), os.environ.get("FLYBALL_TOKEN", "")
    if not url.startswith(("http://", "https://")) or not token:
        return None
    return RemoteReports(url, token, os.environ.get("FLYBALL_CA", ""))
