"""Tickets: the journal's promise that what was appended is on the disk."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from flyball.core.errors import FlyballError


class JournalUnavailable(FlyballError):
    """Raised when an append is not durable: the disk is full or broken, or the journal closed."""

    exit_code = 75


class Ticket:
    """Promises durability for one append.

    Attributes:
        future: what `wait` waits for, for callers that must not block. Its result is the number of
            the last event. Its callbacks run in the journal's writer, so they must be quick.
        answer: once durable, what was stored under the key of the append.
        repeated: once durable, whether the key had been used before. Then nothing was appended,
            and `answer` and the number are those of the first time.
    """

    __slots__ = ("answer", "future", "repeated")

    def __init__(self) -> None:
        self.future: Future[int] = Future()
        self.future.set_running_or_notify_cancel()  # from now on it cannot be cancelled
        self.answer: Any = None
        self.repeated = False

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until the append is durable; return the number of its last event.

        Raises:
            JournalUnavailable: it failed, or is not durable after `timeout_s`. In the second case
                it may still become so: repeat the append under the same key to find out.
        """
        try:
            return self.future.result(timeout_s)
        except TimeoutError:
            raise JournalUnavailable(
                f"the journal has not answered within {timeout_s:g} s",
                "try again, with the same key",
            ) from None
