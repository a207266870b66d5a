"""Telemetry over HTTP, through the client and in `flyball doctor`."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.api.world import World, give_sensors

from flyball.cli.main import run
from flyball.sdk.client import Client
from flyball.sdk.errors import ApiError

NAME = "compute.total_percent"


def test_series_smoothed_and_with_features(world: World, client: httpx.Client) -> None:
    give_sensors(world)
    path = f"/api/v1/telemetry/series?name={NAME}&seconds=100"
    plain = client.get(path).json()
    assert len(plain["times"]) == len(plain["values"]) == 61
    assert "features" not in plain
    assert max(plain["values"]) == 90.0
    assert max(client.get(f"{path}&smooth=median&window_s=3").json()["values"]) == 9.0
    mean = client.get(f"{path}&smooth=mean&window_s=10").json()["values"]
    assert mean[29] == pytest.approx(4.5)
    assert client.get(f"{path}&smooth=exponential").json()["values"][1] == pytest.approx(0.5)
    features = client.get(f"{path}&features=true").json()["features"]
    assert [window["window_s"] for window in features] == [1, 10, 60]
    assert features[1]["mean"] == pytest.approx(4.5)
    for wrong in ("smooth=magic", "window_s=0", "window_s=1e9", "features=perhaps"):
        assert client.get(f"{path}&{wrong}").status_code == 422


def test_the_state_of_the_sensors(world: World, client: httpx.Client) -> None:
    none = client.get("/api/v1/telemetry/sensors").json()
    assert (none["alive"], none["age_s"], none["sensors"]) == (False, None, [])
    give_sensors(world)
    states = client.get("/api/v1/telemetry/sensors").json()
    assert (states["alive"], states["lost"], states["store_failures"]) == (True, 0, 2)
    compute, power, nvidia = states["sensors"]
    assert compute == {
        "name": "compute", "family": "compute", "period_s": 0.1, "kind": "measured", "absent": "",
        "source": "ticks", "failures": 3, "error": "OSError: gone", "took_us": 30,
    }  # fmt: skip
    assert (power["kind"], power["source"]) == ("modelled", "60 W to 200 W")
    assert (nvidia["kind"], nvidia["absent"], nvidia["took_us"]) == ("absent", "no driver", None)


def test_haste_on_demand(world: World, client: httpx.Client) -> None:
    path = "/api/v1/telemetry/fast"
    answer = client.post(path, json={"seconds": 30})
    assert (answer.status_code, answer.json()["token"]) == (503, "unavailable")
    telemetry = give_sensors(world)
    assert client.post(path, json={"seconds": 30}).json() == {"seconds": 30}
    assert (telemetry.folder / "fast").read_text() == "30"
    bodies: list[Any] = [{}, {"seconds": 0}, {"seconds": 3601}, {"seconds": "5"}, {"minutes": 1}]
    for body in bodies:
        assert client.post(path, json=body).status_code == 422


def test_the_client_and_the_doctor(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    give_sensors(world)
    with world.server(), Client(world.folder) as client:
        assert len(client.sensors()["sensors"]) == 3
        assert client.fast(5.0) == {"seconds": 5.0}
        with pytest.raises(ApiError):
            client.fast(0.1)
        series = client.smoothed(NAME, 100.0, "median", 3.0)
        assert (max(series["values"]), len(series["features"])) == (9.0, 3)
        assert run(["doctor", "--state", str(world.folder), "--json"]) == 0
        findings = {
            finding["name"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]
        }
    assert findings["state folder"]["found"].endswith(world.folder.name)
    assert findings["control plane"]["state"] == "ok"
    assert "2 failures of the store" in findings["agent"]["found"]
    assert findings["sensor compute"]["found"] == "compute, measured, every 0.1 s, 30 us a reading"
    assert findings["sensor compute"]["remedy"] == "failed 3 times: OSError: gone"
    assert findings["sensor power"]["remedy"] == "60 W to 200 W"
    assert findings["sensor nvidia"]["remedy"] == "no driver"
    assert run(["doctor", "--state", str(world.folder / "none"), "--json"]) == 0
    findings = {
        finding["name"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]
    }
    assert findings["control plane"]["found"] == "none is running"
