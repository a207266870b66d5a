"""Speed of learning and serving: steps of the environments, and choices of a policy.

Environments are measured by CPU time of the whole process, resets included. The published figure
that `Pick-v0` is held against, 2,720 steps a CPU-second, is that of RLScheduler's environment as
it was measured on such a machine.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flyball.bench.figure import Bar, Figure
from flyball.bench.saturated import TwinCase, saturated
from flyball.learn.env.govern import GovernBatch, GovernSettings
from flyball.learn.env.memory import Outside
from flyball.learn.env.pick import PickBatch, PickSettings
from flyball.learn.env.spaces import INCUMBENT, RESIDUALS, SIZE, STRATEGIES, Vector
from flyball.learn.policy.artifact import read, write
from flyball.learn.policy.forward import HALF, PATTERN_SHAPE, Net
from flyball.learn.policy.governor import Governor, Seen, default_priorities
from flyball.twin.twin import Twin

Note = Callable[[str], None]
PUBLISHED = 2_720
"""Steps a CPU-second of RLScheduler's environment."""
TIMES = 20
"""Times the published rate that the vectorised environment should reach."""
PICK_RUNS, PICK_STEPS, SINGLE_STEPS = 64, 1_500, 4_000
GOVERN_RUNS, GOVERN_STEPS = 16, 60
SERVED = {
    "1,000 nodes": (1_000, 1_000, 4_000, 1e-3),
    "10,000 nodes": (10_000, 4_000, 20_000, 1e-2),
}
"""Nodes, pending jobs, further jobs, and the bar on a choice in seconds."""
REPEATS = 15
PARTS = ("pick", "govern", "serve")
CHANNELS, EMBED, HIDDEN = (16, 32), 128, 128
"""Sizes of the net that is served."""


def run(note: Note, only: Sequence[str] = PARTS, done: Note = lambda _part: None) -> dict[str, Any]:
    """Measure the parts that are named."""
    result: dict[str, Any] = {}
    for part in only:
        result[part] = MEASURES[part](note)
        done(part)
    return {"learning": result}


def figures(result: dict[str, Any]) -> list[Figure]:
    """Return what `run` measured as figures."""
    part, shown = result["learning"], []
    if "pick" in part:
        bar = Bar.at_least(TIMES * PUBLISHED)
        shown += [
            Figure("Pick-v0, one environment", part["pick"]["single"], "steps/CPU-s"),
            Figure(
                f"Pick-v0, {PICK_RUNS} side by side", part["pick"]["vector"], "steps/CPU-s", bar
            ),
        ]
    if "govern" in part:
        name = f"Govern-v0, {GOVERN_RUNS} side by side, with the incumbent's runs"
        shown.append(Figure(name, part["govern"], "steps/CPU-s"))
    for row in part.get("serve", []):
        bar = Bar.at_most(1e3 * row["bar_s"])
        shown += [
            Figure(f"a choice on {row['name']}", 1e3 * row["choice_s"], "ms", bar),
            Figure(f"its trial on {row['name']}", 1e3 * row["trial_s"], "ms"),
        ]
    return shown


def _pick(runs: int, steps: int) -> float:
    """Return steps a CPU-second of picks among the jobs that fit, else the first."""
    batch = PickBatch(runs, PickSettings(), seed=1)
    jobs, _clusters = batch.reset_all()
    for _ in range(300):  # compile, and reach the middle of episodes
        batch.step(_picks(jobs))
        batch.begin_over()
        jobs, _clusters = batch.seen()
    began = time.process_time()
    for _ in range(steps):
        batch.step(_picks(jobs))
        batch.begin_over()
    return runs * steps / (time.process_time() - began)


def _picks(jobs: Vector) -> Any:
    """Return the first waiting job that fits, in every run."""
    return np.argmax(jobs[:, :, 4], axis=1)


def _govern() -> float:
    batch = GovernBatch(GOVERN_RUNS, GovernSettings(epochs=1_000_000), seed=1)
    batch.reset_all()
    rng = np.random.default_rng(0)
    actions = [
        (
            rng.integers(len(STRATEGIES), size=GOVERN_RUNS),
            rng.uniform(-1, 1, (GOVERN_RUNS, len(RESIDUALS))),
        )
        for _ in range(GOVERN_STEPS)
    ]
    batch.step(*actions[0])
    began = time.process_time()
    for strategies, residuals in actions:
        batch.step(strategies, residuals)
    return GOVERN_RUNS * GOVERN_STEPS / (time.process_time() - began)


def _serve(name: str) -> dict[str, Any]:
    """Return the least time of a choice, without and with its trial in the twin."""
    nodes, pending, jobs, bar_s = SERVED[name]
    cluster, workload = saturated(TwinCase(name, nodes, pending, jobs, INCUMBENT))
    twin = Twin(cluster, workload, INCUMBENT)
    now = int(workload.submit_us[-jobs // 2])
    twin.run(now)
    seen = Seen(twin.state, INCUMBENT, now, twin.observe(now), Outside(None, None).numbers(now))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.safetensors"
        write(path, _tensors(), {"kind": "conv-lstm", "epoch_s": 600})
        net = Net(read(path))
    least = {}
    for tries in (False, True):
        governor = Governor(net, default_priorities(False, False), tries=tries)
        times = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            governor.choose(seen._replace(cluster=twin.observe(now)))
            times.append(time.perf_counter() - began)
        least[tries] = min(times)
    trial_s = least[True] - least[False]
    return {"name": name, "choice_s": least[False], "trial_s": trial_s, "bar_s": bar_s}


def _tensors() -> dict[str, Vector]:
    """Return a net of the size of those that are trained, with random weights."""
    rng = np.random.default_rng(0)
    joined = CHANNELS[1] * HALF[0] * HALF[1] + SIZE - int(np.prod(PATTERN_SHAPE))
    shapes: dict[str, tuple[int, ...]] = {
        "conv1.weight": (CHANNELS[0], PATTERN_SHAPE[0], 3, 3),
        "conv1.bias": (CHANNELS[0],),
        "conv2.weight": (CHANNELS[1], CHANNELS[0], 3, 3),
        "conv2.bias": (CHANNELS[1],),
        "embed.weight": (EMBED, joined),
        "embed.bias": (EMBED,),
        "lstm.weight_ih": (4 * HIDDEN, EMBED),
        "lstm.weight_hh": (4 * HIDDEN, HIDDEN),
        "lstm.bias_ih": (4 * HIDDEN,),
        "lstm.bias_hh": (4 * HIDDEN,),
        "value.weight": (1, HIDDEN),
        "value.bias": (1,),
        "advantage.weight": (len(STRATEGIES), HIDDEN),
        "advantage.bias": (len(STRATEGIES),),
        "mean.weight": (len(RESIDUALS) * len(STRATEGIES), HIDDEN),
        "mean.bias": (len(RESIDUALS) * len(STRATEGIES),),
    }
    tensors = {
        name: rng.normal(0.0, 0.05, shape).astype(np.float32) for name, shape in shapes.items()
    }
    wide = np.full(SIZE, 1e6, np.float32)
    return tensors | {
        "norm.mean": np.zeros(SIZE, np.float32), "norm.scale": np.ones(SIZE, np.float32),
        "range.low": -wide, "range.high": wide,
    }  # fmt: skip


def _picks_of(note: Note) -> dict[str, float]:
    note("Pick-v0")
    return {"single": _pick(1, SINGLE_STEPS), "vector": _pick(PICK_RUNS, PICK_STEPS)}


def _steps_of(note: Note) -> float:
    note("Govern-v0")
    return _govern()


def _served(note: Note) -> list[dict[str, Any]]:
    rows = []
    for name in SERVED:
        note(f"serving a policy on {name}")
        rows.append(_serve(name))
    return rows


MEASURES: dict[str, Callable[[Note], Any]] = {
    "pick": _picks_of,
    "govern": _steps_of,
    "serve": _served,
}
