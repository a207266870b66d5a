"""How every job ended that has: a byte each, since a control plane keeps them for good."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from flyball.core.jobs import JobState

STATES = (None, *(state for state in JobState if state.final))
"""A byte is a place in here; 0 = it has not ended."""
CODES = {state: code for code, state in enumerate(STATES)}
ROOM = 1024


class Ended(Mapping[int, JobState]):
    """Final states by job id. Ids are given out one after the other, so they are places."""

    def __init__(self, pairs: Iterable[tuple[int, JobState]] = ()) -> None:
        self._codes = bytearray(ROOM)
        self._count = 0
        for job_id, state in pairs:
            self[job_id] = state

    def __setitem__(self, job_id: int, state: JobState) -> None:
        if job_id >= len(self._codes):
            self._codes.extend(bytes(max(job_id + 1, 2 * len(self._codes)) - len(self._codes)))
        self._count += not self._codes[job_id]
        self._codes[job_id] = CODES[state]

    def __contains__(self, job_id: object) -> bool:
        return isinstance(job_id, int) and self._code(job_id) != 0

    def __getitem__(self, job_id: int) -> JobState:
        state = STATES[self._code(job_id)]
        if state is None:
            raise KeyError(job_id)
        return state

    def __iter__(self) -> Iterator[int]:
        return (job_id for job_id, code in enumerate(self._codes) if code)

    def __len__(self) -> int:
        return self._count

    @property
    def last(self) -> int:
        """The highest id among them, 0 if there is none."""
        return len(self._codes.rstrip(b"\0")) - 1 if self._count else 0

    def _code(self, job_id: int) -> int:
        return self._codes[job_id] if 0 <= job_id < len(self._codes) else 0
