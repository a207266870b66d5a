"""Writes the page of all policies: the rule, knobs and figures of each.

The texts are the docstrings of the policies' modules, the figures those of a comparison:
`docs/guide/policies.md` is what `flyball bench compare` last wrote as `policies.md`.
"""

from __future__ import annotations

import sys
from typing import Any

from flyball.core.knobs import Knobs
from flyball.experiments.compare.summary import Comparison
from flyball.schedule.policies.registry import get_policy, location, names

HEAD = """\
# Policies and knobs

A policy is a preset of knobs, some with a rule that sets target shares. `flyball policies`
lists them, `flyball policies --knobs` says what each knob means, `--set knob=value` changes one
for every policy of a run.

**Which one?** For short waits: `tuned` or `srtf` where jobs may be set aside and run times are
known roughly, `las` or `tiresias` where they are not, `saf` where nothing may be set aside. For
tenants with quotas: `fair`. On mixed hardware with known speeds: `max-min-het` if everybody
should gain, `max-speed` for mean completion. For a batch that must be done by a time:
`min-makespan`. For packing fractions: `fgd`. Compare with strict `fifo` **and** with `easy`:
skipping the blocked head alone removes most of FIFO's completion time.

Policies never see true durations. `--estimates` says what they see: the trace's own estimates
where it states them, exact ones, or exact ones with a log-normal error.

Where run times are predicted, or drawn with an error, their spread is known too: `--set
backfill_quantile=0.9` expects jobs to end by their 90 % quantile in backfill and in `place=hold`,
`order_quantile` does the same for keys that read run times. 0.5 = the estimate as it is.

A policy of target shares followed by `@gavel` (`max-min@gavel`) decides as Gavel's simulator does;
`flyball bench gavel` compares all of them with it and tells what each difference is worth.

"""

FIGURES = """\
The figures of each policy are mean completion times over those of the best policy of a scenario
(1.00 = best), on {scenarios} scenarios with {seeds} seeds each; *overall* is their geometric
mean, *regret* is over a lower bound that no policy can beat. Changes are paired by seed, with
95 % intervals, over all scenarios. [compare.md](compare.md) explains the scenarios and the
bound. Made by `{command}` with estimates as each scenario has them; completion time is not all
there is, see fairness and makespan in the tables it writes.
"""


def policy_page(comparison: Comparison, command: str) -> str:
    """Return the page in Markdown, for the registered policies that were compared.

    Args:
        comparison: with the figures.
        command: that wrote it.
    """
    figures = FIGURES.format(
        scenarios=len(comparison.scenarios), seeds=len(comparison.seeds), command=command.strip()
    )
    shown = [name for name in names() if name in comparison.policies]
    return HEAD + figures + "".join(_section(name, comparison) for name in shown)


def _section(name: str, comparison: Comparison) -> str:
    policy = get_policy(name)
    text = rule_text(name)
    knobs = _knobs_text(policy.knobs)
    return (
        f"\n## {name}\n\n*{policy.summary}*\n\n{text}\n\n{knobs}\n\n{_figures(name, comparison)}\n"
    )


def rule_text(name: str) -> str:
    """Return the docstring of the policy's module."""
    module = sys.modules[location(name).partition(":")[0]]
    assert module.__doc__, f"{module.__name__} says nothing about its policy"
    return module.__doc__.strip()


def _knobs_text(knobs: Knobs) -> str:
    set_ = [f"`{knob}={_short(value)}`" for knob, value in knobs.changed().items()]
    return "Set: " + (", ".join(set_) if set_ else "nothing, all knobs at their defaults") + "."


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _figures(name: str, comparison: Comparison) -> str:
    by_scenario = {
        scenario: comparison.mean(scenario, name)["relative"] for scenario in comparison.scenarios
    }
    best = min(by_scenario, key=lambda scenario: by_scenario[scenario])
    worst = max(by_scenario, key=lambda scenario: by_scenario[scenario])
    overall = next(row for row in comparison.overall if row["policy"] == name)
    changes = [
        f"{mean:+.0f} % ({low:+.0f}..{high:+.0f}) from `{base}`"
        for base, (mean, low, high) in overall["change"].items()
        if base != name and low is not None
    ]
    lines = [
        f"Overall {overall['relative']:.2f}, regret {overall['regret']:.0%}; best on "
        f"*{best}* ({by_scenario[best]:.2f}), worst on *{worst}* ({by_scenario[worst]:.2f})."
    ]
    if changes:
        lines.append(f"Completion time: {'; '.join(changes)}.")
    return " ".join(lines)
