"""`flyball demo live` on virtual nodes: a stream of generated jobs that keeps the cluster busy."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flyball.core.codes import CLASS_LABELS

if TYPE_CHECKING:
    from flyball.sdk.client import Client

USERS = ("ada", "barbara", "edsger", "grace", "linus", "margaret")
MODELS = ("bert", "resnet", "gpt2", "unet", "vit", "whisper")
SIZES = (1, 1, 1, 2, 2, 4, 8)
MEAN_S = 60.0
"""Mean run time at scale 1."""
FIRST_SHARE = 1.2
"""Devices that the first jobs ask for, relative to those that are there: some wait."""
LENGTH_S = 600.0
BATCH_S = 2.0


def virtual_demo(client: Client, scale: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Fill a virtual cluster with jobs and keep it full for ten minutes; return what was submitted.

    Args:
        scale: length of the jobs and of the demo.
    """
    draw = random.Random(0)
    devices = sum(int(node["devices"]) for node in client.nodes())
    per_job = sum(SIZES) / len(SIZES)
    count = max(1, round(devices * FIRST_SHARE / per_job))
    submitted = len(client.submit_many([_job(draw, scale) for _ in range(count)]))
    say(f"{submitted:,} jobs for {devices:,} virtual devices; more follow as they end")
    arrivals_per_s = devices / per_job / (MEAN_S * scale)
    end_s = time.monotonic() + LENGTH_S * scale
    due = 0.0
    while time.monotonic() < end_s:
        time.sleep(BATCH_S)
        due += arrivals_per_s * BATCH_S
        batch = [_job(draw, scale) for _ in range(int(due))]
        due -= len(batch)
        if batch:
            submitted += len(client.submit_many(batch))
    return {"submitted": submitted, "devices": devices}


def _job(draw: random.Random, scale: float) -> dict[str, Any]:
    return {
        "argv": ["train"],
        "name": draw.choice(MODELS),
        "user": draw.choice(USERS),
        "kind": draw.choice(CLASS_LABELS),
        "gpus": draw.choice(SIZES),
        "estimate_s": MEAN_S * scale * draw.uniform(0.3, 1.7),
    }
