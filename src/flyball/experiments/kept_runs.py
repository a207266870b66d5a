"""Runs tasks in worker processes, except those whose results a file has already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flyball.experiments.run_file import RunFile
from flyball.experiments.workers import Runner, Workers


def run_kept(
    runner: Runner[Any],
    keys: Mapping[Any, str],
    runs: RunFile | None,
    done: Callable[[Any], None],
    workers: int | None = None,
) -> dict[Any, Any]:
    """Return the result of every task, from the file or run now.

    Args:
        runner: runs a task, in this process or another.
        keys: tasks, each with a key built from all that its result depends on.
        runs: has the results of earlier attempts, and gets the others; None = none are kept.
        done: receives each task whose result is there.
        workers: processes at most; None = as many as cores.
    """
    kept = {} if runs is None else runs.records
    results = {task: kept[key]["result"] for task, key in keys.items() if key in kept}
    for task in results:
        done(task)
    with Workers(runner, workers) as crew:
        for task, result in crew.run([task for task in keys if task not in results]):
            results[task] = result
            if runs is not None:
                runs.append({"key": keys[task], "task": list(task), "result": result})
            done(task)
    return {task: results[task] for task in keys}
