"""Own jobs on real Slurm daemons: the whole control plane, and what goes wrong around it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.until import until

from flyball.app import policy_settings
from flyball.bench.engines.slurm_cluster import HOW_TO_GET, SlurmCluster, missing
from flyball.control.ask.bills import Prices
from flyball.core.errors import BadInput
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.engines.slurm.engine import SlurmEngine
from flyball.engines.slurm.own_jobs import OwnJobs
from flyball.engines.slurm.own_request import SlurmSettings
from flyball.engines.slurm.shared_folder import SharedFolder
from flyball.live import Live, build_live

QUICK = SlurmSettings(beat_s=0.1, lease_s=3.0, poll_s=0.3, nodes_s=0.3, queue_s=2.0)
SCRIPT = 'echo "$0 $FLYBALL_JOB_ID.$FLYBALL_ATTEMPT" >> "$1"; exec sleep "$2"'


class Site:
    """A control plane on a cluster, which can be started again."""

    def __init__(
        self, folder: Path, settings: SlurmSettings = QUICK, shared: Path | None = None
    ) -> None:
        (folder / "state").mkdir(mode=0o700, exist_ok=True)
        self.folder, self.settings = folder, settings
        self.shared = shared or folder / "state" / "slurm"
        self.runs = folder / "runs"
        self.open()

    def open(self) -> None:
        (easy,) = policy_settings("easy", [])
        state = self.folder / "state"
        self.live: Live = build_live(state, easy, Prices(), slurm=self.settings, shared=self.shared)
        self.live.driver.start()

    def close(self) -> None:
        self.live.close()

    def submit(self, seconds: float = 0.2, **asked: Any) -> int:
        argv = ("/bin/sh", "-c", SCRIPT, "run", str(self.runs), str(seconds))
        values = {"argv": argv, "estimate_s": 5.0, "cwd": str(self.folder), "grace_s": 1.0}
        return self.live.plane.submit([JobSpec(**{**values, **asked})])[0]

    def job(self, job: int) -> Job:
        return self.live.plane.ask.job(job)

    def until_state(self, job: int, *states: JobState) -> Job:
        until(lambda: self.job(job).state in states, f"job {job} is {states}")
        return self.job(job)

    def until_started(self, job: int, attempt: int = 1) -> Job:
        until(lambda: self.job(job).attempt >= attempt and self.job(job).started_us)
        return self.job(job)

    def starts(self) -> list[str]:
        """The tokens of every start of a program, as the programs themselves say."""
        lines = self.runs.read_text().splitlines() if self.runs.exists() else []
        return [line.split()[1] for line in lines]


needs_slurm = pytest.mark.skipif(bool(missing()), reason=f"no Slurm daemons; {HOW_TO_GET}")


@pytest.fixture
def site(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    for job in list(site.live.plane.live_state.jobs):
        site.live.plane.cancel(job)
    until(lambda: not site.live.plane.live_state.jobs, "all jobs ended", limit_s=60.0)
    site.close()


def test_a_job_runs_on_slurm_and_its_gpu_is_the_one_that_slurm_chose(
    slurm: SlurmCluster, site: Site
) -> None:
    foreign = slurm.submit("--gres=gpu:1", "--nodelist=n1", seconds=600)
    until(lambda: slurm.run("squeue", "-h", "-t", "R", "-j", str(foreign)).strip())
    job = site.submit(600.0, gpus=1, cpus=1, stdout="")
    started = site.until_started(job)
    (row,) = started.rows
    name = site.live.plane.nodes_[row.node].name
    reference = started.values["reference"]
    shown = slurm.run("scontrol", "-o", "-d", "show", "job", reference)
    assert f"Nodes={name} " in shown
    index = row.mask.bit_length() - 1
    assert f"(IDX:{index})" in shown.rpartition("JOB_GRES=")[2], "read back"
    assert f"Comment=flyball:{SharedFolder(site.shared).cluster()}:{job}.1" in shown
    site.live.plane.cancel(job)
    assert site.until_state(job, JobState.CANCELLED).values["why"] == "stopped"
    assert slurm.run("squeue", "-h", "-t", "R", "-j", str(foreign)).strip(), "not touched"


def test_ends_are_known_after_slurm_forgot_them(slurm: SlurmCluster, site: Site) -> None:
    jobs = [site.submit(0.1, argv=("/bin/sh", "-c", f"exit {code}")) for code in (0, 7)]
    site.close()
    slurm.run("scontrol", "update", "PartitionName=main", "State=UP")
    time.sleep(1.0)
    site.open()
    assert site.until_state(jobs[0], JobState.COMPLETED, JobState.FAILED).values["exit_code"] == 0
    assert site.until_state(jobs[1], JobState.FAILED).values["exit_code"] == 7


def test_a_preempted_job_goes_on_as_the_next_attempt(slurm: SlurmCluster, site: Site) -> None:
    script = (
        "trap 'echo saved > $FLYBALL_CHECKPOINT_DIR/c; exit 0' USR1; "
        '[ -e $FLYBALL_CHECKPOINT_DIR/c ] && exit 0; echo x >> "$1"; while :; do sleep 0.05; done'
    )
    job = site.submit(
        argv=("/bin/sh", "-c", script, "run", str(site.runs)),
        checkpoint_signal=int(signal.SIGUSR1), least=1, most=2, gpus=1,
    )  # fmt: skip
    site.until_started(job)
    until(site.runs.exists)
    site.live.plane.resize(job, 2)
    ended = site.until_state(job, JobState.COMPLETED, JobState.FAILED)
    assert (ended.state, ended.attempt, ended.preemptions) == (JobState.COMPLETED, 2, 1)


def test_a_gang_runs_on_each_of_its_nodes_with_the_variables_of_torchrun(
    slurm: SlurmCluster, site: Site
) -> None:
    names = "RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT PET_NNODES PET_NODE_RANK"
    words = " ".join(f"${name}" for name in names.split())
    job = site.submit(argv=("/bin/sh", "-c", f"echo {words}"), gpus=4, cpus=2)
    ended = site.until_state(job, JobState.COMPLETED, JobState.FAILED)
    text = (site.shared / "logs" / f"{job}.1.out").read_text()
    assert ended.state == JobState.COMPLETED, text
    lines = sorted(line.split() for line in text.splitlines())
    port = str(15_000 + job)
    assert lines == [[str(rank), "2", "0", "127.0.0.1", port, "2", str(rank)] for rank in (0, 1)]


def test_a_node_that_others_fill_is_given_up_for_another(slurm: SlurmCluster, site: Site) -> None:
    for node in ("n1", "n2", "n3"):
        slurm.submit(f"--nodelist={node}", "--exclusive", seconds=300)
    until(lambda: slurm.run("squeue", "-h", "-t", "R").count("\n") == 3)
    job = site.submit(0.1, cpus=3)
    ended = site.until_state(job, JobState.COMPLETED)
    assert slurm.run("squeue", "-h", "-t", "R", "-n", "wrap").count("\n") == 3, "others run on"
    events = site.live.plane.ask.events(0, 1000, ("queued", "requeued"), job)
    if ended.attempt > 1:
        assert any("Slurm let it wait" in event.get("reason", "") for event in events)
    assert site.starts() == [f"{job}.{ended.attempt}"], "an attempt that was withdrawn never ran"


def test_what_others_have_of_a_node_is_left_to_them_until_they_go(
    slurm: SlurmCluster, site: Site
) -> None:
    for node in ("n1", "n2", "n3"):
        slurm.submit(f"--nodelist={node}", "--exclusive", seconds=300)
    part = slurm.submit("--nodelist=n4", "--cpus-per-task=2", "--gres=gpu:1", seconds=300)
    until(lambda: slurm.run("squeue", "-h", "-t", "R").count("\n") == 4)

    def seen() -> dict[str, int]:
        return {node["name"]: node["others"]["cpus"] for node in site.live.plane.ask.nodes()}

    until(lambda: seen() == {"n1": 4, "n2": 4, "n3": 4, "n4": 2}, "what others have")
    wide = site.submit(0.1, cpus=3)
    small = site.submit(60.0, cpus=1, gpus=1)
    until(lambda: site.job(small).rows, "the one that fits has begun")
    site.until_started(small)
    assert site.job(wide).state == JobState.PENDING
    assert "host-full" in site.live.plane.ask.why(wide)["token"]
    (last,) = [row for row in site.live.plane.ask.nodes() if row["name"] == "n4"]
    assert last["others"]["devices"] == 1, "our own jobs are not those of others"
    slurm.run("scancel", str(part))
    ended = site.until_state(wide, JobState.COMPLETED)
    assert ended.attempt == 1, "Slurm never had it wait"
    assert site.live.plane.ask.events(0, 1000, ("queued",), wide) == []
    site.live.plane.cancel(small)


@needs_slurm
def test_slurmctld_that_is_killed_right_after_sbatch_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SlurmCluster(nodes=1, cpus=4, gpus=0) as slurm:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, slurm.environment[name])
        site = Site(tmp_path)
        jobs = [site.submit(3.0) for _ in range(3)]
        until(site.starts, "one has begun")
        slurm.stop_controller(signal.SIGKILL)
        jobs += [site.submit(0.1) for _ in range(2)]
        slurm.start_controller()

        def all_over() -> bool:
            slurm.resume_nodes()  # Slurm drains nodes on which it finds a forgotten job
            return not site.live.plane.live_state.jobs

        until(all_over, "all jobs ended", every_s=0.5)
        assert {site.job(job).state for job in jobs} == {JobState.COMPLETED}
        site.close()
    starts = site.starts()
    assert len(set(starts)) == len(starts), "no token ran twice"


def test_a_lost_keeper_is_lost_and_its_job_runs_again(slurm: SlurmCluster, site: Site) -> None:
    job = site.submit(60.0)
    site.until_started(job)
    claim = (site.shared / "claims" / f"{job}.1").read_text()
    os.kill(int(claim.split('"pid": ')[1].split(",")[0]), signal.SIGKILL)
    again = site.until_started(job, 2)
    assert (again.failures, site.starts()) == (1, [f"{job}.1", f"{job}.2"])


@needs_slurm
def test_an_attempt_that_slurmctld_has_forgotten_to_have_begun_is_lost_with_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SlurmCluster(nodes=1, cpus=4, gpus=0) as slurm:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, slurm.environment[name])
        site = Site(tmp_path)
        job = site.submit(600.0)
        number = site.until_started(job).values["reference"]
        slurm.run("scontrol", "update", f"JobId={number}", "Requeue=1")
        slurm.kill_node("n1")
        slurm.run("scontrol", "requeuehold", number)  # as if slurmctld came back with an old state
        slurm.start_node("n1")
        again = site.until_started(job, 2)
        until(lambda: site.starts() == [f"{job}.1", f"{job}.{again.attempt}"], "it runs again")
        assert again.failures == 1
        until(lambda: number not in slurm.run("squeue", "-h", "-t", "PD,R", "-o", "%i").split())
        site.live.plane.cancel(job)
        site.until_state(job, JobState.CANCELLED)
        site.close()


@needs_slurm
def test_a_job_that_slurm_forgot_and_killed_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SlurmCluster(nodes=1, cpus=4, gpus=0) as slurm:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, slurm.environment[name])
        site = Site(tmp_path)
        job = site.submit(600.0)
        site.until_started(job)
        slurm.stop_controller(signal.SIGKILL)
        shutil.rmtree(slurm.folder / "state")
        (slurm.folder / "state").mkdir()
        slurm.start_controller()

        def runs_again() -> bool:
            slurm.resume_nodes()  # Slurm drains nodes on which it finds a forgotten job
            return site.starts()[1:] == [f"{job}.{site.job(job).attempt}"]

        until(runs_again, "it runs again", every_s=0.5)
        assert (site.job(job).failures, site.job(job).state) == (1, JobState.RUNNING)
        slurm.run("scancel", site.until_started(job, 2).values["reference"])
        ended = site.until_state(job, JobState.FAILED, JobState.CANCELLED)
        assert ended.reason == "stopped-from-outside", "somebody's scancel is an end"
        site.close()


def test_an_attempt_that_runs_by_slurms_word_but_never_begins_is_placed_anew(
    slurm: SlurmCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stuck, mended = tmp_path / "stuck", tmp_path / "mended"
    stuck.write_text(f'#!/bin/sh\n[ -e {mended} ] && exec {sys.executable} "$@"\nexec sleep 600\n')
    stuck.chmod(0o755)
    site = Site(tmp_path, replace(QUICK, python=str(stuck), begin_s=2.0))
    job = site.submit(0.1)
    until(lambda: site.job(job).attempt >= 2, "another attempt")
    mended.touch()
    ended = site.until_state(job, JobState.COMPLETED)
    assert site.starts() == [f"{job}.{ended.attempt}"]
    assert f"attempt {job}.1 did not begin: by Slurm's word it runs on n" in caplog.text
    until(lambda: not slurm.run("squeue", "-h", "-t", "R"), "what was stuck is withdrawn")
    site.close()


def test_jobs_of_others_with_our_comment_are_left_alone(slurm: SlurmCluster, site: Site) -> None:
    cluster = SharedFolder(site.shared).cluster()
    forged = [
        slurm.submit(f"--comment=flyball:{cluster}:1.1", "--job-name=theirs\n|x", seconds=60),
        slurm.submit("--comment=flyball:000000000000:1.1", "--job-name=fly-1.1", seconds=60),
    ]
    job = site.submit(0.1)
    site.until_state(job, JobState.COMPLETED)
    site.close()
    site.open()
    site.until_state(site.submit(0.1), JobState.COMPLETED)
    left = slurm.run("squeue", "-h", "-o", "%i").split()
    assert {str(number) for number in forged} <= set(left)


def test_what_slurm_refuses_ends_with_its_reason(slurm: SlurmCluster, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no partition 'nowhere'; use one of main, first"):
        SlurmEngine(tmp_path / "x", _clock(), SlurmSettings(partition="nowhere"))
    site = Site(tmp_path, SlurmSettings(beat_s=0.1, poll_s=0.3, options=("--licenses=none",)))
    job = site.submit(0.1)
    ended = site.until_state(job, JobState.BOOT_FAIL)
    assert "Slurm refuses it" in ended.reason and site.starts() == []
    site.close()


def _clock() -> Any:
    from flyball.core.clock import LiveClock

    return LiveClock()


def test_another_control_plane_is_refused_the_folder_of_one_that_runs(
    slurm: SlurmCluster, site: Site, tmp_path: Path
) -> None:
    (easy,) = policy_settings("easy", [])
    (tmp_path / "other").mkdir(mode=0o700)
    with pytest.raises(BadInput, match="is in use by another control plane"):
        build_live(tmp_path / "other", easy, Prices(), slurm=QUICK, shared=site.shared)
    site.close()
    live = build_live(tmp_path / "other", easy, Prices(), slurm=QUICK, shared=site.shared)
    live.close()
    site.open()


def test_a_new_state_folder_gives_no_number_again_that_the_shared_folder_has(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    shared, numbers = tmp_path / "shared", []
    for name in ("first", "second"):
        (tmp_path / name).mkdir(mode=0o700)
        site = Site(tmp_path / name, QUICK, shared)
        job = site.submit(0.1, argv=("/bin/sh", "-c", f"echo {name}"))
        assert site.until_state(job, JobState.COMPLETED, JobState.FAILED).attempt == 1
        log = site.live.plane.ask.log_path(job)
        assert (log.parent, log.read_text()) == (shared / "logs", f"{name}\n")
        numbers.append(job)
        site.close()
    assert numbers[1] > numbers[0]


def test_the_folder_is_probed(tmp_path: Path) -> None:
    SharedFolder(tmp_path / "good").probe()
    with pytest.raises(BadInput, match="a job could run twice"):
        SharedFolder(tmp_path / "bad").probe(lambda path: path.exists() or True)


def test_a_job_that_nobody_expects_is_cancelled_before_it_begins(
    slurm: SlurmCluster, site: Site
) -> None:
    jobs = OwnJobs(SharedFolder(site.shared).cluster())
    number = jobs.submit((999, 1), ["--output=/dev/null"], "#!/bin/sh\nsleep 60\n")
    until(
        lambda: not slurm.run("squeue", "-h", "-t", "PD,R", "-j", str(number)).strip(),
        "the stray is gone",
    )
