"""The class of a job in `show` and `why`: as its view says it, for people."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.jobs.test_live_views import ANSWER
from tests.cli.jobs.test_queue import job

from flyball.cli.jobs import show, why
from flyball.control.decide.lead import Lead
from flyball.control.jobs.job_class import JobClasses
from flyball.core.jobs import JobSpec
from flyball.core.knobs import Knobs
from flyball.tune.pathway_scope import Scope


def view(scope: Scope = Scope.NAMED, **asked: Any) -> dict[str, Any]:
    return JobClasses(scope, by_cores=False).view(JobSpec(("work",), **asked))


def why_lines(about: dict[str, Any]) -> list[str]:
    """Return the lines of `why` that are about the class."""
    plain = list(why.lines(job(7) | ANSWER))
    return [line for line in why.lines(job(7) | {**ANSWER, "class": about}) if line not in plain]


def test_why_says_the_class_and_what_it_gives() -> None:
    assert why_lines(view(kind="latency-sensitive", gpus=1)) == [
        "  Class: latency-sensitive, named by its user.",
        "  Of the job: pathway priority: priority 1 (0 requested, +1 by class).",
    ]
    classified = why_lines(view(Scope.JOBS, gpus=32))
    assert classified[0].startswith("  Class: bandwidth-limited, classified: a gang of 32,")
    assert "(confidence 0.97)" in classified[0]
    assert "data in 8 chunks" in classified[1]
    assert why_lines(view(kind="memory-bound"))[1:] == [
        "  Of the job: pathway temporal: nothing of the job itself changes."
    ]


@pytest.mark.parametrize(
    ("scope", "remedy"),
    [(Scope.OFF, "flyball up --pathways"), (Scope.NAMED, "submit --class NAME")],
)
def test_why_says_what_would_make_it_follow(scope: Scope, remedy: str) -> None:
    [_, line] = why_lines(view(scope, gpus=32))
    assert "pathway pipeline not followed" in line
    assert remedy in line


def test_what_takes_no_effect_here_says_so() -> None:
    lines = why_lines(view(kind="mixed", gpus=2))
    assert [line.endswith("(no effect).") for line in lines[1:]] == [True, True]


def test_why_says_which_pathway_leads() -> None:
    lead = Lead(Knobs())
    lead.follow("temporal")
    *_, line = why_lines(view(kind="mixed") | {"cluster": lead.view()})
    assert line.startswith("  Of the cluster: pathway temporal leads: order=attained")
    lead.follow("hybrid")
    *_, line = why_lines(view(kind="mixed") | {"cluster": lead.view()})
    assert line == "  Of the cluster: pathway hybrid leads: tuner elastic, tuner balance."


def test_show_has_a_line_for_it() -> None:
    shown = dict(show.facts({**job(7), "class": view(kind="latency-sensitive")}, 2.0, {}))
    said = "latency-sensitive, named by its user; pathway priority: priority 1 (0 requested, +1"
    assert shown["class"].startswith(said)
    assert "class" not in dict(show.facts(job(7), 2.0, {})), "an older server does not tell"
