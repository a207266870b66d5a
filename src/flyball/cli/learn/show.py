"""`flyball learn show` and `export`: what a policy file holds, and where it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table
from flyball.core.errors import BadInput

EXAMPLES = """\b
Examples:
  flyball learn show
  flyball learn show runs/mine
  flyball learn show runs/mine/policy.safetensors --json
  flyball learn export runs/mine mine.safetensors
  flyball replay jobs.csv -c mine.yaml --policy tuned,learned:mine.safetensors
"""


def show(
    policy: Annotated[
        Path | None,
        typer.Argument(help="Policy file or folder of a training run. [default: what ships]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a policy is, how it was made, its scores and its limits."""
    from flyball.learn.policy.forward import Net

    file = _read(policy)
    Net(file)  # refuses tensors that do not fit
    size = sum(tensor.size for tensor in file.tensors.values())
    if as_json:
        print_json({"path": file.path, "hash": file.hash, "numbers": size, "card": dict(file.card)})
        return
    made: dict[str, Any] = dict(file.card.get("made", {}))
    rows = [("file", file.path), ("hash", file.hash[:12]), ("net", str(file.card["kind"]))]
    rows += [("numbers", f"{size:,}"), ("acts every", f"{file.epoch_s:g} s")]
    rows += [(name, _text(value)) for name, value in made.items()]
    print_table("", ("", ""), rows, 2)


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a training run, or a policy file.")],
    out: Annotated[Path, typer.Argument(help="File to write: NAME.safetensors, and NAME.json.")],
) -> None:
    """Copy a policy with its card, after checking that it can be served."""
    if out.suffix != ".safetensors":
        raise BadInput(f"{out}: cannot write this kind of file", "use NAME.safetensors")
    if not out.parent.is_dir():
        raise BadInput(f"{out}: no folder {str(out.parent)!r}", "make it or name another")
    from flyball.learn.policy.artifact import write
    from flyball.learn.policy.forward import Net

    file = _read(run)
    Net(file)
    digest = write(out, file.tensors, file.card)
    note(f"wrote {out} and {out.with_suffix('.json').name}; policy {digest[:12]}")


def _read(policy: Path | None) -> Any:
    from flyball.learn.policy.artifact import read, shipped
    from flyball.learn.training.folder import KEPT, POLICY

    path = shipped() if policy is None else policy
    if path.is_dir():
        if (path / KEPT).exists():
            raise BadInput(
                f"{path}: a policy file cannot hold this kind of policy",
                "it can be compared (`learn compare --runs`), not served",
            )
        path = path / POLICY
    return read(path)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
