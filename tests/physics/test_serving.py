"""Replicas and their queue: formulas by hand, and the fits against what was measured."""

from __future__ import annotations

import csv
import gzip
import math
from statistics import median

import numpy as np
import pytest

from flyball.core.errors import BadInput, DataAbsent, UnknownName
from flyball.core.shared_data import shared_data
from flyball.physics.serving import (
    Lengths,
    Queue,
    Replica,
    Target,
    erlang_c,
    find_replica,
    lengths_from,
    queue_of,
    replicas,
    scaled,
    steady,
)

PLAIN = Replica("plain", 2, (0.01, 0.001), (0.02, 0.0001), (100.0, 50.0, 10.0), 40, 180.0)
MEASURED = {
    "llama-8b": ("meta-llama/Llama-3.1-8B-Instruct", 1),
    "qwen-14b": ("Qwen/Qwen3-14B", 1),
    "qwen-32b": ("Qwen/Qwen3-32B", 2),
    "llama-70b": ("meta-llama/Llama-3.1-70B-Instruct", 4),
    "llama-405b-fp8": ("meta-llama/Llama-3.1-405B-Instruct-FP8", 8),
}


def test_a_request_shares_the_replica_with_the_prompts_of_the_others() -> None:
    # 100 tokens at 10 + 4 x 1 ms, and four prompts of 20 + 100 x 0.1 = 30 ms.
    assert PLAIN.service_s(100, 100, 4) == pytest.approx(1.4 + 0.12)
    assert PLAIN.throughput_rps(100, 100, 4) == pytest.approx(4 / 1.52)
    assert PLAIN.throughput_rps(100, 100) == pytest.approx(40 / 6.2)


def test_decoding_slows_by_the_share_of_prompts() -> None:
    rate = PLAIN.throughput_rps(100, 100, 4)
    share = rate * PLAIN.prompt_s(100)
    assert PLAIN.service_s(100, 100, 4) == pytest.approx(1.4 / (1.0 - share))


@pytest.mark.parametrize("batch", [1.0, 7.5, 39.0])
def test_the_batch_at_a_rate_is_the_one_that_gives_it(batch: float) -> None:
    rate = PLAIN.throughput_rps(100, 50, batch)
    assert PLAIN.batch_at(rate, 100, 50) == pytest.approx(batch)
    assert PLAIN.batch_at(1e6, 100, 50) == 40


def test_power_rises_to_a_limit() -> None:
    assert PLAIN.power_w(0) == 100.0
    assert PLAIN.power_w(10) == pytest.approx(150.0 - 50.0 / math.e)
    assert PLAIN.power_w(1e9) == pytest.approx(150.0)


def test_erlang_c_by_hand() -> None:
    assert erlang_c(1, 0.7) == pytest.approx(0.7)  # M/M/1: busy for its load
    assert erlang_c(2, 1.0) == pytest.approx(1.0 / 3.0)
    assert erlang_c(3, 0.0) == 0.0


@pytest.mark.parametrize(("servers", "load"), [(5, 3.5), (60, 55.0), (400, 390.0)])
def test_erlang_c_is_the_recursion(servers: int, load: float) -> None:
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    use = load / servers
    assert erlang_c(servers, load) == pytest.approx(blocked / (1 - use * (1 - blocked)), rel=1e-9)


def test_waiting_in_the_simplest_queue() -> None:
    queue = Queue(1, 1.0)
    assert queue.beyond(0.8, 1, 5.0) == pytest.approx(0.8 * math.exp(-1.0))
    assert queue.beyond(1.0, 1, 5.0) == 1.0
    half = queue._replace(service_scv=0.0)  # steady services halve the mean wait
    assert half.beyond(0.8, 1, 5.0) == pytest.approx(0.8 * math.exp(-2.0))
    assert half._replace(arrival_scv=0.0).beyond(0.8, 1, 5.0) == 0.0


@pytest.mark.parametrize("rate", [0.3, 4.0, 61.0, 900.0])
def test_the_least_replicas_are_the_least(rate: float) -> None:
    queue, target = Queue(8, 2.0, 3.0, 2.0), Target(0.99, 1.0)
    least = queue.least(rate, target)
    assert queue.beyond(rate, least, 1.0) <= 0.01
    assert queue.beyond(rate, least - 1, 1.0) > 0.01


def test_what_fleets_carry_agrees_with_the_least() -> None:
    queue, target = Queue(4, 2.0), Target(0.95, 0.5)
    carried = queue.carried(12, target)
    assert carried[0] == 0.0
    assert (np.diff(carried) > 0).all()
    assert queue.least(0.0) == 0
    for count in (1, 5, 12):
        assert queue.least(carried[count] * 0.999, target) == count
        assert queue.least(carried[count] * 1.001, target) == count + 1


def test_the_queue_of_a_replica_is_that_of_its_full_batch() -> None:
    queue = queue_of(PLAIN, steady(100, 100))
    assert queue.service_s == pytest.approx(PLAIN.service_s(100, 100, 40))
    assert queue.each_rps == pytest.approx(PLAIN.throughput_rps(100, 100))
    assert queue.service_scv == 0.0
    mixed = Lengths(np.full(4, 100.0), np.array([0.0, 0.0, 200.0, 200.0]))
    token_s = (PLAIN.service_s(100, 100, 40) - 0.03) / 100
    expected = (100 * token_s / queue.service_s) ** 2
    assert queue_of(PLAIN, mixed).service_scv == pytest.approx(expected)


def test_lengths_come_from_quantiles() -> None:
    lengths = lengths_from({0.0: 1, 0.5: 10, 1.0: 100}, {0.0: 5, 1.0: 5})
    assert float(np.median(lengths.prompt)) == pytest.approx(10, rel=0.01)
    assert lengths.means[1] == pytest.approx(5)
    assert scaled(lengths, 30.0, 6.0).means == pytest.approx((30.0, 6.0))
    with pytest.raises(BadInput, match="rise"):
        lengths_from({0.0: 3, 1.0: 1}, {0.0: 5, 1.0: 5})


def test_an_unknown_replica_is_refused() -> None:
    with pytest.raises(UnknownName, match="llama-70b"):
        find_replica("llama-7b")


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_the_fits_follow_the_measurements(name: str) -> None:
    try:
        path = shared_data("llm_serving_perf", "mlenergy_leaderboard_2026-02.csv.gz")
    except DataAbsent as absent:
        pytest.skip(f"the measurements are not on this machine: {absent}")
    model, devices = MEASURED[name]
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["task"] == "lm-arena-chat"
            and row["gpu_model"] == "H100"
            and row["model_id"] == model
            and int(row["num_gpus"]) == devices
            and float(row["avg_batch_size"]) <= 260
        ]
    replica = replicas()[name]
    assert replica.devices == devices
    assert len(rows) >= 6
    token, power = [], []
    for row in rows:
        batch = float(row["avg_batch_size"])
        measured_s = batch / float(row["output_throughput_tokens_per_sec"])
        token.append(abs((replica.token_s[0] + replica.token_s[1] * batch) / measured_s - 1))
        power.append(abs(replica.power_w(batch) / float(row["avg_power_watts"]) - 1))
    assert median(token) < 0.03
    assert median(power) < 0.025
