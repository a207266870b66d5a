"""The pathway that a live cluster follows: chosen from the active jobs, recorded, repeated."""

from __future__ import annotations

from pathlib import Path

from tests.control.jobs.test_request import GPUS
from tests.control.live_cases import Rig, env

from flyball.control.decide.lead import LEAD_S, Lead, live_tuners
from flyball.core.events import Decided
from flyball.core.knobs import Knobs, Order, Preempt
from flyball.tune.pathway_scope import Scope
from flyball.tune.pathways import Pathway, settings


def followed(rig: Rig) -> list[str | None]:
    """Return the pathway of each decision."""
    return [event.pathway for _, event in rig.events() if isinstance(event, Decided)]


def test_it_is_chosen_at_times_and_not_with_every_job() -> None:
    lead = Lead(Knobs())
    lead.choose(lambda: None, 0)
    assert (lead.pathway, lead.knobs, lead.view()) == (None, Knobs(), None), "no job is there yet"
    lead.choose(lambda: Pathway.TEMPORAL, 1)
    lead.choose(lambda: Pathway.PRIORITY, int(LEAD_S * 1e6) - 1)
    assert lead.label == "temporal"
    assert lead.knobs == settings(Pathway.TEMPORAL).apply(Knobs())
    lead.choose(lambda: Pathway.PRIORITY, int(LEAD_S * 1e6))
    assert lead.label == "priority"
    lead.follow("pipeline")
    assert list(lead.tuners) == ["balance"]


def test_what_cannot_act_live_is_left_out() -> None:
    assert list(live_tuners(Pathway.HYBRID)) == ["elastic", "balance"]
    assert live_tuners(Pathway.SPATIAL) == {}


def test_memory_bound_jobs_take_turns_if_the_cluster_follows_them(tmp_path: Path) -> None:
    """The job with least device time goes first, which `fifo` would never do."""
    rig = Rig(tmp_path, "fifo", nodes=GPUS, pathways=Scope.CLUSTER)
    first = rig.submit(gpus=8, kind="memory-bound", estimate_s=20_000.0, env=env(20_000.0))
    rig.pass_s(10.0)
    second = rig.submit(gpus=8, kind="memory-bound", estimate_s=20_000.0, env=env(20_000.0))
    for _ in range(80):
        rig.pass_s(60.0)
    assert set(followed(rig)) == {"temporal"}
    assert rig.plane.decider.knobs.order == Order.ATTAINED
    assert rig.plane.decider.knobs.preempt == Preempt.ROUNDS
    assert rig.job(first).preemptions == 1
    assert rig.start_s(second) > 0
    cluster = rig.plane.ask.why(second)["class"]["cluster"]
    assert cluster["pathway"] == "temporal"
    assert cluster["knobs"]["order"] == "attained"
    verdict = rig.verdict()
    assert (verdict.differing, verdict.decisions > 1) == ([], True)


def test_the_lead_changes_with_the_jobs_and_decisions_are_repeated_alike(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "easy", nodes=GPUS, pathways=Scope.CLUSTER)
    rig.submit(gpus=4, kind="compute-intensive", estimate_s=100.0)
    rig.pass_s(LEAD_S)
    rig.submit(gpus=4, kind="latency-sensitive", estimate_s=100.0)
    rig.pass_s(LEAD_S)
    rig.submit(gpus=2, kind="mixed", estimate_s=2_000.0, least=1, most=8, env=env(400.0))
    rig.pass_s(LEAD_S)
    rig.finish()
    assert list(dict.fromkeys(followed(rig))) == ["spatial", "priority", "hybrid"]
    assert list(rig.plane.decider.tuning.added) == ["elastic", "balance"]
    assert rig.verdict().differing == []


def test_no_pathway_leads_unless_the_operator_says_so(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "easy", nodes=GPUS, pathways=Scope.JOBS)
    rig.submit(gpus=4, kind="memory-bound", estimate_s=100.0)
    rig.finish()
    assert set(followed(rig)) == {None}
