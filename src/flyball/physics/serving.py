"""Replicas that serve requests: how fast, at what power, and how long requests wait for them.

A replica answers up to `largest_batch` requests at a time. With b of them in its batch a token
takes `c0 + c1 b`; while it reads a new prompt the others wait. A request that shares the
replica with b - 1 others of the same lengths takes

    S(b) = L (c0 + c1 b) + b p          L tokens of answer, p seconds to read the prompt

so that a replica answers b / S(b) requests per second. The figures are in `data/serving.toml`.

The queue for c replicas is modelled with c * largest_batch servers, each as slow as in a full
batch: Erlang's formula, with the correction of Allen and Cunneen for arrivals and services that
vary more or less than exponentially. `twin/services.py` simulates the same request by request;
docs/concept/serving.md compares the two.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincc, gammaln

from flyball.core.errors import BadInput, UnknownName
from flyball.core.results import Floats

TABLE = 4096
"""Number of points of the tables that lengths are drawn from."""
MOST_REPLICAS = 1 << 20


class Lengths(NamedTuple):
    """Lengths of requests: equally likely numbers of tokens, smallest first.

    Attributes:
        prompt: tokens to read.
        output: tokens to answer with, independent of the prompt.
    """

    prompt: Floats
    output: Floats

    @property
    def means(self) -> tuple[float, float]:
        return float(self.prompt.mean()), float(self.output.mean())


class Target(NamedTuple):
    """Service level: the share of requests that wait at most `wait_s`; by default 99 %, 15 s."""

    share: float = 0.99
    wait_s: float = 15.0


USUAL = Target()


@dataclass(frozen=True)
class Replica:
    """One copy of a model, ready to serve.

    Attributes:
        devices: it holds.
        token_s: c0 and c1, seconds per token and what each request of the batch adds.
        prefill_s: seconds to read a prompt: a constant, and per token of it.
        draw_w: of all devices with an empty batch; what a large batch adds; the batch at which
            all but 1/e of that is reached.
        largest_batch: requests at a time.
        startup_s: time from the start to the first request.
    """

    name: str
    devices: int
    token_s: tuple[float, float]
    prefill_s: tuple[float, float]
    draw_w: tuple[float, float, float]
    largest_batch: int
    startup_s: float

    def prompt_s(self, tokens: float) -> float:
        """Return the seconds to read a prompt."""
        return self.prefill_s[0] + self.prefill_s[1] * tokens

    def service_s(self, prompt: float, output: float, batch: float) -> float:
        """Return the seconds that a request takes in a batch of requests of the same lengths."""
        decode_s = output * (self.token_s[0] + self.token_s[1] * batch)
        return decode_s + batch * self.prompt_s(prompt)

    def throughput_rps(self, prompt: float, output: float, batch: float = 0.0) -> float:
        """Return the requests per second with `batch` requests at a time; 0 = the largest batch."""
        batch = batch or self.largest_batch
        return batch / self.service_s(prompt, output, batch)

    def batch_at(self, rate_rps: float, prompt: float, output: float) -> float:
        """Return the mean batch size at a rate; never above the largest."""
        each_s = output * self.token_s[1] + self.prompt_s(prompt)
        if rate_rps * each_s >= 1.0:
            return float(self.largest_batch)
        batch = rate_rps * output * self.token_s[0] / (1.0 - rate_rps * each_s)
        return min(batch, float(self.largest_batch))

    def power_w(self, batch: float) -> float:
        """Return the watts of all its devices."""
        idle_w, more_w, scale = self.draw_w
        return idle_w + more_w * (1.0 - math.exp(-batch / scale))


class Queue(NamedTuple):
    """The queue of one service.

    Attributes:
        slots: requests that one replica takes at a time.
        service_s: mean time in a full batch.
        arrival_scv: squared coefficient of variation of the times between arrivals, 1 = Poisson.
        service_scv: squared coefficient of variation of the service times.
    """

    slots: int
    service_s: float
    arrival_scv: float = 1.0
    service_scv: float = 1.0

    @property
    def each_rps(self) -> float:
        """Capacity of one replica, in requests per second."""
        return self.slots / self.service_s

    def beyond(self, rate_rps: float, replicas: int, wait_s: float) -> float:
        """Return the probability of a wait longer than `wait_s`; 1 if the queue only grows."""
        load = rate_rps * self.service_s
        servers = replicas * self.slots
        if load >= servers:
            return 1.0
        waits = erlang_c(servers, load)
        varied = 0.5 * (self.arrival_scv + self.service_scv)
        drain_rps = (servers - load) / self.service_s
        # Without any variation there is no queue.
        return waits * math.exp(-drain_rps * wait_s / varied) if varied > 0 else 0.0

    def least(self, rate_rps: float, target: Target = USUAL) -> int:
        """Return the fewest replicas that meet the target at a rate; 0 without requests."""
        if rate_rps <= 0:
            return 0
        low = math.ceil(rate_rps / self.each_rps)
        high = max(1, low)
        while self.beyond(rate_rps, high, target.wait_s) > 1.0 - target.share:
            low, high = high, 2 * high
            assert high <= MOST_REPLICAS, "the queue never drains"
        while high - low > 1:
            middle = (low + high) // 2
            kept = self.beyond(rate_rps, middle, target.wait_s) <= 1.0 - target.share
            low, high = (low, middle) if kept else (middle, high)
        kept = low > 0 and self.beyond(rate_rps, low, target.wait_s) <= 1.0 - target.share
        return low if kept else high

    def carried(self, most: int, target: Target = USUAL) -> Floats:
        """Return the highest rate at which 0, 1, ... `most` replicas meet the target."""
        rates = np.zeros(most + 1)
        for replicas in range(1, most + 1):
            low, high = 0.0, replicas * self.each_rps
            for _ in range(30):
                middle = 0.5 * (low + high)
                kept = self.beyond(middle, replicas, target.wait_s) <= 1.0 - target.share
                low, high = (middle, high) if kept else (low, middle)
            rates[replicas] = low
        return rates


def queue_of(replica: Replica, lengths: Lengths, arrival_scv: float = 1.0) -> Queue:
    """Return the queue of a service whose batches are full, as they are when requests wait."""
    prompt, output = lengths.means
    batch = replica.largest_batch
    service_s = replica.service_s(prompt, output, batch)
    token_s = (service_s - replica.prompt_s(prompt)) / output
    variance = token_s**2 * float(lengths.output.var())
    variance += replica.prefill_s[1] ** 2 * float(lengths.prompt.var())
    return Queue(batch, service_s, arrival_scv, variance / service_s**2)


def erlang_c(servers: int, load: float) -> float:
    """Return the probability that an arrival finds all servers busy (M/M/c); `load` in servers."""
    if load <= 0:
        return 0.0
    # Erlang B is the probability of `servers` under a Poisson distribution truncated there.
    log_top = servers * math.log(load) - load - float(gammaln(servers + 1.0))
    below = float(gammaincc(servers + 1.0, load))
    blocked = math.exp(log_top) / below if below > 0 else 1.0
    use = load / servers
    return blocked / (1.0 - use * (1.0 - blocked))


def lengths_from(prompt: Mapping[float, float], output: Mapping[float, float]) -> Lengths:
    """Return lengths from quantiles (level 0..1 -> tokens), interpolated in the logarithm."""
    return Lengths(_table(prompt), _table(output))


def steady(prompt: float, output: float) -> Lengths:
    """Return the lengths of requests that are all equal."""
    return Lengths(np.full(TABLE, float(prompt)), np.full(TABLE, float(output)))


def scaled(lengths: Lengths, prompt: float, output: float) -> Lengths:
    """Return the same distributions with other means."""
    means = lengths.means
    return Lengths(lengths.prompt * (prompt / means[0]), lengths.output * (output / means[1]))


def _table(quantiles: Mapping[float, float]) -> Floats:
    levels = np.array(sorted(quantiles))
    values = np.array([quantiles[level] for level in sorted(quantiles)])
    if len(levels) < 2 or (np.diff(values) < 0).any() or values[0] < 0:
        raise BadInput("quantiles of lengths must rise from 0 or more", "correct the table")
    at = (np.arange(TABLE) + 0.5) / TABLE
    tokens: Floats = np.expm1(np.interp(at, levels, np.log1p(values)))
    return tokens


@cache
def replicas() -> Mapping[str, Replica]:
    """Return the replicas that ship with Flyball, by name."""
    text = resources.files("flyball.data").joinpath("serving.toml").read_text("utf-8")
    return {
        name: Replica(
            name,
            row["devices"],
            (row["token_ms"][0] / 1e3, row["token_ms"][1] / 1e3),
            (row["prefill_ms"][0] / 1e3, row["prefill_ms"][1] / 1e3),
            (float(row["power_w"][0]), float(row["power_w"][1]), float(row["power_w"][2])),
            row["largest_batch"],
            float(row["startup_s"]),
        )
        for name, row in tomllib.loads(text)["replicas"].items()
    }


def find_replica(name: str) -> Replica:
    """Return the replica of this name.

    Raises:
        UnknownName: there is none.
    """
    if name not in replicas():
        raise UnknownName("replica", name, replicas())
    return replicas()[name]
