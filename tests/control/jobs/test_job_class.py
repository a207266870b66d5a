"""The class of a live job: how it is determined, and what it changes about the job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.control.jobs.test_request import GPUS
from tests.control.live_cases import Rig, env, spec_of

from flyball.control.decide.verify import Verifier
from flyball.control.jobs.job_class import JobClasses
from flyball.core.codes import CLASS_LABELS, JobClass
from flyball.core.events import Opened
from flyball.core.live import Launch
from flyball.tune.pathway_scope import Scope
from flyball.tune.pathways import Change

LATENCY = JobClass.LATENCY_SENSITIVE.label


def classes(scope: Scope = Scope.NAMED, by_cores: bool = False) -> JobClasses:
    return JobClasses(scope, by_cores)


# How it is determined -------------------------------------------------------------------


@pytest.mark.parametrize("label", CLASS_LABELS)
def test_a_named_class_counts_whatever_the_request_is(label: str) -> None:
    verdict = classes().verdict(spec_of(kind=label, gpus=32, model="resnet50"))
    assert (verdict.kind.label, verdict.reason, verdict.confidence) == (
        label,
        "named by its user",
        1.0,
    )


def test_without_a_name_the_request_decides() -> None:
    gang = classes().verdict(spec_of(gpus=32))
    assert gang.kind == JobClass.BANDWIDTH_LIMITED
    assert "32" in gang.reason
    part = classes().verdict(spec_of(gpus=1, milli=250, estimate_s=60.0))
    assert part.kind == JobClass.LATENCY_SENSITIVE
    assert "25 % of one device" in part.reason
    assert classes().verdict(spec_of(gpus=1, model="ncf")).kind == JobClass.MEMORY_BOUND
    assert classes().verdict(spec_of(gpus=1, model="never heard of:9")).confidence < 0.5


def test_cores_of_a_node_are_no_gang() -> None:
    verdict = classes(by_cores=True).verdict(spec_of(cpus=64))
    assert verdict.kind == JobClass.COMPUTE_INTENSIVE
    assert verdict.reason == "nothing known that says otherwise"


# What follows from it -------------------------------------------------------------------


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("named", [True, False])
def test_the_scope_says_which_jobs_follow(scope: Scope, named: bool) -> None:
    spec = spec_of(gpus=1, milli=250, estimate_s=60.0, priority=3.0)
    if named:
        spec = replace(spec, kind=LATENCY)
    follows = scope >= (Scope.NAMED if named else Scope.JOBS)
    of_scope = classes(scope)
    assert of_scope.follows(spec) is follows
    assert of_scope.priority(spec) == (4.0 if follows else 3.0)
    assert (of_scope.change(spec) == Change()) is not follows


def test_the_view_names_every_setting_and_whether_it_holds() -> None:
    def settings_of(**asked: object) -> list[tuple[str, bool, str]]:
        view = classes().view(spec_of(gpus=2, **asked))
        return [(row["what"], row["holds"], row["text"]) for row in view["settings"]]

    assert settings_of(kind=LATENCY, priority=2.0) == [
        ("priority", True, "priority 3 (2 requested, +1 by class)")
    ]
    assert settings_of(kind="memory-bound") == []
    [(what, holds, text)] = settings_of(kind="bandwidth-limited")
    assert (what, holds) == ("chunks", True)
    assert "8 chunks" in text
    rigid, shared = settings_of(kind="mixed")
    assert rigid[:2] == ("resizable", False)
    assert "--elastic" in rigid[2]
    assert shared[:2] == ("together", False)
    elastic, _ = settings_of(kind="mixed", least=1, most=4)
    assert elastic == ("resizable", True, "may be resized from 1 to 4")


# Live -----------------------------------------------------------------------------------


def test_a_latency_sensitive_job_goes_first(tmp_path: Path) -> None:
    """It overtakes a job that came before it, in decisions, in the queue and in `why`."""
    rig = Rig(tmp_path, "easy")
    rig.submit(cpus=4, env=env(100.0))
    rig.settle()
    plain = rig.submit(cpus=4, estimate_s=60.0)
    quick = rig.submit(cpus=4, estimate_s=60.0, kind=LATENCY)
    rig.settle()
    assert [job.id for job in rig.plane.ask.queue()] == [1, quick, plain]
    why = rig.plane.ask.why(quick)
    assert why["ahead"] == []
    assert why["class"]["name"] == LATENCY
    assert why["class"]["named"]
    assert why["class"]["pathway"] == "priority"
    assert why["class"]["follows"]
    assert why["class"]["cluster"] is None
    assert rig.plane.ask.view(rig.job(quick))["class"]["settings"] == why["class"]["settings"]
    rig.finish()
    assert rig.start_s(quick) < rig.start_s(plain)
    assert rig.verdict().differing == []


def test_a_classified_job_goes_first_only_if_the_operator_says_so(tmp_path: Path) -> None:
    orders = {}
    for scope in Scope:
        folder = tmp_path / scope.label
        folder.mkdir()
        rig = Rig(folder, "easy", nodes=GPUS, pathways=scope)
        rig.submit(gpus=8, env=env(100.0))
        rig.settle()
        plain = rig.submit(gpus=8, estimate_s=60.0)
        part = rig.submit(gpus=1, milli=250, estimate_s=300.0, cpus=32)
        rig.finish()
        orders[scope] = rig.start_s(part) < rig.start_s(plain)
        assert rig.verdict().differing == []
        assert rig.verdict().decisions > 0
    assert orders == {scope: scope >= Scope.JOBS for scope in Scope}


def test_a_job_is_told_its_class(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.submit(kind="bandwidth-limited", env={"FLYBALL_FETCH_CHUNKS": "3", "A": "1"})
    rig.submit(kind="bandwidth-limited")
    rig.submit()
    rig.settle()
    environments = [action.spec.env for action in rig.engine.actions if isinstance(action, Launch)]
    assert environments[0]["FLYBALL_FETCH_CHUNKS"] == "3", "what its user sets wins"
    assert environments[1] == {"FLYBALL_CLASS": "bandwidth-limited", "FLYBALL_FETCH_CHUNKS": "8"}
    assert environments[2] == {}
    assert rig.job(2).spec.env == {}, "the description on record stays as it was submitted"


def test_the_journal_says_how_far_classes_were_followed(tmp_path: Path) -> None:
    """One that says nothing is from before, when a class changed nothing."""
    rig = Rig(tmp_path, "easy")
    rig.submit(cpus=4, env=env(100.0))
    rig.settle()
    rig.submit(cpus=4, estimate_s=60.0)
    rig.submit(cpus=4, estimate_s=60.0, kind=LATENCY)
    rig.finish()
    events = rig.events()
    [opened] = [event for _, event in events if isinstance(event, Opened)]
    assert opened.pathways == "named"
    silent = [
        (seq, replace(event, pathways=None) if isinstance(event, Opened) else event)
        for seq, event in events
    ]
    assert Verifier().follow(silent).differing, "the same jobs were ordered otherwise then"
    assert Verifier().follow(events).differing == []
