"""`flyball why`: explains why a job waits, when it will start, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flyball.cli.formats import Job, clean, count_text, heading, soon_text, start_text
from flyball.cli.jobs.class_text import class_text, cluster_text, setting_lines
from flyball.cli.jobs.tuning_text import changes
from flyball.cli.live import JobId, State, show_job
from flyball.cli.options import AsJson

EXAMPLES = """\b
Examples:
  flyball why 12
  flyball why 12_3 --json
\b
Every token is listed in docs/guide/why.md.
"""


def why(
    job: JobId,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Explain why a job waits, which jobs are ahead, when it will start and what would help."""
    show_job(job, state, as_json, lambda client, number: client.why(number), lines)


def lines(answer: Job) -> Iterator[str]:
    """Yield the answer in sentences."""
    yield heading(answer)
    yield f"  {answer['token']}: {clean(answer['sentence'])}"
    if (start := prediction(answer)) is not None:
        yield f"  {start}"
    yield from _class_lines(answer)
    for line in changes(answer):
        yield f"  Tuned {line}."
    if learned := answer.get("learned"):
        yield from (f"  {line}" for line in learned_lines(learned))
    if answer.get("ahead_count"):
        shown = [clean(label) for label in answer["ahead"]]
        more = answer["ahead_count"] - len(shown)
        names = ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
        yield f"  Ahead of it: {count_text(answer['ahead_count'], 'job')}: {names}."
    for remedy in answer.get("remedies", ()):
        yield f"  {clean(remedy)}"
    for what_if in answer.get("counterfactuals", ()):
        yield f"  What if: {clean(what_if['change'])}: {soon_text(what_if['p50_s'])}."


def _class_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the class of the job and its settings; nothing from an older server."""
    if about := answer.get("class"):
        yield f"  Class: {class_text(about)}."
        yield from (f"  Of the job: {line}." for line in setting_lines(about))
        if about.get("cluster"):
            yield f"  Of the cluster: {cluster_text(about['cluster'])}."


def learned_lines(learned: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the learned policy chose last, what moved it, and its fall-backs."""
    head = f"Learned policy {clean(learned['policy'])} ({learned['hash']})"
    if (last := learned["last"]) is None:
        yield f"{head}: it has not chosen yet; the incumbent decides."
        return
    if last.get("fallback"):
        yield f"{head}: {last['fallback']}, so the incumbent decides. {clean(last['detail'])}."
    else:
        moved = [f"{name} {value:+g}" for name, value in last.get("residuals", {}).items()]
        yield f"{head}: {last['strategy']}{', ' if moved else ''}{', '.join(moved)}."
    if last.get("features"):
        parts = [f"{clean(name)} ({part:+.2g})" for name, part in last["features"]]
        yield f"What moved it: {'; '.join(parts)}."
    if learned["fallbacks"]:
        counted = [f"{count:,} {reason}" for reason, count in learned["fallbacks"].items()]
        yield f"Fell back in {', '.join(counted)} of {count_text(learned['choices'], 'choice')}."


def prediction(answer: Mapping[str, Any]) -> str | None:
    """Return a sentence on the predicted start and its method; None if there is none."""
    if answer.get("p50_s") is None:
        return None
    return f"Expected to start {start_text(answer)}."
