"""`flyball.replay`: replays a trace on a cluster under one or more policies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flyball.core.errors import BadInput, whole_number
from flyball.experiments.own_policy.call import OwnPolicy
from flyball.experiments.own_policy.settings import given_policies, knob_settings
from flyball.experiments.replay import ReplayCase, Run, run_all
from flyball.experiments.request import Reading, ReplayOptions, prepare
from flyball.experiments.tuning.options import DEFAULT_POLICY, TuningOptions
from flyball.notebook.inputs import as_cluster, as_trace, python_errors
from flyball.notebook.result import Replay
from flyball.notebook.table import check_choice

ALL = "all"


def replay(
    trace: Any,
    cluster: Any,
    policies: Any = None,
    *,
    tune: str | Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    estimates: str = "trace",
    load: float | None = None,
    limit_jobs: int | None = None,
    recorded_on: str = "",
    format: str | None = None,
    static_batch: bool = False,
    skip_unfit: bool = False,
    record: bool = True,
    mtbf_h: float = 0.0,
    repair_h: float = 4.0,
    checkpoint_s: float = 0.0,
    checkpoint_every_s: float = 0.0,
    restart_s: float | None = None,
    tune_every: float | None = None,
    tune_set: Mapping[str, Any] | None = None,
    optimise: bool = False,
    elastic_share: float | None = None,
    adaptive_batch: bool = False,
    share_limit: int | None = None,
    speed_error: float | None = None,
    pathways: str | None = None,
    keep: str = "all",
    workers: int = 1,
    progress: bool = False,
) -> Replay:
    """Replay a trace on a cluster's twin and compare policies, as `flyball replay` does.

    Args:
        trace: a file; a workload; a workload per seed; or rows: a dict of columns, a list of dicts
            or a data frame with `submit_s`, `duration_s`, `num_gpus`, ... as in a trace file.
        cluster: a file, a preset's name, a `Cluster`, or the content of a cluster file.
        policies: one or several. Each is a name (`"easy"`, `"fifo,easy"`, `"all"`), a file
            (`"mypolicy.py"`), a class or an instance with `decide(state, outlook)`, a function
            `(state, outlook)`, or knobs (`{"order": "area"}`). Default: all; with tuners: easy.
        tune: also run each policy with these tuners: `"elastic,power"` or a list.
        settings: knobs that are changed for every policy: `{"depth": 100}`.
        seeds: runs per policy. Default: 1, or one per workload.
        estimates: the run times that policies see: `"trace"`, `"exact"` or `"noisy:0.5"`.
        load: stretch or compress arrivals to this load.
        limit_jobs: take only the first jobs.
        recorded_on: device type on which jobs were recorded that name none.
        format: of the trace file; None = detect it.
        static_batch: read jobs of a Gavel trace that grow their batch as if it were fixed.
        skip_unfit: leave out jobs that fit on no node; else such a job is an error.
        record: compare with the starts that the trace recorded.
        mtbf_h, repair_h: hours between failures of a node (0 = none), and to repair one.
        checkpoint_s, checkpoint_every_s, restart_s: seconds to write a checkpoint, between two
            (0 = none), and to set up a restart (None = by gang size).
        tune_every: seconds between two rounds of the tuners.
        tune_set: settings of tuners: `{"elastic.eta": 0.7}`.
        optimise: let power caps slow jobs only as far as they save what was predicted.
        elastic_share, adaptive_batch, share_limit, speed_error, pathways: as in
            `flyball replay --help`.
        keep: of which seeds the jobs' results are kept, `"all"` or `"first"`.
        workers: processes at most; 0 = one per core. Scripts that use more than one must guard
            their main part by `if __name__ == "__main__":`.
        progress: show on stderr how many runs are done.

    Returns:
        The result; see `Replay`.

    Raises:
        FlyballError: something that cannot be run; the message has a remedy.
    """
    with python_errors():
        check_choice(keep, ("all", "first"), "keep")
        whole_number(workers, "--workers", 0, 1024)
        tuning = TuningOptions(
            tune=_joined(tune),
            every_s=tune_every,
            settings=tuple(f"{name}={value}" for name, value in (tune_set or {}).items()),
            feedback=optimise,
            elastic_share=elastic_share,
            adaptive_batch=adaptive_batch,
            share_limit=share_limit,
            speed_error=speed_error,
            pathways=pathways,
        )
        given = as_trace(trace)
        options = ReplayOptions(
            Reading(format, load, limit_jobs, estimates, recorded_on, static_batch),
            tuning,
            seeds if seeds is not None else len(given) if isinstance(given, list) else 1,
            *(mtbf_h, repair_h, checkpoint_s, checkpoint_every_s, restart_s, skip_unfit, record),
            keep,
        )
        if policies is None:
            policies = DEFAULT_POLICY if tuning.tuned or pathways else ALL
        chosen = given_policies(policies, knob_settings(settings or {}))
        case, arms = prepare(given, as_cluster(cluster), chosen, options, policies != ALL)
        if workers != 1:
            _check_travel(case)
        runs = run_all(case, workers or None, _counter(case) if progress else None, _say)
    return Replay(case, runs, arms)


def _joined(tune: str | Sequence[str] | None) -> str | None:
    return tune if tune is None or isinstance(tune, str) else ",".join(tune)


def _check_travel(case: ReplayCase) -> None:
    """Refuse policies that other processes cannot load, before anything is run."""
    for policy in case.policies:
        if isinstance(policy.decider, OwnPolicy) and not policy.decider.can_travel:
            raise BadInput(
                f"policy {policy.name} is defined here and cannot be sent to other processes",
                f"put it into a file and give its name, e.g. '{policy.name}.py', or workers=1",
            )


def _counter(case: ReplayCase) -> Callable[[Run], None]:
    """Return a function that rewrites one line on stderr as runs end."""
    total, done = len(case.tasks()), 0

    def advance(run: Run) -> None:
        nonlocal done
        done += 1
        end = "\n" if done == total else ""
        sys.stderr.write(f"\rreplaying: {done} of {total} done ({run.policy})\x1b[K{end}")
        sys.stderr.flush()

    return advance


def _say(text: str) -> None:
    """Say on stderr what takes long before the first run: the first use compiles the kernel."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
