"""Spreads of predicted run times, and what the quantile knobs make of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.knobs import Backfill, Knobs, Order
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.predict.runtime.trees import LEVELS, MIDDLE
from flyball.twin.build import build_state
from flyball.twin.lookahead import with_arrivals
from flyball.twin.reference.run import Reference
from flyball.twin.tables.spread import spreads_of
from flyball.twin.twin import Twin

pytestmark = pytest.mark.nojit

NODE = Cluster("one", (NodeGroup("n", 1, "V100", 2),))


def predicted(rows_s: list[list[float]], **columns: Any) -> Workload:
    """Jobs of these predicted quantiles, whose estimate is the median and true."""
    quantiles_s = np.array(rows_s)
    work = Workload.of("p", np.arange(len(rows_s)), quantiles_s[:, MIDDLE], kind=0, **columns)
    return replace(work, quantiles_us=quantiles_s * US_PER_S)


def spread(median_s: float, factor: float) -> list[float]:
    return [median_s / factor, median_s / factor**0.4, median_s, median_s * factor**0.4,
            median_s * factor]  # fmt: skip


def stretches(work: Workload, effects: Effects | None = None, **knobs: Any) -> Any:
    jobs = build_state(NODE, work, Knobs(**knobs), effects or Effects()).jobs
    return jobs.order_stretch.tolist(), jobs.backfill_stretch.tolist()


def test_at_the_median_an_estimate_counts_as_it_is() -> None:
    work = predicted([spread(60.0, 3.0), spread(60.0, 1.0)])
    assert stretches(work) == ([1.0, 1.0], [1.0, 1.0])


def test_a_level_of_the_prediction_gives_its_quantile() -> None:
    work = predicted([spread(60.0, 3.0), spread(60.0, 1.0)])
    order, backfill = stretches(work, order_quantile=0.05, backfill_quantile=0.95)
    np.testing.assert_allclose(order, [1 / 3, 1.0], rtol=1e-6)
    np.testing.assert_allclose(backfill, [3.0, 1.0], rtol=1e-6)
    _, beyond = stretches(work, backfill_quantile=0.99)
    assert beyond[0] > 3.0


def test_the_spread_belongs_to_the_estimate_in_force() -> None:
    """An owner states an hour where two minutes are predicted: the hour is stretched."""
    work = predicted([spread(120.0, 4.0)], estimate_us=3600.0 * US_PER_S)
    state = build_state(NODE, work, Knobs(backfill_quantile=0.95), Effects())
    assert state.jobs.estimate_us[0] == 3600.0 * US_PER_S
    assert state.jobs.backfill_stretch[0] == pytest.approx(4.0)


def test_drawn_errors_have_their_own_spread() -> None:
    work = Workload.of("w", [0, 1], [60.0, 60.0], estimate_us=[np.nan, 60.0 * US_PER_S], kind=0)
    spreads = spreads_of(work, Effects(estimate_sigma=1.0))
    np.testing.assert_allclose(np.log(spreads[0]), [-1.645, -0.674, 0, 0.674, 1.645], atol=1e-3)
    assert spreads[1].tolist() == [1.0] * len(LEVELS)
    assert len(spreads_of(work, Effects())) == 0


def test_jobs_without_a_prediction_are_certain() -> None:
    work = predicted([spread(60.0, 3.0), [np.nan] * 2 + [60.0] + [np.nan] * 2])
    assert stretches(work, backfill_quantile=0.9)[1][1] == 1.0


def test_backfill_by_a_high_quantile_keeps_an_uncertain_job_behind() -> None:
    """Device 0 is busy for 100 s and the head wants both; a job of 60 s fits before it.

    If that job may well take 200 s, it would delay the head at the 95 % quantile.
    """
    first, head, small = spread(100.0, 1.0), spread(50.0, 1.0), spread(60.0, 4.0)
    work = predicted([first, head, small], devices=[1, 2, 1])
    for level, starts_s in ((0.5, 2.0), (0.95, 150.0)):
        knobs = Knobs(backfill=Backfill.EASY, backfill_quantile=level)
        twin = Twin(NODE, work, knobs)
        plain = Reference(twin.state, knobs)
        twin.run()
        plain.run()
        assert twin.state.runs.first_start_us[2] == starts_s * US_PER_S
        assert plain.jobs[2].first_start_us == starts_s * US_PER_S


def test_order_by_a_low_quantile_prefers_the_uncertain_job() -> None:
    work = predicted([spread(100.0, 1.0), spread(60.0, 1.0), spread(70.0, 10.0)], devices=2)
    first = {}
    for level in (0.5, 0.05):
        twin = Twin(NODE, work, Knobs(order=Order.SHORTEST, order_quantile=level))
        twin.run()
        first[level] = int(np.argmin(twin.state.runs.first_start_us[1:])) + 1
    assert first == {0.5: 1, 0.05: 2}


def test_other_levels_during_a_run() -> None:
    work = predicted([spread(100.0, 1.0), spread(50.0, 1.0), spread(60.0, 4.0)], devices=[1, 2, 1])
    twin = Twin(NODE, work, Knobs(backfill=Backfill.EASY))
    other = twin.clone()
    twin.set_knobs(Knobs(backfill=Backfill.EASY, backfill_quantile=0.95))
    twin.run()
    other.run()
    assert twin.state.runs.first_start_us[2] == 150 * US_PER_S
    assert other.state.runs.first_start_us[2] == 2 * US_PER_S


def test_rows_and_arrivals_keep_their_quantiles() -> None:
    work = predicted([spread(60.0, 2.0), spread(70.0, 3.0)])
    taken = work.take(np.array([1]))
    assert taken.quantiles_us is not None
    assert taken.quantiles_us[0, MIDDLE] == 70.0 * US_PER_S
    joined = with_arrivals(work, replace(taken, quantiles_us=None), 5 * US_PER_S)
    assert joined.quantiles_us is not None
    assert np.isnan(joined.quantiles_us[2]).all()
    joined = with_arrivals(work, taken, 5 * US_PER_S)
    assert joined.quantiles_us is not None
    assert joined.quantiles_us[2, -1] == 210.0 * US_PER_S


def test_levels_have_a_range() -> None:
    with pytest.raises(BadInput, match="backfill_quantile"):
        Knobs(backfill_quantile=1.0)
