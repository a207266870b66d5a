"""`predict load` and `predict backtest` as a user calls them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import typer
from tests.predict.load.cases import daily
from typer.testing import CliRunner, Result

from flyball.cli.predict import load
from flyball.core.errors import BadInput, FlyballError, UnknownName

app = typer.Typer()
app.command("load", epilog=load.LOAD_EXAMPLES)(load.load)
app.command("backtest", epilog=load.BACKTEST_EXAMPLES)(load.backtest)


def call(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, FlyballError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rates.csv"
    lines = [
        f"{datetime.fromtimestamp(index * 1_800, UTC):%Y-%m-%d %H:%M},{value:.3f}"
        for index, value in enumerate(daily(12).values)
    ]
    path.write_text("\n".join(["time,rate", *lines]))
    return path


def test_a_forecast_as_a_table_with_its_figure(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.png"
    result = call("load", file, "--column", "rate", "--horizon", "2h", "--figure", out)
    assert "rate: 576 points every 30.0 min" in result.stdout
    assert "band holds %" in result.stdout
    assert "repeats every day" in result.stdout
    assert out.read_bytes()[:4] == b"\x89PNG"


def test_a_forecast_as_json(file: Path) -> None:
    value = json.loads(call("load", file, "--column", "rate", "--horizon", "1h", "--json").stdout)
    assert value["step_s"] == 1_800
    assert len(value["mean"]) == 2
    assert np.array(value["quantiles"]).shape == (7, 2)
    assert value["patterns"]["seasons"][0]["name"] == "day"
    assert value["skill"][0]["n"] > 50


def test_rows_after_an_instant_are_left_out(file: Path) -> None:
    result = call(
        *("load", file, "--column", "rate", "--horizon", "30m", "--json"),
        *("--until", "1970-01-01 12:00"),
    )
    value = json.loads(result.stdout)
    assert value["points"] == 25
    assert "551 rows dated in the future left out" in value["notes"]
    assert "only 25 values: the last one is forecast, with a wide band" in value["notes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--column", "rate", "--horizon", "soon"], "--horizon 'soon' is not a time"),
        (["--column", "rate", "--horizon", "-1h"], "is not a time"),
        (["--column", "raet"], "did you mean 'rate'"),
        (["--column", "rate", "--where", "x"], "use column=value"),
        (["--column", "rate", "--until", "never"], "--until 'never' is not a time"),
        (["--column", "rate", "--figure", "out.txt"], "use .png or .svg or .pdf"),
        (["--column", "time"], "no numbers"),
    ],
)
def test_bad_input_is_one_clear_line(file: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        call("load", file, *arguments)


def test_times_are_read() -> None:
    assert load.seconds_of("500ms", "--x") == 0.5
    assert load.seconds_of("1.5h", "--x") == 5_400
    assert load.seconds_of("90", "--x") == 90


def test_a_back_test_of_a_users_file(file: Path) -> None:
    spec = file.with_name("spec.json")
    spec.write_text(json.dumps({"file": file.name, "column": "rate", "horizons": ["30m"]}))
    rows = json.loads(call("backtest", spec, "--json").stdout)["rows"]
    assert {row["horizon"] for row in rows} == {"30 min"}
    assert rows[0]["metric"] == "rMAE"
    assert rows[0]["value"] < 1.05
    for wrong, message in (
        ({"file": "x"}, "are needed"),
        ({"file": "x", "column": "y", "horizons": ["1h"], "z": 1}, "unknown 'z'"),
        ({"file": "x", "column": "y", "horizons": []}, "no horizons"),
        ({"file": "x", "column": "y", "horizons": ["1h"], "test_part": 2}, "test_part 2"),
    ):
        spec.write_text(json.dumps(wrong))
        with pytest.raises(BadInput, match=message):
            call("backtest", spec)
    spec.write_text("[]")
    with pytest.raises(BadInput, match="not a JSON object"):
        call("backtest", spec)
    with pytest.raises(BadInput, match="name a JSON file, or 'mission'"):
        call("backtest", file.with_name("none.json"))


def test_the_mission_table_goes_on_where_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.bench.predict.test_mission import small_parts

    from flyball.bench.predict import mission

    monkeypatch.setattr(mission, "PARTS", small_parts())
    kept = file.with_name("table.jsonl")
    call("backtest", "mission", "--resume", kept, "--only", "one")
    first = kept.read_text()
    result = call("backtest", "--resume", kept, "--workers", "1")
    assert "interval score" in result.stdout
    assert kept.read_text().startswith(first)
    with pytest.raises(UnknownName, match="did you mean 'one'"):
        call("backtest", "--only", "onee")
    kept.write_text("{}")
    with pytest.raises(BadInput, match="holds no finished parts"):
        call("backtest", "--resume", kept)
