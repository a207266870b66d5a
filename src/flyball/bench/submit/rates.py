"""Measures how fast jobs are accepted: one by one over many connections, and in batches.

One job holds all cores, so that the others stay pending and use no CPU. Decisions go on meanwhile,
as they always do after a submit.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from flyball.bench.submit.rows import Row, SubmitSetting, at_least
from flyball.bench.submit.server import Up, running, state_folder

CONNECTIONS = 32
BATCH = 1_000
REPEATS = 3
JOB = {"argv": ["python", "train.py", "--epochs", "3"], "cwd": "/", "cpus": 1, "estimate_s": 600}
DURABLE = "journal with synchronous=FULL, each job with a key"


def submits(setting: SubmitSetting) -> list[Row]:
    """Jobs a second, one call each; the median of a few runs, and the latency in all of them."""
    per_connection = setting.size(5_000, 500) // CONNECTIONS
    rates, took_s = [], []
    with _full(setting) as up:
        submit_one_by_one(up, 5)
        cpu_s = up.cpu_s()
        for _ in range(REPEATS):
            began = time.monotonic()
            latencies = submit_one_by_one(up, per_connection)
            rates.append(len(latencies) / (time.monotonic() - began))
            took_s += latencies
            setting.note(f"  {rates[-1]:,.0f} submits/s over {CONNECTIONS} connections")
        cpu_ms = 1e3 * (up.cpu_s() - cpu_s) / len(took_s)
    p50_ms, p99_ms = (1e3 * np.percentile(took_s, [50, 99])).tolist()
    about = f"{CONNECTIONS} connections, {DURABLE}; {len(took_s):,} jobs"
    more = {"about": about, "p50_ms": p50_ms, "p99_ms": p99_ms, "cpu_ms_per_job": cpu_ms}
    return [at_least("submits one by one", float(np.median(rates)), "jobs/s", 500.0, **more)]


def batches(setting: SubmitSetting) -> list[Row]:
    """Jobs a second in batches of a thousand over one connection; the median of a few runs."""
    count = setting.size(10, 2)
    rates = []
    body = json.dumps({"jobs": [JOB] * BATCH}).encode()
    with _full(setting) as up, up.connection() as connection:
        connection.post("/jobs/batch", body, uuid.uuid4().hex)
        cpu_s = up.cpu_s()
        for _ in range(REPEATS):
            began = time.monotonic()
            for _ in range(count):
                connection.post("/jobs/batch", body, uuid.uuid4().hex)
            rates.append(count * BATCH / (time.monotonic() - began))
            setting.note(f"  {rates[-1]:,.0f} jobs/s in batches of {BATCH:,}")
        cpu_ms = 1e3 * (up.cpu_s() - cpu_s) / (REPEATS * count * BATCH)
    about = f"batches of {BATCH:,}, one connection, {DURABLE}; {REPEATS * count * BATCH:,} jobs"
    more = {"about": about, "cpu_ms_per_job": cpu_ms}
    return [at_least("submits in batches", float(np.median(rates)), "jobs/s", 10_000.0, **more)]


@contextmanager
def _full(setting: SubmitSetting) -> Iterator[Up]:
    """Run a control plane whose cores are all held by one job."""
    with state_folder(setting.folder) as state, running(state) as up:
        up.fill()
        yield up


def submit_one_by_one(up: Up, per_connection: int) -> list[float]:
    """Submit this many jobs on every connection at once; return the seconds that each took."""
    body = json.dumps(JOB).encode()

    def submit(_number: int) -> list[float]:
        took_s = []
        with up.connection() as connection:
            for _ in range(per_connection):
                began = time.monotonic()
                connection.post("/jobs", body, uuid.uuid4().hex)
                took_s.append(time.monotonic() - began)
        return took_s

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return [took for times in pool.map(submit, range(CONNECTIONS)) for took in times]
