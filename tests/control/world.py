"""A whole control plane on a virtual clock, with faults drawn from a seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from flyball.control.decide.verify import Verdict, Verifier
from flyball.control.plane import Plane
from flyball.core.errors import BadInput, Unavailable
from flyball.core.events import Ended
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.knobs import Knobs
from flyball.core.live import LiveNode
from flyball.core.units import FOREVER_US
from flyball.schedule.policies.registry import get_policy
from flyball.twin.engine import VirtualEngine

POLICIES = ("fifo", "fifo-skip", "easy", "sjf", "srtf", "las", "tiresias", "qssf")
START_US = 1_700_000_000_000_000
NODES = (
    LiveNode("a", "CPU1", 4, 4, 8192),
    LiveNode("b", "CPU1", 4, 4, 8192),
)


class Killed(Exception):
    """Raised to kill the control plane at this point."""


@dataclass
class Faults:
    """Probabilities of faults, per point passed."""

    kill: float = 0.02
    lose: float = 0.01
    late: float = 0.1


@dataclass
class World:
    """Holds clock, engine and disk, which outlive a control plane."""

    folder: Path
    seed: int
    faults: Faults = field(default_factory=Faults)
    nodes: tuple[LiveNode, ...] = NODES

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.now = START_US
        self.kills = 0
        self.accepted: dict[int, JobSpec] = {}
        self.engine = VirtualEngine(self.nodes, lambda: self.now, self._course)
        name = POLICIES[int(self.rng.integers(len(POLICIES)))]
        self.policy, self.knobs = name, self._quick(get_policy(name).knobs)
        self.plane = self._start()

    def _quick(self, knobs: Knobs) -> Knobs:
        """Return knobs with rounds short enough for a test."""
        return knobs.with_settings(["round_s=30", "margin_s=5"])

    def _course(self, spec: JobSpec, job: int, attempt: int) -> tuple[float, int]:
        rng = np.random.default_rng([self.seed, job, attempt])
        code = int(rng.random() < 0.15)
        return float(spec.estimate_s * rng.uniform(0.2, 2.0)), code

    def _start(self) -> Plane:
        while True:
            try:
                plane = Plane(
                    self.folder, self.engine, self.policy, self.knobs,
                    lambda last: lambda: max(self.now, last), inline=True, passing=self._passing,
                )  # fmt: skip
                plane.open()
                return plane
            except Killed:
                continue

    def _passing(self, point: str) -> None:
        self.check_devices()
        if self.rng.random() < self.faults.lose and self.engine.alive:
            alive = self.engine.alive
            self.engine.lose(alive[int(self.rng.integers(len(alive)))])
        late = self.rng.random() < self.faults.late
        self.engine.launch_delay_us = int(self.rng.integers(1, 3_000_000)) if late else 0
        if self.rng.random() < self.faults.kill:
            self.kills += 1
            raise Killed(point)

    def guarded(self, act: object) -> None:
        """Call something that uses the control plane; if it is killed meanwhile, start another."""
        try:
            act()  # type: ignore[operator]
        except Killed:
            self.plane.journal.close()
            self.plane = self._start()

    # What happens -----------------------------------------------------------------------

    def submit(self) -> None:
        """Submit a few jobs, some in arrays, some with dependencies."""
        rng = self.rng
        count = int(rng.integers(1, 4))
        array = rng.random() < 0.2
        after: tuple[tuple[str, int], ...] = ()
        if self.accepted and rng.random() < 0.25:
            how = ("afterok", "afterany", "afternotok")[int(rng.integers(3))]
            after = ((how, int(rng.choice(list(self.accepted)))),)
        spec = JobSpec(
            ("work",),
            name=f"n{rng.integers(4)}",
            user=f"u{rng.integers(3)}",
            cpus=int(rng.choice([1, 1, 2, 3, 4, 8])),
            memory_mib=int(rng.choice([0, 0, 1000, 6000])),
            estimate_s=float(rng.choice([1, 5, 20, 60])),
            limit_s=float(rng.choice([0, 0, 30])),
            priority=float(rng.choice([0, 0, 1])),
            requeue=bool(rng.random() < 0.8),
            preemptible=bool(rng.random() < 0.9),
            after=after,
            begin_time=float(rng.choice([0, 0, 0, (self.now + 60_000_000) / 1e6])),
        )
        if rng.random() < 0.3:
            spec = replace(spec, least=1, most=8)
        limit = int(rng.choice([0, 1, 2]))
        specs = [
            replace(spec, array_index=at, array_limit=limit) if array else spec
            for at in range(count)
        ]
        try:
            ids = self.plane.submit(specs)
        except BadInput:
            return  # it waits for something that can never happen
        self.accepted |= dict(zip(ids, specs, strict=True))

    def cancel(self) -> None:
        if self.accepted:
            self.plane.cancel(int(self.rng.choice(list(self.accepted))))

    def order(self) -> None:
        """Order a size, a cap or a checkpoint for some job; often it is refused."""
        if not self.accepted:
            return
        job, rng = int(self.rng.choice(list(self.accepted))), self.rng
        try:
            match int(rng.integers(5)):
                case 3:
                    self.plane.hold([job])
                case 4:
                    self.plane.release([job])
                case 0:
                    self.plane.resize(job, int(rng.integers(1, 9)))
                case 1:
                    self.plane.cap(job, float(rng.choice([0.25, 0.5, 1.0])))
                case _:
                    self.plane.checkpoint(job)
        except (BadInput, Unavailable):
            return

    def release_all(self) -> None:
        """Release every held job."""
        self.plane.release(list(self.plane.live_state.jobs))

    def run(self, submissions: int) -> None:
        """Submit over time, and continue until nothing is left to do."""
        left = submissions
        idle = 0
        while left or self.plane.live_state.jobs:
            if left and self.rng.random() < 0.4:
                left -= 1
                self.guarded(self.submit)
            if self.rng.random() < 0.04:
                self.guarded(self.cancel)
            if self.rng.random() < 0.2:
                self.guarded(self.order)
            if not left or self.rng.random() < 0.05:
                self.guarded(self.release_all)
            before = self.plane.live_state.seq
            self.guarded(self.plane.step)
            idle = idle + 1 if self.plane.live_state.seq == before else 0
            assert idle < 200, f"nothing happens any more: {self.plane.ask.queue()[:3]}"
            self._let_time_pass()

    def _let_time_pass(self) -> None:
        ahead = self.engine.next_us
        step = int(self.rng.integers(1, 20_000_000))
        self.now = min(self.now + step, ahead) if ahead < FOREVER_US else self.now + step

    # What must hold ---------------------------------------------------------------------

    def check_devices(self) -> None:
        """Check that no device has two jobs, and no job runs twice at a time."""
        alive = self.engine.alive
        assert len({job for job, _ in alive}) == len(alive), f"a job runs twice: {alive}"
        plane = getattr(self, "plane", None)
        if plane is None:
            return
        held: Counter[tuple[int, int]] = Counter()
        for job_id, attempt in alive:
            job = plane.live_state.jobs.get(job_id)
            if job is not None and job.attempt == attempt:
                for row in job.rows:
                    for device in range(8):
                        if row.mask >> device & 1:
                            held[row.node, device] += 1
        assert not held or max(held.values()) == 1, f"a device has two jobs: {held}"

    def jobs(self) -> list[Job]:
        return [self.plane.ask.job(job_id) for job_id in self.accepted]

    def check_end(self) -> None:
        """Check that every accepted job ended exactly once, and no attempt ran twice."""
        assert not self.engine.alive
        finals: Counter[int] = Counter()
        after = 0
        book_states = dict(self.plane.journal.final_states())
        while page := self.plane.journal.events(after, 1000):
            for seq, event in page:
                after = seq
                if isinstance(event, Ended):
                    finals[event.job] += 1
        for job in self.jobs():
            assert job.state.final
            assert book_states[job.id] == job.state
            assert finals[job.id] <= 1
            if job.state != JobState.CANCELLED:
                assert finals[job.id] == 1
        assert all(runs <= 1 for runs in self.engine.runs.values())

    def verify(self) -> Verdict:
        """Repeat every decision."""
        verifier = Verifier()
        after = 0
        while page := self.plane.journal.events(after, 1000):
            after = page[-1][0]
            verifier.follow(page)
        return verifier.verdict
