"""Optimises a model by name and writes report, pictures and the optimised model to a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flyball.models.backends.registry import EXACT, REDUCED
from flyball.models.result import Result

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

        result, files = optimize_file(Path(model), settings, folder, advance)
        pictures: list[Path] = []
    else:
        result, files, pictures = _optimize_module(model, folder, settings, advance)
    if folder is not None:
        from flyball.models import report

        report.write(result, folder, pictures)
        files = [report.REPORT, report.FIGURES, *files]
        files += [f"{PICTURES}/{path.name}" for path in pictures]
    return result, files


def _optimize_module(
    model: str, folder: Path | None, settings: Settings, advance: Callable[[str], None]
) -> tuple[Result, list[str], list[Path]]:
    from flyball.models import artifact, pictures, sources
    from flyball.models.program import Program
    from flyball.models.search import optimize

    source = sources.read(model)
    drawn: list[Path] = []

    def draw(stage: str, program: Program) -> None:
        if folder is None:
            return
        (folder / PICTURES).mkdir(exist_ok=True)
        path = folder / PICTURES / f"{len(drawn)}-{stage}.png"
        pictures.draw(program, f"{source.name}: {stage}", path)
        drawn.append(path)

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
        watch=draw,
    )
    files = artifact.write(result, folder) if folder is not None else []
    return result, files, drawn
