"""What an optimisation found: candidates with error and speed, the choice, the stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.models.graph.passes import Stage
    from flyball.models.machine import Machine
    from flyball.models.program import Program

EAGER = "eager"
"""Name of the model as it is; as a choice it means "leave it"."""


@dataclass(frozen=True)
class Candidate:
    """One way to run the model, and what was measured of it.

    Attributes:
        name: of the back end, or `eager`.
        status: `equal`, `different` (error above the tolerance), `failed`, `left out` or `reduced`
            (lower precision, on request; never chosen).
        error: largest error relative to the output's scale; None = not compared.
        call_s: median time of a call.
        ratio: times as fast as eager, the median over interleaved rounds.
        low, high: interval of that ratio.
        build_s: time to build it.
        reason: why it failed or was left out.
    """

    name: str
    status: str
    error: float | None = None
    call_s: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    build_s: float = 0.0
    reason: str = ""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Candidate:
        """Return the candidate of a JSON object; unknown keys are ignored."""
        names = {entry.name for entry in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})


@dataclass
class Result:
    """What `optimize` returns.

    Attributes:
        name: of the model.
        digest: hash of its operations, shapes and weights.
        threads: number of threads that candidates used.
        machine: where it was measured.
        candidates: eager first.
        choice: name of the fastest equal candidate, or `eager`: leave it.
        stages: what each pass changed; empty if the model has no graph.
        modelled: modelled time and energy by device type, before and after the passes.
        notes: what could not be done, and why.
        other_load: cores that other processes kept busy while times were taken; None = from cache.
        from_cache: whether times and choice were remembered from an earlier run.
        program: the graph after the passes; None if the model has no graph.
        run: runs the chosen candidate on flat tensors.
        call: calls it as the user's module is called.
    """

    name: str
    digest: str
    threads: int
    machine: Machine
    candidates: list[Candidate]
    choice: str
    stages: list[Stage] = field(default_factory=list)
    modelled: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    other_load: float | None = None
    from_cache: bool = False
    program: Program | None = None
    run: Callable[..., Any] | None = None
    call: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the chosen candidate as the module would be called."""
        assert self.call is not None
        return self.call(*args, **kwargs)

    def candidate(self, name: str) -> Candidate | None:
        """Return the candidate of this name."""
        return next((one for one in self.candidates if one.name == name), None)

    @property
    def chosen(self) -> Candidate:
        """The chosen candidate."""
        chosen = self.candidate(self.choice)
        assert chosen is not None
        return chosen

    @property
    def speedup(self) -> float:
        """Times as fast as eager; 1 if the model is left as it is."""
        ratio = self.chosen.ratio
        return ratio if ratio is not None and self.choice != EAGER else 1.0

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON shows it."""
        portable = [stage for stage in self.stages if stage.is_portable]
        first, last = (portable[0], portable[-1]) if portable else (None, None)
        return {
            "model": self.name,
            "digest": self.digest,
            "threads": self.threads,
            "machine": asdict(self.machine),
            "choice": self.choice,
            "speedup": self.speedup,
            "low": self.chosen.low if self.choice != EAGER else 1.0,
            "high": self.chosen.high if self.choice != EAGER else 1.0,
            "eager_s": self.candidates[0].call_s,
            "optimised_s": self.chosen.call_s,
            "candidates": [asdict(candidate) for candidate in self.candidates],
            "stages": [stage.as_dict() for stage in self.stages],
            "operations_before": first.cost.operations if first else None,
            "operations_after": last.cost.operations if last else None,
            "memory_bytes": last.cost.weight_bytes + last.cost.peak_bytes if last else None,
            "modelled": self.modelled,
            "other_load_cores": self.other_load,
            "from_cache": self.from_cache,
            "notes": self.notes,
        }
