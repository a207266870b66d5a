"""`flyball bench twin`: events per second of the twin on this machine."""

from __future__ import annotations

from flyball.cli.bench.figures import print_figures
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.cli.progress import progress

EXAMPLES = """\b
Examples:
  flyball bench twin
  flyball bench twin --json > twin.json
"""


def twin(as_json: AsJson = False) -> None:
    """Measure the twin's events per CPU-second on saturated clusters, and the cost of a clone."""
    from flyball.bench.twin import STEPS, figures, run

    with progress("measuring", STEPS, as_json) as advance:
        result = run(note, advance)
    if as_json:
        print_json(result)
        return
    print_figures("The twin on saturated clusters", figures(result))
