"""Price and carbon in cluster files: forms, files, zones, and what is refused."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flyball.core.errors import BadInput
from flyball.core.signals import DAY_US, HOUR_US, DayAhead, Signal
from flyball.twin.inputs.cluster_file import load_cluster, load_signals

NODES = "nodes: [{device: V100, devices: 4}]\n"
HOURS = ", ".join(map(str, range(24)))


def us(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e6)


def price_of(folder: Path, text: str) -> Signal:
    (folder / "c.yaml").write_text(NODES + text)
    price = load_cluster(folder / "c.yaml").price
    assert price is not None
    return price


def refused(folder: Path, text: str) -> str:
    with pytest.raises(BadInput) as error:
        price_of(folder, text)
    return str(error.value)


def table(folder: Path, text: str, name: str = "p.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


HOURLY = "time,price\n2020-03-02 00:00,10\n2020-03-02 01:00,20\n2020-03-02 02:00,30\n"


def test_constants_and_currency(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(NODES + "price: 0.25\ncarbon: 300\ncurrency: EUR")
    cluster = load_cluster(tmp_path / "c.yaml")
    assert cluster.price == Signal.flat(0.25)
    assert cluster.carbon == Signal.flat(300.0)
    assert cluster.currency == "EUR"
    assert load_signals(tmp_path / "c.yaml") == (cluster.price, cluster.carbon, "EUR")
    (tmp_path / "c.yaml").write_text(NODES)
    assert load_cluster(tmp_path / "c.yaml").price is None


def test_digests_of_decisions_do_not_see_signals(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(NODES)
    plain = repr(load_cluster(tmp_path / "c.yaml"))
    (tmp_path / "c.yaml").write_text(NODES + "price: 0.25\ncurrency: EUR")
    assert repr(load_cluster(tmp_path / "c.yaml")) == plain


def test_profiles(tmp_path: Path) -> None:
    daily = price_of(tmp_path, f"price: [{HOURS}]")
    assert daily.value_at(us("2024-05-05T13:30")) == 13.0
    local = price_of(tmp_path, f'price: {{daily: [{HOURS}], zone: "+02:00"}}')
    assert local.value_at(us("2024-05-05T13:30")) == 15.0
    week = ", ".join(["1"] * 120 + ["2"] * 48)
    weekly = price_of(tmp_path, f"price: {{weekly: [{week}]}}")
    assert weekly.value_at(us("2024-05-05T13:30")) == 2.0  # a Sunday
    assert weekly.value_at(us("2024-05-06T00:00")) == 1.0


def test_a_file_beside_the_cluster_file(tmp_path: Path) -> None:
    table(tmp_path, HOURLY, "p.csv.gz")
    price = price_of(tmp_path, "price: {file: p.csv.gz, per: MWh}")
    assert price.value_at(us("2020-03-02T01:59")) == 0.02
    assert price.name == "p.csv.gz price"
    assert price.end_us == us("2020-03-02T03:00")
    assert price.origin_us == us("2020-03-02T00:00")  # a Monday
    assert price.known_until_us(5) == 5


def test_regions_columns_and_days(tmp_path: Path) -> None:
    table(tmp_path, "market,time,a,b\nX,2020-03-02,1,\nX,2020-03-03,2,5\nY,2020-03-02,3,6\n")
    text = "price: {file: p.csv, region: X, column: b, from: 2020-03-03, known_ahead_h: 24}"
    price = price_of(tmp_path, text)
    assert price.values.tolist() == [5.0]
    assert price.origin_us == us("2020-03-03T00:00")
    assert price.known_until_us(7) == DAY_US + 7
    assert "1 rows without a value" in price.notes[0]
    assert "2 regions" in refused(tmp_path, "price: {file: p.csv, column: a}")
    assert "known: X, Y" in refused(tmp_path, "price: {file: p.csv, column: a, region: x}")
    assert "state `column:` a, b" in refused(tmp_path, "price: {file: p.csv, region: X}")


def test_local_times_and_summer_time(tmp_path: Path) -> None:
    # Spring: 02:00 does not exist. Autumn: 02:00 comes twice.
    spring = "time_local,p\n2024-03-31 01:00,1\n2024-03-31 02:00,2\n2024-03-31 03:00,3\n"
    table(tmp_path, spring + "2024-10-27 02:00,4\n2024-10-27 02:00,5\n2024-10-27 03:00,6\n")
    price = price_of(
        tmp_path, "price: {file: p.csv, zone: Europe/Berlin, known_ahead_h: day-ahead}"
    )
    times = ["2024-03-31T00:00", "2024-03-31T01:00"]
    times += ["2024-10-27T00:00", "2024-10-27T01:00", "2024-10-27T02:00"]
    assert price.times_us.tolist() == [us(time) for time in times]
    assert price.values.tolist() == [1, 3, 4, 5, 6]
    assert "1 local times that do not exist" in price.notes[0]
    assert price.known_ahead == DayAhead(14, 2 * HOUR_US)
    table(tmp_path, "time_local,p\n2024-03-31 01:00,1\n")
    assert "taken as UTC" in price_of(tmp_path, "price: {file: p.csv}").notes[0]


def test_numbers_are_seconds_from_time_0(tmp_path: Path) -> None:
    table(tmp_path, "t_s,p\n0,1\n3600,2\n")
    price = price_of(tmp_path, "price: {file: p.csv}")
    assert price.on_clock(None).value_at(HOUR_US) == 2.0
    table(tmp_path, "t_s,p\n1583107200,1\n1583110800,2\n")
    assert price_of(tmp_path, "price: {file: p.csv}").begin_us == us("2020-03-02T00:00")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("price: cheap", "price = 'cheap' is not valid"),
        ("price: [1, 2]", "daily has 2 values; use 24, 48 or 96"),
        ("price: {daily: 3}", "daily has a int values"),
        ("price: {weekly: [1]}", "use 168, 336 or 672"),
        ("price: {column: a}", "has no 'file'"),
        ("price: {fil: a}", "did you mean 'file'"),
        ("price: {file: none.csv}", "none.csv does not exist"),
        ("price: {file: p.csv, per: GWh}", "use kWh or MWh"),
        ("price: {file: p.csv, zone: Mars}", "no time zone 'Mars'"),
        ("price: {file: p.csv, from: soon}", "is not a day"),
        ("price: {file: p.csv, known_ahead_h: often}", "use hours, or day-ahead"),
        ("price: {file: p.csv, column: c}", "unknown column of p.csv 'c'"),
        ("price: {file: p.csv, region: DE}", "no column of regions"),
        (f"price: {{daily: [{HOURS}], zone: Europe/Berlin}}", "summer time"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    table(tmp_path, HOURLY)
    assert said in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("2020-03-02,x", "row 3: price = 'x' is not a number"),
        ("soon,1", "row 3: time = 'soon' is not a time"),
        ("2020-03-01,1", "row 3: 2020-03-01 is not after the row before it"),
        ("2020-03-02,1,2", "row 3: 3 fields, the header has 2"),
        ("2020-03-02,1e9", "row 3: price = '1e9'"),
    ],
)
def test_errors_name_the_row(tmp_path: Path, rows: str, said: str) -> None:
    table(tmp_path, f"time,price\n2020-03-01,1\n{rows}\n")
    assert said in refused(tmp_path, "price: {file: p.csv}")


REAL = Path(os.environ.get("FLYBALL_DATA", "no-data"))


@pytest.mark.skipif(not REAL.is_dir(), reason="FLYBALL_DATA names no folder of data")
def test_published_series(tmp_path: Path) -> None:
    price_file = REAL / "electricity_price" / "day_ahead_hourly.csv.gz"
    carbon_file = REAL / "carbon_intensity" / "carboncast_2020_2021.csv.gz"
    if not price_file.exists() or not carbon_file.exists():
        pytest.skip("the series of prices and carbon are not in FLYBALL_DATA")
    (tmp_path / "c.yaml").write_text(
        f"{NODES}price: {{file: {price_file}, region: DE, column: price, per: MWh, "
        f"zone: Europe/Berlin, known_ahead_h: day-ahead}}\n"
        f"carbon: {{file: {carbon_file}, region: DE}}\ncurrency: EUR\n"
    )
    cluster = load_cluster(tmp_path / "c.yaml")
    assert cluster.price is not None
    assert cluster.carbon is not None
    mean_price = cluster.price.integral(cluster.price.begin_us, cluster.price.end_us)
    mean_price /= cluster.price.end_us - cluster.price.begin_us
    assert 0.02 < mean_price < 0.05
    assert 300 < cluster.carbon.values.mean() < 350
    assert cluster.carbon.step_us == HOUR_US
