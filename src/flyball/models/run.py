"""Optimises a model by name and writes report, pictures and the optimised model to a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.models.backends.registry import EXACT, REDUCED
from flyball.models.result import Result

if TYPE_CHECKING:
    from flyball.models.pictures import Operation

PICTURES = "pictures"


@dataclass(frozen=True)
class Settings:
    """How to search.

    Attributes:
        threads: 0 = as many as torch uses.
        time_limit_s: no candidate is begun after this time.
        backends: to try; () = all exact ones.
        reduced: also measure lower precision.
        use_cache: use and keep the choice of an earlier run.
    """

    threads: int = 0
    time_limit_s: float = 600.0
    backends: tuple[str, ...] = ()
    reduced: bool = False
    use_cache: bool = True


def step_count(settings: Settings) -> int:
    """Return how many times `optimize_named` reports progress."""
    return len(settings.backends or EXACT) + (len(REDUCED) if settings.reduced else 0) + 3


def optimize_named(
    model: str,
    folder: Path | None,
    settings: Settings,
    advance: Callable[[str], None] = lambda _step: None,
) -> tuple[Result, list[str]]:
    """Optimise a model by name; return the result and the names of the files written.

    Raises:
        BadInput: there is no such model, or it cannot run.
    """
    if model.endswith(".onnx"):
        from flyball.models.onnx_search import optimize_file

        drawn = Drawn(folder, Path(model).stem)
        result, files = optimize_file(Path(model), settings, folder, advance, drawn.draw)
    else:
        result, files, drawn = _optimize_module(model, folder, settings, advance)
    if folder is not None:
        from flyball.models import report

        report.write(result, folder, drawn.paths)
        files = [report.REPORT, report.FIGURES, *files]
        files += [f"{PICTURES}/{path.name}" for path in drawn.paths]
    return result, files


class Drawn:
    """Draws the stages of a model's graph into a folder, and keeps the paths of the pictures.

    Args:
        folder: of the results; None = nothing is drawn.
        name: of the model, for titles.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self.folder, self.name = folder, name
        self.paths: list[Path] = []

    def draw(self, stage: str, operations: Sequence[Operation]) -> None:
        """Draw the graph at a stage."""
        if self.folder is None:
            return
        from flyball.models.pictures import draw_operations

        (self.folder / PICTURES).mkdir(exist_ok=True)
        path = self.folder / PICTURES / f"{len(self.paths)}-{stage}.png"
        draw_operations(operations, f"{self.name}: {stage}", path)
        self.paths.append(path)


def _optimize_module(
    model: str, folder: Path | None, settings: Settings, advance: Callable[[str], None]
) -> tuple[Result, list[str], Drawn]:
    from flyball.models import artifact, sources
    from flyball.models.pictures import operations_of
    from flyball.models.search import optimize

    source = sources.read(model)
    drawn = Drawn(folder, source.name)
    result = optimize(
        source.module,
        source.example,
        name=source.name,
        threads=settings.threads,
        time_limit_s=settings.time_limit_s,
        backends=settings.backends or EXACT,
        reduced=settings.reduced,
        use_cache=settings.use_cache,
        advance=advance,
        watch=lambda stage, program: drawn.draw(stage, operations_of(program)),
    )
    files = artifact.write(result, folder) if folder is not None else []
    return result, files, drawn
