"""The runs of a comparison: each is made once, and kept in a file as soon as it ends.

The file has a line of JSON per run, with a key made of all that the run depends on: the
scenario, the policy and its knobs, the seed, and the code. Whoever asks again for a run that is
there gets it from the file, so a comparison that was broken off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from flyball import __version__
from flyball.app import PolicySetting
from flyball.bench.bounds import lower_bounds
from flyball.bench.scenarios import Scenario
from flyball.bench.workers import Workers
from flyball.core.errors import BadInput
from flyball.physics.compile import PACKAGE

Record = dict[str, Any]
Note = Callable[[str], None]

BOUND = -1
"""In place of a policy: the lower bounds of a scenario and seed."""

CODE = (
    *("core/**/*.py", "physics/**/*.py", "schedule/**/*.py", "twin/**/*.py", "app.py"),
    *("bench/replay.py", "bench/scenarios.py", "bench/bounds.py", "bench/priced_bound.py"),
    *("data/*.toml", "data/*.csv", "data/clusters.yaml"),
)
"""What the result of a run may depend on besides its scenario, knobs and seed."""

SYNC_S = 1.0


@cache
def code_version() -> str:
    """The package's version and a digest of the sources that runs depend on."""
    digest = hashlib.sha256()
    for pattern in CODE:
        for source in sorted(PACKAGE.glob(pattern)):
            name = source.relative_to(PACKAGE).as_posix()
            digest.update(name.encode() + b"\0" + source.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:16]}"


@dataclass(frozen=True)
class Plan:
    """Scenarios x policies x seeds."""

    scenarios: tuple[Scenario, ...]
    policies: tuple[PolicySetting, ...]
    seeds: tuple[int, ...]

    def tasks(self) -> list[tuple[int, int, int]]:
        """(seed, scenario, policy or BOUND) of every run, seed by seed.

        What is there after a while is then a whole comparison over fewer seeds.
        """
        arms = [*range(len(self.policies)), BOUND]
        scenarios = range(len(self.scenarios))
        return [(seed, at, arm) for seed in self.seeds for at in scenarios for arm in arms]

    def key(self, seed: int, scenario: int, arm: int) -> str:
        """Two runs with the same key have the same result."""
        policy = None if arm == BOUND else self.policies[arm]
        parts = [
            code_version(),
            self.scenarios[scenario].text(),
            seed,
            None if policy is None else [policy.name, policy.knobs.as_dict()],
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def run(self, seed: int, scenario: int, arm: int) -> Record:
        """One run, here and now, as a line of the file."""
        chosen = self.scenarios[scenario]
        record: Record = {"key": self.key(seed, scenario, arm), "scenario": chosen.name}
        began = time.perf_counter()
        if arm == BOUND:
            workload, effects = chosen.make_workload(seed), chosen.make_effects(seed)
            bounds = lower_bounds(chosen.make_cluster(), workload, effects)
            record |= {"seed": seed, "jobs": len(workload), "bounds": bounds.as_dict()}
        else:
            done = chosen.case(self.policies[arm], seed).run(0, 0)
            record |= {"seed": seed, "policy": done.policy, "summary": done.summary.as_dict()}
        return {**record, "run_s": round(time.perf_counter() - began, 6)}


class RunFile:
    """The file of runs: read as a whole, then appended to. Use it in a `with` statement.

    A line is given to the system when its run ends and forced to the disk within about a second:
    a killed process loses nothing, a power cut next to nothing. A line that is damaged
    all the same is left where it is, and its run is made again.

    Args:
        path: made if it is not there.
        note: told of lines that cannot be used.
    """

    def __init__(self, path: Path, note: Note | None = None) -> None:
        self.records: dict[str, Record] = {}
        whole = True
        try:
            text = path.read_bytes() if path.exists() else b""
            whole = not text or text.endswith(b"\n")
            self._read(text, path, note)
            self._file = path.open("ab")
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}", "name another folder") from None
        if not whole:  # the next line must not become a part of the damaged one
            self._file.write(b"\n")
        self._synced = time.monotonic()

    def _read(self, text: bytes, path: Path, note: Note | None) -> None:
        damaged = []
        for row, line in enumerate(text.splitlines(), start=1):
            record = _parsed(line)
            if record is not None:
                self.records[record["key"]] = record
            elif line.strip():
                damaged.append(row)
        if damaged and note is not None:
            rows = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
            note(f"note: {path} row {rows} is damaged; that run is made again")

    def append(self, record: Record) -> None:
        """Keep a run."""
        self.records[record["key"]] = record
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()
        if time.monotonic() - self._synced > SYNC_S:
            self._sync()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def __enter__(self) -> RunFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.flush()
        self._sync()
        self._file.close()


def _parsed(line: bytes) -> Record | None:
    """The record in a line, None if it is not one."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("key"), str) else None


def run_plan(
    plan: Plan,
    runs: RunFile,
    workers: int | None = None,
    done: Callable[[Record], None] | None = None,
) -> list[Record]:
    """Every run of the plan in the order of its tasks, made or found in the file.

    Args:
        plan: what to run.
        runs: where runs are kept.
        workers: processes at most; None = as many as cores.
        done: told of each run, when it is found or made.
    """
    keys = {task: plan.key(*task) for task in plan.tasks()}
    left = []
    for task, key in keys.items():
        if key not in runs.records:
            left.append(task)
        elif done is not None:
            done(runs.records[key])
    with Workers(plan, workers) as crew:
        for _, record in crew.run(left):
            runs.append(record)
            if done is not None:
                done(record)
    return [runs.records[key] for key in keys.values()]
