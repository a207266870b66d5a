"""Final states of all ended jobs, one byte each, since the control plane keeps them for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from flyball.core.jobs import JobState

STATES = (None, *(state for state in JobState if state.final))
"""Final state of each byte value; 0 = the job has not ended."""
CODES = {state: code for code, state in enumerate(STATES)}
INITIAL_SIZE = 1024


class FinalStates(Mapping[int, JobState]):
    """Maps job ids to final states. Ids are consecutive, so they serve as indices."""

    def __init__(self, pairs: Iterable[tuple[int, JobState]] = ()) -> None:
        self._codes = bytearray(INITIAL_SIZE)
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
        """Return the highest id of an ended job, 0 if there is none."""
        return len(self._codes.rstrip(b"\0")) - 1 if self._count else 0

    def _code(self, job_id: int) -> int:
        return self._codes[job_id] if 0 <= job_id < len(self._codes) else 0
