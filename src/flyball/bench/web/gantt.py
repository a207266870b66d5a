"""How smooth the chart of what ran where stays with ten thousand bars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flyball.bench.figure import Bar, Figure
from flyball.bench.submit.server import Up, wait_until
from flyball.bench.web.viewer import Viewer

BARS = 10_000
RUN_S = 6.0
FRAME_MS = 50.0
"""Bar of the time from a step of a zoom or move to the picture: twenty pictures a second."""
DRAIN_S = 300.0
STEPS = 40
MOVES = """async (steps) => {
  const canvas = document.querySelector(".fb-gantt canvas"), times = [];
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  for (let at = 0; at < steps; at += 1) {
    const began = performance.now();
    const key = at % 4 < 2 ? (at < steps / 2 ? "+" : "-") : at % 2 ? "ArrowLeft" : "ArrowRight";
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await frame();
    times.push(performance.now() - began);
  }
  return times;
}"""


def gantt(note: Callable[[str], None], chromium: Any, up: Up) -> list[Figure]:
    """Return the time of a frame while the chart is zoomed and moved, and until it first shows."""
    jobs = [{"argv": ["true"], "name": f"job-{at}", "user": f"user-{at % 12}", "gpus": 1,
             "estimate_s": RUN_S + at % 5} for at in range(BARS)]  # fmt: skip
    with up.client() as client:
        client.submit_many(jobs)
        note(f"running {BARS:,} jobs, a bar each")
        wait_until(lambda: not client.queue(limit=1), DRAIN_S, "all jobs to end", 0.5)
    viewer = Viewer(chromium, up)
    viewer.page.goto(f"{viewer.url}/time?span=1%20h")
    viewer.page.wait_for_selector(".fb-gantt[data-draw-ms]", timeout=DRAIN_S * 1000)
    shown_ms = viewer.page.evaluate("performance.getEntriesByName('flyball-gantt')[0].startTime")
    times_ms = sorted(viewer.page.evaluate(MOVES, STEPS))
    drawn_ms = float(viewer.page.get_attribute(".fb-gantt", "data-draw-ms"))
    bars = viewer.page.get_attribute(".fb-gantt canvas", "aria-label").partition(" ")[0]
    viewer.close()
    note(f"{bars} bars; the last picture was drawn in {drawn_ms:.1f} ms")
    middle, worst = times_ms[len(times_ms) // 2], times_ms[-1]
    return [
        Figure(f"{BARS:,} bars: a step of zoom or move", middle, "ms", Bar.at_most(FRAME_MS),
               times_ms[0], worst),
        Figure(f"{BARS:,} bars: until they show", shown_ms / 1000, "s"),
    ]  # fmt: skip
