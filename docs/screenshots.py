"""Takes the screenshots of the guide from a running dashboard, so that they stay true.

    make screenshots            (the folder is docs/figures/web)
    python docs/screenshots.py FOLDER

Starts a control plane on virtual nodes and one on this machine in temporary folders, gives them
work, and opens every view at 1440 and at 390 pixels.
"""

from __future__ import annotations

import io
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from flyball.bench.submit.server import Up, running, state_folder, wait_until
from flyball.bench.web.viewer import browser

FOLDER = Path(__file__).parent / "figures" / "web"
VIEWS = ("now", "queue", "time", "decisions", "decisions/9", "whatif", "prediction", "learning",
         "loop", "system")  # fmt: skip
OPTIONS = ("--engine", "twin", "--cluster", "virtual-200", "--tune", "elastic,power",
           "--energy-price", "0.31", "--currency", "EUR", "--carbon", "350", "--power-kw", "380",
           "--money-per-day", "3000")  # fmt: skip
PATIENCE_MS = 300_000
NAMES = {"jobs": "job", "decisions": "decision"}
WIDTHS = {1440: 900, 390: 844}
MODELS = ("bert", "resnet", "gpt", "unet", "vit")
USERS = ("ada", "grace", "linus", "barbara", "edsger")
CLASSES = ("compute-intensive", "memory-bound", "latency-sensitive", "bandwidth-limited", "mixed")
COLOURS = 128
SETTLE_MS = 2500


def jobs(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Return jobs of several users and classes."""
    draw = random.Random(seed)
    return [
        {
            "argv": ["train"], "name": f"{draw.choice(MODELS)}-{at}",
            "user": draw.choice(USERS), "kind": draw.choice(CLASSES),
            "gpus": draw.choice((1, 1, 2, 2, 4, 8)), "estimate_s": draw.uniform(15, 90),
        }
        for at in range(count)
    ]  # fmt: skip


@contextmanager
def worlds() -> Iterator[tuple[Up, Up, int]]:
    """Run a virtual cluster full of work, and this machine with a job that reports."""
    with ExitStack() as stack:
        base = Path(tempfile.gettempdir())
        virtual = stack.enter_context(running(stack.enter_context(state_folder(base)), *OPTIONS))
        here = stack.enter_context(running(stack.enter_context(state_folder(base))))
        with virtual.client() as client:
            client.submit_many(jobs(1200))
        program = [sys.executable, "-m", "flyball.data.live_demo.mlp", "--steps", "6000"]
        with here.client() as client:
            job = client.submit(program, cwd="/", name="train", kind="compute-intensive")
            client.submit(["sleep", "600"], cwd="/", cpus=2, name="waits")
        with virtual.client() as client:  # the worker forecasts once a minute
            wait_until(lambda: bool(_earlier(client.forecast())), 600.0, "forecasts", 5.0)
        yield virtual, here, job


def _earlier(forecast: dict[str, Any]) -> list[Any]:
    """Return the earlier forecasts of the devices held."""
    return [row for load in forecast["loads"] if load["series"] == "running"
            for row in load["earlier"]]  # fmt: skip


def shoot(page: Any, path: Path) -> None:
    """Save what the page shows, in few colours, which is a third of the size."""
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    picture.quantize(COLOURS).save(path, optimize=True)
    sys.stdout.write(f"{path}\n")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as chromium, worlds() as (virtual, here, job):
        for width, height in WIDTHS.items():
            for up, views in ((virtual, VIEWS), (here, (f"jobs/{job}",))):
                context = chromium.new_context(viewport={"width": width, "height": height})
                page = context.new_page()
                with up.client() as client:
                    link = client.link()["url"]
                page.goto(link)
                page.wait_for_url("**/now")
                for view in views:
                    page.goto(f"{link.partition('/open')[0]}/{view}")
                    if view == "whatif" and width == max(WIDTHS):
                        page.get_by_role("button", name="Replay").click()
                        page.wait_for_selector("text=kept as run", timeout=PATIENCE_MS)
                    if view.startswith("decisions/"):
                        page.wait_for_selector("text=Against the decision", timeout=PATIENCE_MS)
                    if view == "time":
                        page.wait_for_selector("text=Mean wait", timeout=PATIENCE_MS)
                    page.wait_for_timeout(SETTLE_MS)
                    name = NAMES.get(view.partition("/")[0], view) if "/" in view else view
                    shoot(
                        page,
                        folder / (f"{name}.png" if width == max(WIDTHS) else f"{name}-{width}.png"),
                    )
                context.close()


if __name__ == "__main__":
    main()
