"""How a supervisor starts a job, and how it ends one."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.engines.rig import Rig, gone
from tests.until import until

from flyball.core.live import LiveNode

SAY_SIGNALS = """
import os, signal, time
def say(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
    if number == {last}: os._exit(0)
for each in (signal.SIGUSR1, signal.SIGTERM): signal.signal(each, say)
os.write(1, b"ready\\n")
while True: time.sleep(3600)
"""


# What it gets ------------------------------------------------------------------------

OURS = sum(1 << (number - 1) for number in signal.valid_signals())
"""The signals that a program can set; C libraries keep a few for themselves."""


def test_a_clean_environment(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of the control plane")
    monkeypatch.setenv("LANG", "C")
    stated = {"MINE": "1", "MASTER_PORT": "5", "FLYBALL_JOB_ID": "forged", "FLYBALL_STATE": "/"}
    rig.launch("env", "-0", job=17, attempt=2, env=stated)
    rig.ended(17, 2)
    pairs = rig.output(17, 2).rstrip("\0").split("\0")
    variables = dict(pair.split("=", 1) for pair in pairs)
    state = str(rig.state.resolve())
    assert variables == {
        "PATH": os.environ["PATH"],
        "HOME": variables["HOME"],
        "USER": variables["USER"],
        "LANG": "C",
        "MINE": "1",
        "PYTHONUNBUFFERED": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "5",
        "FLYBALL_JOB_ID": "17",
        "FLYBALL_ATTEMPT": "2",
        "FLYBALL_CHECKPOINT_DIR": f"{state}/checkpoints/17",
        "FLYBALL_STATE": state,
        "FLYBALL_DEVICES": "0",
        "FLYBALL_ORDERS": f"{state}/orders/17.2.json",
        "CUDA_VISIBLE_DEVICES": "",
        **{name: value for name, value in variables.items() if name.startswith("SLURM")},
    }
    assert variables["SLURM_JOB_ID"] == "17"
    assert variables["SLURM_RESTART_COUNT"] == "1"


def test_output_of_a_running_python_job_is_in_its_log(rig: Rig) -> None:
    # Without -u, -I or -S: as users start Python.
    rig.launch(sys.executable, "-c", "import time; print('epoch 1'); time.sleep(600)")
    rig.until_prints("epoch 1")


def test_the_job_can_ask_for_buffered_output(rig: Rig) -> None:
    rig.launch("sh", "-c", "echo [$PYTHONUNBUFFERED]", env={"PYTHONUNBUFFERED": ""})
    rig.ended()
    assert rig.output() == "[]\n"


def test_a_folder_for_checkpoints_is_there_and_stays_if_it_is_used(rig: Rig) -> None:
    kept = rig.state / "checkpoints" / "1"
    rig.launch("sh", "-c", "cd $FLYBALL_CHECKPOINT_DIR && exit 4")
    assert rig.ended()["exit_code"] == 4
    assert not kept.exists()
    rig.launch("sh", "-c", "echo 7 > $FLYBALL_CHECKPOINT_DIR/step", attempt=2)
    rig.ended(attempt=2)
    rig.launch("sh", "-c", "cat $FLYBALL_CHECKPOINT_DIR/step", attempt=3)
    rig.ended(attempt=3)
    assert (rig.output(attempt=3), (kept / "step").exists()) == ("7\n", True)


def test_folder_limits_niceness_and_descriptors(rig: Rig, tmp_path: Path) -> None:
    rig.python(
        "import json, os, resource, signal; print(json.dumps([os.getcwd(), os.nice(0),"
        " resource.getrlimit(resource.RLIMIT_CORE), sorted(os.listdir('/proc/self/fd')),"
        " os.read(0, 9).decode(), os.getpid() == os.getpgrp(), os.getsid(0) == os.getppid(),"
        " len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),"
        " open('/proc/self/status').read().split('SigIgn:')[1].split()[0]]))",
        cwd=str(tmp_path),
        nice=7,
    )
    rig.ended()
    folder, nice, core, files, typed, leads, supervised, blocked, ignored = json.loads(rig.output())
    assert folder == str(tmp_path)
    assert nice == os.nice(0) + 7
    assert core == [0, 0]
    assert set(files) <= {"0", "1", "2", "3"}  # 3: the list itself
    assert typed == ""
    assert leads
    assert supervised
    assert blocked == 0
    # Python itself ignores SIGPIPE (bit 12) and SIGXFSZ (bit 24), and nobody else anything.
    assert int(ignored, 16) & OURS & ~(1 << 12 | 1 << 24) == 0


def test_what_is_ignored_by_python_is_not_by_the_job(rig: Rig) -> None:
    rig.launch("sh", "-c", "grep SigIgn /proc/self/status")
    rig.ended()
    assert int(rig.output().split()[1], 16) & OURS == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_cores_are_those_of_the_mask(rig: Rig) -> None:
    cores = sorted(os.sched_getaffinity(0))
    text = "import os; print(sorted(os.sched_getaffinity(0)))"
    for job, mask in enumerate((1, 2, 3, 0), 1):
        rig.python(text, job=job, mask=mask)
        rig.ended(job=job)
    assert [json.loads(rig.output(job=job)) for job in range(1, 5)] == [
        cores[:1],
        cores[1:2],
        cores[:2],
        cores,
    ]


def test_accelerators_are_shown_by_uuid(tmp_path: Path) -> None:
    node = LiveNode("n", "V100", 3, 2, 1000, ("GPU-a", "GPU-b", "GPU-c"))
    rig = Rig(tmp_path, node)
    text = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], len(os.sched_getaffinity(0)))"
    rig.python(text, mask=0b101)
    rig.ended()
    assert rig.output() == f"GPU-a,GPU-c {len(os.sched_getaffinity(0))}\n"
    rig.close()


# How it ends -------------------------------------------------------------------------


def test_time_and_memory_are_counted(rig: Rig) -> None:
    text = "x = b'x' * (40 << 20)\nimport os\nwhile sum(os.times()[:2]) < 0.3: pass"
    rig.launch("sh", "-c", f'{sys.executable} -I -S -c "{text}"; true')
    end = rig.ended()
    assert 0.3 <= end["cpu_s"] < 5
    assert 40 < end["max_rss_mib"] < 120
    assert (end["exit_code"], end["signal"], end["why"], end["message"]) == (0, 0, "exit", "")
    assert "peak_mib" not in end, "of two processes together nobody knows it"


def test_the_memory_of_one_process_is_that_of_the_job(rig: Rig) -> None:
    rig.python("x = b'x' * (40 << 20)")
    end = rig.ended()
    assert (end["peak_mib"], end["peak_by"]) == (end["max_rss_mib"], "process")


def test_a_child_that_is_left_behind_counts(rig: Rig) -> None:
    """Only the supervisor reaps it."""
    rig.launch("sh", "-c", "sleep 60 &")
    assert "peak_mib" not in rig.ended()


FOUR = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        x = b'x' * (40 << 20)
        time.sleep(3)
        os._exit(0)
for _ in range(4): os.wait()
"""


def test_what_a_limit_counts_is_recorded(rig: Rig) -> None:
    """The limit counts the sum over parallel workers, and so does the recorded peak."""
    rig.python(FOUR, memory_mib=1000)
    end = rig.ended()
    assert end["why"] == "exit"
    assert end["max_rss_mib"] < 100
    assert 160 <= end["peak_mib"] < 400
    assert end["peak_by"] in ("group", "looks")


def test_ended_by_a_signal(rig: Rig) -> None:
    rig.launch("sh", "-c", "kill -SEGV $$")
    end = rig.ended()
    assert (end["exit_code"], end["signal"], end["why"]) == (139, 11, "exit")


@pytest.mark.parametrize(
    ("argv", "cwd", "message"),
    [
        (("no-such-program-here",), "/", "could not start: no-such-program-here: no such file"),
        (("/etc/passwd",), "/", "could not start: /etc/passwd: permission denied"),
        (("true",), "/no/such/folder", "could not start: folder /no/such/folder: no such file"),
        (("true", "a\0b"), "/", "embedded null byte"),
    ],
)
def test_what_cannot_be_started(rig: Rig, argv: tuple[str, ...], cwd: str, message: str) -> None:
    rig.launch(*argv, cwd=cwd)
    end = rig.ended()
    assert (end["why"], end["exit_code"]) == ("boot", 127)
    assert message in end["message"]
    assert message in rig.output()
    assert [report.what for report in rig.seen] == ["ended"]  # it never started


def test_the_path_of_the_job_is_searched(rig: Rig, tmp_path: Path) -> None:
    tool = tmp_path / "only-here"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o700)
    rig.launch("only-here", env={"PATH": f"/bin:{tmp_path}"})
    assert rig.ended()["exit_code"] == 0
    assert rig.output() == "found\n"


def test_an_output_that_cannot_be_made(rig: Rig) -> None:
    rig.launch("true", stdout="/no/such/folder/out")
    end = rig.ended()
    assert (end["why"], end["exit_code"]) == ("boot", 127)
    assert "'/no/such/folder/out': No such file" in end["message"]


def test_time_limit(rig: Rig) -> None:
    rig.launch("sleep", "3600", limit_s=0.2)
    end = rig.ended()
    assert (end["why"], end["signal"]) == ("limit", 15)
    assert end["message"] == "reached its limit of 0.2 s"


def test_grace_then_kill(rig: Rig) -> None:
    rig.python(
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True)\n"
        "while True: time.sleep(3600)",
        grace_s=0.2,
    )
    rig.until_prints("ready")
    rig.stop()
    begun = rig.report("started").time_us
    ended = rig.report("ended")
    assert (ended.values["why"], ended.values["signal"]) == ("stopped", 9)
    assert ended.time_us - begun >= 200_000


def test_signal_before_the_time_limit(rig: Rig) -> None:
    text = SAY_SIGNALS.format(last=int(signal.SIGTERM))
    early = {"checkpoint_signal": int(signal.SIGUSR1), "signal_before_s": 1e6}
    rig.python(text, limit_s=1e6 + 5, **early)
    rig.until_prints("ready")
    rig.until_prints("SIGUSR1")
    assert rig.output() == "ready\nSIGUSR1\n"  # and it runs on, towards its limit
    rig.stop()
    assert rig.ended()["why"] == "stopped"
    assert rig.output() == "ready\nSIGUSR1\nSIGTERM\n"


def test_signal_before_the_limit_goes_to_the_programs_of_a_script(rig: Rig) -> None:
    program = SAY_SIGNALS.format(last=int(signal.SIGUSR1))
    script = f"trap 'echo shell' USR1; {sys.executable} -I -S -c '{program}'; echo over"
    early: dict[str, Any] = {"checkpoint_signal": signal.SIGUSR1, "signal_before_s": 1e6}
    rig.launch("sh", "-c", script, limit_s=1e6 + 5, signal_children=True, **early)
    assert rig.ended()["exit_code"] == 0
    assert rig.output() == "ready\nSIGUSR1\nover\n"


def test_no_signal_before_the_limit_unless_asked_for(rig: Rig) -> None:
    number = int(signal.SIGUSR1)
    rig.python(SAY_SIGNALS.format(last=15), limit_s=2.0, checkpoint_signal=number)
    assert rig.ended()["why"] == "limit"
    assert "SIGUSR1" not in rig.output()


def test_cancel_sends_no_checkpoint_signal(rig: Rig) -> None:
    rig.python(SAY_SIGNALS.format(last=15), checkpoint_signal=int(signal.SIGUSR1))
    rig.until_prints("ready")
    rig.stop("cancel")
    end = rig.ended()
    assert (end["why"], end["exit_code"]) == ("stopped", 0)
    assert rig.output() == "ready\nSIGTERM\n"


def test_preempt_asks_for_a_checkpoint_first(rig: Rig) -> None:
    rig.python(SAY_SIGNALS.format(last=15), checkpoint_signal=int(signal.SIGUSR1), grace_s=0.3)
    rig.until_prints("ready")
    rig.stop("preempt")
    rig.stop("preempt")  # asked twice, done once
    assert rig.ended()["why"] == "stopped"
    assert rig.output() == "ready\nSIGUSR1\nSIGTERM\n"


def test_preempt_waits_no_longer_than_needed(rig: Rig) -> None:
    rig.python(SAY_SIGNALS.format(last=10), checkpoint_signal=int(signal.SIGUSR1), grace_s=60.0)
    rig.until_prints("ready")
    rig.stop("preempt")
    assert rig.ended()["exit_code"] == 0
    assert rig.output() == "ready\nSIGUSR1\n"


def test_cancel_shortens_a_preemption(rig: Rig) -> None:
    rig.python(SAY_SIGNALS.format(last=15), checkpoint_signal=int(signal.SIGUSR1), grace_s=60.0)
    rig.until_prints("ready")
    rig.stop("preempt")
    rig.until_prints("SIGUSR1")
    rig.stop("cancel")
    rig.ended()
    assert rig.output() == "ready\nSIGUSR1\nSIGTERM\n"


def test_the_whole_group_has_its_grace(rig: Rig) -> None:
    """A shell dies at once; what it started may still save its work."""
    inner = (
        "import os, signal, time\n"
        "def end(*_): time.sleep(0.3); os.write(1, b'saved ' * 2); os._exit(0)\n"
        "signal.signal(15, end); os.write(1, b'ready ')\n"
        "while True: time.sleep(3600)"
    )
    rig.launch("sh", "-c", f'{sys.executable} -I -S -c "{inner}"; true', grace_s=20.0)
    rig.until_prints("ready")
    rig.stop()
    assert rig.ended()["why"] == "stopped"
    assert rig.output() == "ready saved saved "


def test_a_stopped_process_hears_sigterm(rig: Rig) -> None:
    rig.launch("sh", "-c", "kill -STOP $$", grace_s=60.0)
    pid = rig.claim().child
    until(lambda: "T (stopped)" in Path(f"/proc/{pid}/status").read_text())
    rig.stop()
    assert rig.ended()["signal"] == 15


def test_daemons_end_with_the_job(rig: Rig) -> None:
    """A process that left session, group and parent is still the supervisor's to end."""
    rig.python(
        "import os, time\n"
        "hear, tell = os.pipe()\n"
        "if os.fork(): os.write(1, os.read(hear, 20)); os._exit(4)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "os.closerange(0, 3); os.write(tell, str(os.getpid()).encode()); time.sleep(3600)",
    )
    assert rig.ended()["exit_code"] == 4
    assert gone(int(rig.output()))


def test_daemons_that_fork_on_end_with_the_job(rig: Rig) -> None:
    rig.launch(
        "sh", "-c", "for i in 1 2 3; do setsid sh -c 'while :; do sleep 60 & wait; done' & done"
    )
    child = rig.claim().child
    rig.ended()
    assert gone(child)
    assert rig.processes() == []


def test_memory_limit_by_group_or_by_watching(rig: Rig) -> None:
    rig.python("x = b'x' * (300 << 20); import time; time.sleep(3600)", memory_mib=100)
    end = rig.ended()
    assert (end["why"], end["signal"]) == ("memory", 9)
    assert "its limit of 100 MiB" in end["message"]


def test_memory_limit_that_is_kept(rig: Rig) -> None:
    rig.python("x = b'x' * (30 << 20)", memory_mib=200)
    assert rig.ended()["why"] == "exit"


def test_log_of_another_history_is_set_aside(rig: Rig) -> None:
    """After a journal was restored the same attempt may be launched a second time."""
    path = rig.state / "logs" / "1.1.out"
    path.write_text("of a history that is no longer told\n")
    rig.launch("echo", "new")
    rig.ended()
    assert path.read_text() == "new\n"
    assert path.with_name("1.1.out.before-restore").exists()
