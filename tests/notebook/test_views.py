"""What a notebook shows: tables, short forms of objects, figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flyball
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.errors import BadInput, UnknownName
from flyball.core.workload import Mix
from flyball.experiments.gantt import GUEST, gantt_figure
from flyball.experiments.timeline import Span, follow
from flyball.notebook.result import Replay
from flyball.notebook.table import SHOWN_ROWS, Table, plain, words

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def result() -> Replay:
    week = flyball.generate("mixed", seed=0, jobs=60, load=1.5, devices=40)
    return flyball.replay(week, "five-mixed", ["fifo", "srtf"])


# Tables -------------------------------------------------------------------------------------


def test_a_table() -> None:
    rows: list[Any] = [{"policy": "a<b", "x": 1.5}, {"policy": "longer", "x": None}]
    table = Table("Title", rows, (words("policy"), plain("x", lambda x: f"{x:.2f}")), ("noted",))
    assert repr(table) == "Title\npolicy     x\na<b     1.50\nlonger\nnote: noted"
    html = table._repr_html_()
    assert "a&lt;b" in html and "<b>Title</b>" in html and "note: noted" in html
    assert (len(table), table[1]["x"], table["x"]) == (2, None, [1.5, None])
    assert len(table.where(policy="longer")) == 1
    for wrong in (lambda: table["y"], lambda: table.where(y=1)):
        with pytest.raises(UnknownName, match="unknown column 'y'"):
            wrong()


def test_a_long_table_shows_its_first_rows() -> None:
    table = Table("T", [{"x": at} for at in range(1000)], (plain("x"),))
    assert len(repr(table).splitlines()) == SHOWN_ROWS + 3
    assert "20 of 1,000 rows" in table._repr_html_()


def test_a_result_shows_its_summary(result: Replay) -> None:
    assert repr(result) == repr(result.summary)
    assert result._repr_html_() == result.summary._repr_html_()
    assert "mixed seed 0: 60 jobs" in repr(result)


# Short forms --------------------------------------------------------------------------------


def test_everything_is_shown_in_a_line(result: Replay) -> None:
    cluster = flyball.load_cluster("five-mixed")
    week = result.case.workloads[0]
    twin = flyball.Twin(cluster, week, flyball.Knobs(depth=7))
    run = result.runs[0]
    for shown, start in (
        (cluster, "Cluster('five-mixed': 5 nodes, 40 devices: 1 x 8 A100, "),
        (week, "Workload('mixed seed 0': 60 jobs over "),
        (twin.knobs, "Knobs(depth=7)"),
        (twin.state, "State(at "),
        (twin, "Twin(State(at "),
        (run.results, "Results(60 jobs on 5 nodes over "),
        (run.summary, "Summary(60 jobs: mean completion "),
        (Mix.of(week), "Mix("),
        (run, "Run(policy='fifo'"),
    ):
        assert repr(shown).startswith(start), repr(shown)
        assert len(repr(shown)) < 300
        assert "\n" not in repr(shown)


def test_a_cluster_of_many_groups_is_short() -> None:
    groups = tuple(NodeGroup(f"g{at}-", 3, "V100", 8) for at in range(40))
    assert repr(Cluster("many", groups)).endswith("3 x 8 V100, 34 more groups)")


def test_digests_of_old_journals_stay() -> None:
    cluster = Cluster("c", (NodeGroup("a", 1, "V100", 2),), recorded_on="T4")
    assert cluster.digest_text() == (
        "Cluster(name='c', groups=(NodeGroup(name='a', count=1, device='V100', devices=2, cpus=64, "
        "memory_gib=512.0),), power_budget_w=0.0, network=Network(between_nodes_gbit_s=100.0, "
        "inside_node_gbit_s=1200.0), tenants=())"
    )


def test_names_are_loaded_when_they_are_used() -> None:
    code = (
        "import sys, flyball; dir(flyball); before = set(sys.modules); flyball.starts; "
        "print('numpy' in before, 'numba' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"] * 3
    for name in flyball.__all__:
        assert name in dir(flyball)
        if name != "TorchCallback":
            assert getattr(flyball, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'repaly'"):
        flyball.repaly  # noqa: B018


# Figures ------------------------------------------------------------------------------------


def test_plot_is_the_figure_of_the_command_line(result: Replay) -> None:
    from flyball.experiments.figures import replay_figure

    runs = [run for run in result.runs if run.seed == 0]
    image = result.plot()._repr_png_()
    assert image == replay_figure(runs, "mixed seed 0 on five-mixed")
    assert image.startswith(PNG)


def test_gantt(result: Replay) -> None:
    for figure in (result.gantt(), result.gantt("srtf", begin="1h", end=7200)):
        assert figure._repr_png_().startswith(PNG)
    (axes,) = result.gantt("srtf").axes
    assert axes.get_title() == "srtf: mixed seed 0 on five-mixed"
    assert axes.get_yticklabels()[0].get_text() == "a0  A100"
    with pytest.raises(BadInput, match="is not before"):
        result.gantt(begin="2h", end="1h")
    with pytest.raises(UnknownName, match="did you mean 'fifo'"):
        result.gantt("fifi")


@pytest.mark.parametrize("policy", [0, 1])
def test_spans_are_the_device_time_of_the_run(result: Replay, policy: int) -> None:
    """Nothing is drawn twice or left out: the spans add up to what the nodes were busy."""
    run = result.runs[policy]
    assert run.results is not None
    timeline = follow(result.case.build(policy, 0), None, run.results.stop_us)
    held_us = sum(
        (span.end_us - span.begin_us) * span.mask.bit_count() * span.milli / 1000
        for span in timeline.spans
    )
    assert held_us == pytest.approx(run.results.node_busy_us.sum(), rel=1e-9)
    assert max(span.attempt for span in timeline.spans) == run.results.attempts.max()


def test_spans_of_tuners_and_of_plain_python() -> None:
    week = flyball.generate("mixed", seed=0, jobs=40, load=1.5, devices=40)
    tuned = flyball.replay(week, "five-mixed", "easy", tune="elastic", tune_every=600)
    greedy = flyball.replay(week, "five-mixed", flyball.Knobs())
    for done in (tuned, greedy):
        index = len(done.policies) - 1
        run = done.runs[index]
        assert run.results is not None
        timeline = follow(done.case.build(index, 0), None, run.results.stop_us)
        held_us = sum((s.end_us - s.begin_us) * s.mask.bit_count() * s.milli / 1000
                      for s in timeline.spans)  # fmt: skip
        assert held_us == pytest.approx(run.results.node_busy_us.sum(), rel=1e-9)


def test_fractions_share_a_row_and_guests_have_a_colour() -> None:
    cluster = Cluster("c", (NodeGroup("a", 1, "V100", 2),))
    hour = 3_600_000_000
    spans = [
        Span(0, 0, 0b01, 500, 1, 0, hour),
        Span(1, 0, 0b01, 500, 1, 0, hour),
        Span(2, 0, 0b10, 1000, 1, 0, hour),
        Span(3, 0, 0b10, 0, 2, 0, hour),
    ]
    figure = gantt_figure(spans, cluster, ["w", "x", "y", "z"], "t", (0, hour), 0)
    corners = [
        tuple(np.unique(np.asarray(path.vertices)[:, 1]).tolist())
        for collection in figure.axes[0].collections
        for path in collection.get_paths()
    ]
    assert corners == [(0.0, 0.5), (0.5, 1.0), (1.0, 2.0), (1.5, 2.0)]
    assert GUEST in [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_large_cluster_shows_the_nodes_with_jobs() -> None:
    cluster = Cluster("c", (NodeGroup("a", 100, "V100", 8),))
    span = Span(0, 42, 0b1, 1000, 1, 0, 60_000_000)
    (axes,) = gantt_figure([span], cluster, ["j"], "t", (0, 60_000_000), 0).axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a42  V100"]
    assert "99 without a job left out" in axes.get_ylabel()


def test_a_figure_is_written_as_users_do(result: Replay, tmp_path: Path) -> None:
    result.gantt().savefig(tmp_path / "gantt.png")
    assert (tmp_path / "gantt.png").read_bytes().startswith(PNG)
