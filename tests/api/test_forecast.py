"""Forecasts over HTTP."""

from __future__ import annotations

import httpx
from tests.api.test_jobs import JOBS
from tests.api.world import SLEEP, World

from flyball.api.views import Forecast

FORECAST = "/api/v1/forecast"
LOAD = {
    "series": "running",
    "unit": "devices",
    "time": 1.7e9,
    "ahead_s": [60.0, 3600.0],
    "mean": [1.0, 2.0],
    "p05": [0.0, 0.0],
    "p50": [1.0, 2.0],
    "p95": [3.0, 4.0],
}


def test_without_a_worker_it_says_so(world: World, client: httpx.Client) -> None:
    for _ in range(9):
        client.post(JOBS, json=SLEEP)
    world.step()
    forecast = client.get(FORECAST).json()
    Forecast.model_validate(forecast)
    assert [row["id"] for row in forecast["starts"]] == [9]
    assert forecast["starts"][0]["p50_s"] <= forecast["starts"][0]["p90_s"]
    assert "too few" in forecast["note"]
    assert forecast["loads"] == []
    assert forecast["predictions"]["note"].startswith("nothing is forecast")


def test_what_the_worker_said_is_told(world: World, client: httpx.Client) -> None:
    world.plane.worker_process(("true",))
    assert "not said" in client.get(FORECAST).json()["predictions"]["note"]
    world.plane.worker.receive({"loads": [LOAD]})
    world.plane.worker.receive({"status": {"run_times": {"n": 3, "within_2x": float("nan")}}})
    forecast = client.get(FORECAST).json()
    Forecast.model_validate(forecast)
    assert forecast["loads"][0]["p95"] == [3.0, 4.0]
    assert forecast["predictions"]["run_times"] == {"n": 3, "within_2x": None}
    assert forecast["predictions"]["worker"] == {"alive": False, "starts": 0, "last_end": ""}
