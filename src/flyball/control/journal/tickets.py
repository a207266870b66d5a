"""Tickets: the journal's promise that what was appended is on the disk."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from flyball.core.errors import FlyballError


class JournalUnavailable(FlyballError):
    """What was appended is not durable: a full disk, a broken one, a closed journal."""

    exit_code = 75


class Ticket:
    """A promise of durability for one append.

    Attributes:
        future: what `wait` waits for, for those who must not block: its result is the number of
            the last event. Its callbacks run in the journal's writer: be quick.
        answer: once durable: what was stored under the key of the append.
        repeated: once durable: whether the key had been used before. Then nothing was appended,
            and `answer` and the number are those of the first time.
    """

    __slots__ = ("answer", "future", "repeated")

    def __init__(self) -> None:
        self.future: Future[int] = Future()
        self.future.set_running_or_notify_cancel()  # from now on nobody can cancel it
        self.answer: Any = None
        self.repeated = False

    def wait(self, timeout_s: float | None = None) -> int:
        """The number of the last event, once it is durable.

        Raises:
            JournalUnavailable: it is not, or not yet after `timeout_s`. In the second case it may
                still become so: repeat the append under the same key to find out.
        """
        try:
            return self.future.result(timeout_s)
        except TimeoutError:
            raise JournalUnavailable(
                f"the journal has not answered within {timeout_s:g} s",
                "try again, with the same key",
            ) from None
