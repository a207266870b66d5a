"""`flyball optimize`: the fastest equal form of a user's model on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table, whole_number
from flyball.cli.progress import progress
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.models.result import Result

EXAMPLES = """\b
Examples:
  flyball optimize mypackage.models:resnet --out optimised/
  flyball optimize model.pt2 --threads 2 --time-limit 300
  flyball optimize model.onnx --json
  flyball optimize zoo:efficientnet-b0 --backend onnxruntime --backend openvino
\b
MODEL is package.module:callable, which returns (module, example inputs), a .pt2
file of torch.export.save, an ONNX file, or zoo:NAME. The folder of --out gets
report.md, report.json, pictures of the graph and the optimised model; load it
with flyball.models.load(folder). See docs/guide/optimize.md.
"""
MOST_THREADS = 1024


def optimize(
    model: Annotated[str, typer.Argument(help="package.module:callable, FILE.pt2, FILE.onnx.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report, pictures and optimised model; created if absent."),
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads; 0 = all cores.")] = 0,
    time_limit: Annotated[
        float, typer.Option(help="Seconds after which no further candidate is tried.")
    ] = 600.0,
    backend: Annotated[
        list[str] | None,
        typer.Option(help="Only this back end; may be repeated. [default: all that are exact]"),
    ] = None,
    reduced: Annotated[
        bool,
        typer.Option("--reduced", help="Also measure bf16 and int8, with their errors."),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure even if this model's choice is remembered.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a model cheaper without changing its results; write it with a report."""
    # 1. Check what was asked before anything heavy is imported.
    whole_number(threads, "--threads", 0, MOST_THREADS)
    if not time_limit > 0:
        raise BadInput(f"--time-limit {time_limit:g} is not positive", "give seconds")
    folder = _folder(out)
    from flyball.models.extras import require

    require("torch")
    from flyball.models.run import Settings, optimize_named, step_count

    settings = Settings(
        threads=threads,
        time_limit_s=time_limit,
        backends=tuple(backend or ()),
        reduced=reduced,
        use_cache=not fresh,
    )
    # 2. Search, and write what was found.
    with progress("optimising", step_count(settings), as_json) as advance:
        result, files = optimize_named(model, folder, settings, advance)
    # 3. Print it.
    if as_json:
        print_json({**result.as_dict(), "files": files})
        return
    _print(result)
    for message in result.notes:
        note(f"note: {message}")
    if folder is not None:
        note(f"written to {folder}: {', '.join(files)}")


def _folder(out: Path | None) -> Path | None:
    """Return the folder for results, made if it is absent.

    Raises:
        BadInput: there is a file in its place.
    """
    if out is None:
        return None
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file", "name a folder")
    out.mkdir(parents=True, exist_ok=True)
    return out


def _print(result: Result) -> None:
    from flyball.models.report import STAGE_HEADER, candidate_cells, headline, stage_rows

    header = ("back end", "status", "error", "ms a call", "times as fast", "interval", "built in")
    print_table("", header, [candidate_cells(one) for one in result.candidates], 2)
    if result.stages:
        print_table("", STAGE_HEADER, stage_rows(result))
    typer.echo(headline(result))
