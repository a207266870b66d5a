"""Every figure at 3 and at 20 policies: nothing touches, nothing is cut off, axes have labels."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from flyball.app import policy_settings
from flyball.core.effects import Effects
from flyball.experiments.compare.figure import compare_drawing
from flyball.experiments.compare.runs import ComparePlan
from flyball.experiments.compare.summary import Comparison, compare
from flyball.experiments.figures import replay_drawing, wrapped
from flyball.experiments.pareto import AIMS, Point
from flyball.experiments.pareto_figure import pareto_drawing
from flyball.experiments.replay import ReplayCase, Run, run_all
from flyball.experiments.scenarios import Scenario
from flyball.predict.load.ahead import LiveForecast
from flyball.predict.load.figure import forecast_drawing
from flyball.predict.series import Series
from flyball.twin.generate import generate
from flyball.twin.inputs.cluster_file import load_cluster

TUNED = "+elastic+share+balance+power"
NODES = {"nodes": [{"name": "a", "device": "V100", "devices": 8}]}


@pytest.fixture(scope="module")
def run_of_easy() -> Run:
    """One real run; its copies under other names fill a figure."""
    target = load_cluster("five-mixed")
    workload = generate("mixed", 0, jobs=60, load=1.2, devices=target.device_count)
    policies = tuple(policy_settings("easy", []))
    case = ReplayCase(target, (workload,), policies, Effects(), 1, "first")
    return run_all(case, 1, lambda _run: None, lambda _text: None)[0]


def names(count: int, tuned: bool) -> list[str]:
    base = [policy.name for policy in policy_settings("all", [])]
    pool = [*base, *(f"{name}-2" for name in base)][:count]
    return [f"{name}{TUNED}" for name in pool] if tuned else pool


def comparison(policies: list[str]) -> Comparison:
    settings = policy_settings("fifo-skip,fifo", [])
    tiny = Scenario("tiny", "a small one", NODES, "mixed", 20, 0.9)
    plan = ComparePlan((tiny, replace(tiny, name="a-long-name")), tuple(settings), (0, 1))
    comparison = compare(plan, [plan.run(*task) for task in plan.tasks()], "fifo-skip")
    rows = comparison.overall
    wide = [{**rows[at % len(rows)], "policy": name} for at, name in enumerate(policies)]
    wide[0] = rows[0]
    stands_for = {name: rows[at % len(rows)]["policy"] for at, name in enumerate(policies)}
    return _Wide(comparison, wide, stands_for)  # type: ignore[return-value]


class _Wide:
    """A comparison whose rows stand for more policies than were run."""

    def __init__(
        self, comparison: Comparison, overall: list[Any], stands_for: dict[str, str]
    ) -> None:
        self._found, self.overall, self._known = comparison, overall, stands_for

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)

    def mean(self, scenario: str, policy: str) -> Any:
        return self._found.mean(scenario, self._known.get(policy, policy))


def points(count: int) -> list[Point]:
    front = [Point("easy", {}, (10.0, 10.0), False, None)]
    for at in range(count):
        values = (1.0 + at, 1.0 + (count - at) ** 1.5)
        front.append(Point(f"point {at}", {}, values, True, None))
    return front


def drawn(figure: Figure) -> FigureCanvasAgg:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        canvas = FigureCanvasAgg(figure)
        canvas.draw()  # type: ignore[no-untyped-call]
    return canvas


def parts_of(figure: Figure) -> list[Any]:
    """The figure and the figures within it."""
    return [figure, *figure.subfigs]


def texts(figure: Figure) -> list[Text]:
    """Titles, labels of axes, numbers and legends: all text but the ticks'."""
    labels: list[Text] = []
    for part in parts_of(figure):
        labels += [*part.texts, *(text for legend in part.legends for text in legend.get_texts())]
        for axes in part.axes:
            labels += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
            legend = axes.get_legend()
            labels += legend.get_texts() if legend is not None else []
    return [text for text in labels if text.get_visible() and text.get_text().strip()]


def assert_clean(figure: Figure) -> None:
    """Within the canvas; tick labels of an axis apart; axes labelled."""
    canvas = drawn(figure)
    renderer: Any = canvas.get_renderer()  # type: ignore[no-untyped-call]
    width, height = canvas.get_width_height()
    inside = Bbox.from_extents(-1, -1, width + 1, height + 1)
    for axes in [axes for part in parts_of(figure) for axes in part.axes]:
        for axis, low, high in (
            (axes.xaxis, *sorted(axes.get_xlim())),
            (axes.yaxis, *sorted(axes.get_ylim())),
        ):
            ticks = [
                tick.label1 if tick.label1.get_visible() else tick.label2
                for tick in axis.get_major_ticks()
                if low <= tick.get_loc() <= high
            ]
            ticks = [label for label in ticks if label.get_text() and label.get_visible()]
            boxes = [label.get_window_extent(renderer) for label in ticks]
            for (one, box), (other, second) in itertools.combinations(
                zip(ticks, boxes, strict=True), 2
            ):
                if not one.get_rotation():  # a slanted label's box says little
                    assert not box.overlaps(second), (one.get_text(), other.get_text())
            for label, box in zip(ticks, boxes, strict=True):
                assert inside.fully_containsx(box.x0), label.get_text()
                assert inside.fully_containsx(box.x1), label.get_text()
                assert inside.fully_containsy(box.y0), label.get_text()
                assert inside.fully_containsy(box.y1), label.get_text()
            if ticks and not axis.get_label_text():
                assert axes.get_title() or axes.get_title(loc="left"), "nothing says what it is"
    for text in texts(figure):
        box = text.get_window_extent(renderer)
        assert min(box.x0, box.y0) >= -1, text.get_text()
        assert box.x1 <= width + 1, text.get_text()
        assert box.y1 <= height + 1, text.get_text()


@pytest.mark.parametrize("count", [3, 20])
@pytest.mark.parametrize("tuned", [False, True])
def test_replay_figure(run_of_easy: Run, count: int, tuned: bool) -> None:
    runs = [replace(run_of_easy, policy=name) for name in names(count, tuned)]
    figure = replay_drawing(runs, "a workload on a cluster")
    assert_clean(figure)
    curves, queue, *bars = [axes for part in parts_of(figure)[1:] for axes in part.axes]
    for axes in (curves, queue, *bars):
        assert axes.get_xlabel()
    # One colour, one policy; and none of them in the bars.
    colours = [to_hex(line.get_color()) for line in curves.get_lines()]
    assert len(set(colours)) == count
    in_bars = {to_hex(bar.get_facecolor()) for axes in bars for bar in axes.patches}
    assert not in_bars & set(colours)
    for axes in bars:
        numbers = [text for text in axes.texts if text.get_text()]
        assert len(numbers) == count, "each bar has its number"


@pytest.mark.parametrize("count", [3, 20])
@pytest.mark.parametrize("tuned", [False, True])
def test_compare_figure(count: int, tuned: bool) -> None:
    assert_clean(compare_drawing(comparison(names(count, tuned))))


@pytest.mark.parametrize("count", [3, 20])
def test_pareto_figure(count: int) -> None:
    aims = (AIMS["energy"], AIMS["completion"])
    figure = pareto_drawing(points(count), aims, "a workload on a cluster: " + "easy" + TUNED)
    assert_clean(figure)
    assert all((axes.get_xlabel(), axes.get_ylabel()) > ("", "") for axes in figure.axes)


def test_forecast_figure() -> None:
    values = 50 + 20 * np.sin(np.arange(600) / 144 * 2 * np.pi)
    series = Series("gpus", 0.0, 600.0, values, {})
    ahead = LiveForecast(series, 3600.0, budget_s=1.0)
    ahead.fit(series.values)
    figure = forecast_drawing(ahead, ahead.predict(3600.0))
    assert_clean(figure)
    assert all(axes.get_ylabel() for axes in figure.axes)


def test_long_names_are_wrapped_before_a_plus_sign() -> None:
    assert wrapped("easy") == "easy"
    assert wrapped("easy" + TUNED) == "easy+elastic\n+share+balance\n+power"
    assert "".join(wrapped("without balance").split("\n")) == "without balance"
