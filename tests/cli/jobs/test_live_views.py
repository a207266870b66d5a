"""Output of `show`, `why`, `receipt` and `nodes`, and errors of live commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.jobs.test_queue import job

from flyball.cli.formats import clock_text, moment_text, size_text, soon_text, start_text
from flyball.cli.jobs import cancel, logs, receipt, show, why
from flyball.cli.jobs.sensor_text import uses_text
from flyball.cli.main import run
from flyball.cli.server import nodes
from flyball.cli.top import command as top

ANSWER: dict[str, Any] = {
    "state": "PENDING",
    "token": "no-free-devices",
    "sentence": "Needs 2 of the 2 devices; none is free.",
    "numbers": {"devices": 2},
    "remedies": ["Wait, or ask for fewer."],
    "ahead": ["3", "10_1"],
    "ahead_count": 5,
    "p50_s": 40.0,
    "p90_s": 90.0,
    "method": "stated estimates",
    "counterfactuals": [{"change": "on 1 core instead of 2", "p50_s": 0.2}],
}


def test_why() -> None:
    assert list(why.lines(job(7) | ANSWER)) == [
        "7 job7: PENDING",
        "  no-free-devices: Needs 2 of the 2 devices; none is free.",
        "  Expected to start in 40 s, 9 times out of 10 within 90 s (stated estimates).",
        "  Ahead of it: 5 jobs: 3, 10_1 and 3 more.",
        "  Wait, or ask for fewer.",
        "  What if: on 1 core instead of 2: in less than 1 s.",
    ]


def test_why_of_a_job_that_does_not_wait() -> None:
    blank: dict[str, Any] = {"remedies": [], "ahead": [], "ahead_count": 0, "counterfactuals": []}
    answer = {"state": "RUNNING", "token": "does-not-wait", "sentence": "Job 7 is running."}
    said = list(why.lines(job(7, "RUNNING") | {**answer, **blank, "p50_s": None}))
    assert said == ["7 job7: RUNNING", "  does-not-wait: Job 7 is running."]


def test_receipt() -> None:
    content = {
        "run_s": 12.0,
        "wait_s": 0.5,
        "attempts": 1,
        "device_hours": 0.00667,
        "cpu_s": 24.0,
        "max_rss_mib": 180.4,
        "peak_mib": 180.4,
        "peak_by": "process",
        "energy_j": 480.0,
        "energy_source": "modelled",
        "cost": 0.0025,
        "currency": "EUR",
        "carbon_g": 0.05,
        "suggestion": {"cpus": 1, "text": "next time: -c 1"},
    }
    assert list(receipt.lines(job(7, "COMPLETED") | content)) == [
        "7 job7: COMPLETED",
        "  waited       0.5 s",
        "  ran          12 s in 1 attempt",
        "  cores        0.00667 core-hours",
        "  cpu          24 s",
        "  memory       180M at most",
        "  energy       480 J, modelled",
        "  cost         0.0025 EUR",
        "  carbon       0.05 g CO2",
        "  next time: -c 1",
    ]
    little: dict[str, Any] = {"run_s": 0, "wait_s": 0, "attempts": 2, "device_hours": 0}
    little |= {"energy_j": 7.2e6, "energy_source": "measured", "cost": 0, "suggestion": None}
    little["energy_note"] = "device counters"
    assert list(receipt.lines(job(7) | little))[2:] == [
        "  ran          0 s in 2 attempts",
        "  cores        0 core-hours",
        "  energy       2 kWh, measured: device counters",
    ]


@pytest.mark.parametrize(
    ("peak", "said"),
    [
        ({"peak_mib": 4096.0, "peak_by": "looks"}, "4.0G at most, all processes"),
        ({"peak_mib": 4096.0, "peak_by": "group"}, "4.0G at most, all processes and cached files"),
        (
            {"peak_mib": 1024.0, "peak_by": "at_least"},
            "at least 1.0G; it ran too briefly for all its processes to be seen together",
        ),
    ],
)
def test_whose_memory_it_was(peak: dict[str, Any], said: str) -> None:
    content = {
        "run_s": 1,
        "wait_s": 0,
        "attempts": 1,
        "device_hours": 0,
        "max_rss_mib": 1024,
        **peak,
    }
    assert f"  memory       {said}" in list(receipt.lines(job(7) | content))


def test_show() -> None:
    spec = {
        "argv": ["python", "-c", "print('a b')"],
        "cwd": "/data",
        "milli": 250,
        "limit_s": 5400.0,
        "estimate_s": 60.0,
        "priority": 2.0,
        "kind": "mixed",
        "after": [["afterok", 3]],
        "stdout": "/data/out.txt",
    }
    shown = job(
        7, "FAILED", spec=spec, gpus=1, memory_mib=2048, tenant="vision", attempts=2, exit_code=3,
        end_time=1070.0, progress={"step": 40, "loss": 0.3125, "note": "a\nb"}, reason="oops",
    )  # fmt: skip
    facts = dict(show.facts(shown, 2000.0, {}))
    assert facts["command"] == """python -c 'print('"'"'a b'"'"')'"""
    assert facts["owner"] == "ada of vision"
    assert facts["asks for"] == (
        "1 core, 1 GPU x 0.25, 2.0G of memory, at most 1:30:00, about 1:00, priority 2, mixed"
    )
    assert facts["after"] == "afterok 3"
    assert facts["reason"] == "oops"
    assert facts["started"].endswith(", 2 attempts")
    assert facts["time"] == "1:00"
    assert facts["ended"].endswith(", exit code 3")
    assert facts["progress"] == "step 40, loss 0.3125, note a b"
    assert facts["output"] == "/data/out.txt"
    killed = dict(show.facts({**shown, "signal": 9}, 2000.0, {}))
    assert killed["ended"].endswith(", by SIGKILL")
    waiting = dict(show.facts(job(8, user=""), 2000.0, {}))
    assert set(waiting) == {"command", "folder", "asks for", "submitted"}


def test_what_a_job_uses_now() -> None:
    sensors = {
        "jobs.7.cpu_s_per_s": 1.84,
        "jobs.7.memory_bytes": 3.2 * 2**30,
        "jobs.70.processes": 2,
    }
    facts = dict(show.facts(job(7, "RUNNING"), 2000.0, sensors))
    assert facts["uses now"] == "1.8 cores, 3.2G"
    assert "uses now" not in dict(show.facts(job(70, "RUNNING"), 2000.0, sensors))
    assert uses_text({"jobs.7.cpu_s_per_s": None, "jobs.7.memory_bytes": 0}, 7) == "0M"


def test_nodes() -> None:
    node = {
        "name": "vm", "up": True, "state": "up", "device": "CPU1", "devices": 16, "used": 14,
        "cpus": 16, "memory_mib": 24064, "jobs": [1, 1, *range(2, 15)],
    }  # fmt: skip
    assert nodes.cells(node) == (
        *("vm", "up", "CPU1", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more"),
        *("14", "16", "16", "23.5G"),
    )
    assert nodes.cells({**node, "up": False, "state": "down"})[1] == "down"


def test_words_for_times() -> None:
    assert [clock_text(value) for value in (None, 3, 303, 7503, 93_903)] == [
        *("-", "0:03", "5:03", "2:05:03", "1-02:05:03")
    ]
    assert moment_text(None) == "-"
    assert len(moment_text(1.7e9)) == 19
    assert [size_text(value) for value in (None, 0, 5, 2048)] == ["-", "-", "5M", "2.0G"]
    assert [soon_text(value) for value in (0, 0.4, 12)] == ["now", "in less than 1 s", "in 12 s"]
    assert start_text({"p50_s": 3.0, "p90_s": None}) == "in 3 s"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["show", "x"], "'x' is not a job number; see flyball queue --all"),
        (["why", "0"], "'0' is not a job number"),
        (["receipt", "12_"], "'12_' is not a job number"),
        (["logs", "../1"], "'../1' is not a job number"),
        (["logs", "1", "-f", "--json"], "--follow and --json do not go together"),
        (["logs", "1", "--tail", "-2"], "--tail -2 is out of range"),
        (["logs", "1", "--attempt", "-2"], "--attempt -2 is out of range"),
        (["cancel"], "no job to cancel; name its number, or use --name, --user or --all"),
        (["cancel", "1", "--all"], "use one of the two"),
        (["top", "--json"], "--json needs --once"),
        (["top", "--every", "0"], "--every 0 is out of range"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], arguments: list[str], why: str) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert why in printed.err


@pytest.mark.parametrize(
    "arguments",
    [["queue"], ["show", "1"], ["logs", "1"], ["why", "1"], ["receipt", "1"], ["nodes"],
     ["cancel", "1"], ["top", "--once"]],
)  # fmt: skip
def test_no_server(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]
) -> None:
    assert run([*arguments, "--state", str(tmp_path)]) == 75
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "flyball: no control plane is running; start one with `flyball up`\n"


@pytest.mark.parametrize("module", [cancel, logs, nodes, receipt, show, top, why])
def test_help_has_examples(capsys: pytest.CaptureFixture[str], module: Any) -> None:
    name = "top" if module is top else module.__name__.rpartition(".")[2]
    assert run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"  flyball {name}" in shown
    assert "--json" in shown
    assert "--state" in shown
