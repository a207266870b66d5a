"""`flyball demo live`: runs a dozen small training programs through a running server."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.formats import Job, clean, count_text, counts_by_state, soon_text, start_text
from flyball.cli.jobs import receipt, why
from flyball.cli.jobs.job_file import Draft
from flyball.cli.jobs.sbatch import array_tasks
from flyball.cli.jobs.submit import send
from flyball.cli.live import State, connected
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table
from flyball.cli.server.demo_virtual import virtual_demo
from flyball.cli.server.open import open_dashboard
from flyball.core.errors import BadInput, FlyballError
from flyball.core.jobs import JobState
from flyball.core.units import duration_text

if TYPE_CHECKING:
    from flyball.sdk.client import Client

EXAMPLES = """\b
Examples:
  flyball up &
  flyball demo live
  flyball demo live --scale 0.3
  flyball demo live --open                 (and look at it in a browser)
  flyball up --engine twin --cluster virtual-1000 &
  flyball demo live --open                 (1,000 virtual nodes, busy for ten minutes)
  flyball demo live --json
\b
The programs are in src/flyball/data/live_demo.
"""

PROGRAMS = "flyball.data.live_demo"
POLL_S = 0.2
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Variables that keep linear algebra to one thread; by default it would use every core."""
COLUMNS = ("job", "name", "class", "state", "last line it printed", "waited", "ran")


def demo_live(
    scale: Annotated[
        float, typer.Option(help="Length of the jobs; 1 = about 3 to 15 s each on an idle core.")
    ] = 1.0,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the dashboard, to watch them there.")
    ] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Submit a dozen small training jobs, watch the queue, ask why, predict, show a receipt."""
    if not 0.01 <= scale <= 100:
        raise BadInput(f"--scale {scale:g} is out of range", "use 0.01 to 100")
    if open_page:
        open_dashboard(state=state)
    with connected(state) as client:
        if len(client.nodes()) > 1:  # virtual ones, which run no programs
            outcome = virtual_demo(client, scale, note if as_json else typer.echo)
            if as_json:
                print_json(outcome)
            return
    with connected(state) as client, tempfile.TemporaryDirectory(prefix="flyball-demo-") as work:
        cores = max((int(node["cpus"]) for node in client.nodes()), default=1)
        drafts = jobs_of(Path(work), scale, cores)
        began = time.monotonic()
        ids = [job_id for job_ids in send(client, drafts) for job_id in job_ids]
        try:
            outcome = _follow(client, ids, began, note if as_json else typer.echo)
        except BaseException:
            _cancel(client, ids)
            raise
        outcome["seconds"] = time.monotonic() - began
    if as_json:
        print_json(outcome)
    else:
        _print_end(outcome)
    failed = [job for job in outcome["jobs"] if job["state"] != JobState.COMPLETED]
    if failed:
        raise DemoFailed(
            f"{count_text(len(failed), 'job')} did not complete", f"flyball logs {failed[0]['id']}"
        )


class DemoFailed(FlyballError):
    """A job of the demonstration did not complete."""

    exit_code = 1


# What is submitted -----------------------------------------------------------------


def jobs_of(work: Path, scale: float, cores: int) -> list[Draft]:
    """Return jobs of the five classes: an array, a chain, a gang and two of high priority.

    Args:
        work: folder for the files of the chain.
        scale: length of the jobs, relative to the default.
        cores: cores of the largest node; the gang takes two if there are two.
    """
    data, weights = work / "data.npz", work / "weights.npz"
    gang = min(2, cores)

    def job(
        name: str, program: str, kind: str, *arguments: str, estimate_s: float, **more: Any
    ) -> Draft:
        values = {
            "argv": [sys.executable, "-m", f"{PROGRAMS}.{program}", *arguments],
            "name": name,
            "kind": kind,
            "cwd": str(work),
            "env": ONE_THREAD,
            "estimate_s": max(1.0, estimate_s * scale),
            **more,
        }
        return Draft(values)

    def size(count: int) -> str:
        return str(max(2, round(count * scale)))

    compute, memory, latency = "compute-intensive", "memory-bound", "latency-sensitive"
    bandwidth, mixed = "bandwidth-limited", "mixed"
    sweep = job("sweep", "mlp", compute, "--steps", size(900), estimate_s=5)
    sweep.tasks = array_tasks("0-3%2")
    train = job(
        "train", "mlp", compute, "--steps", size(1200), "--data", str(data), "--out", str(weights),
        estimate_s=7,
    )  # fmt: skip
    train.after = [("afterok", "prepare")]
    evaluate = job(
        "evaluate", "evaluate", compute, str(weights), "--rounds", size(60), estimate_s=4
    )
    evaluate.after = [("afterok", "train")]
    return [
        job("prepare", "prepare", mixed, str(data), "--parts", size(16), estimate_s=3),
        sweep,
        train,
        evaluate,
        job("embedding", "embedding", memory, "--steps", size(400), estimate_s=7),
        job("stream", "stream", bandwidth, "--passes", size(120), estimate_s=7),
        job("ranking", "ranking", mixed, "--steps", size(1000), estimate_s=7),
        job(
            "gang",
            "gang",
            compute,
            "--steps",
            size(800),
            "--members",
            str(gang),
            estimate_s=6,
            cpus=gang,
        ),
        job("serve-a", "serve", latency, "--requests", size(1800), estimate_s=5, priority=10.0),
        job("serve-b", "serve", latency, "--requests", size(1800), estimate_s=5, priority=10.0),
    ]


# Following -------------------------------------------------------------------------


def _follow(
    client: Client, ids: Sequence[int], began: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Watch the jobs until all have ended; return everything worth reporting, by name."""
    say(f"Submitted {count_text(len(ids), 'job')}: {min(ids)} to {max(ids)}.")
    forecasts = _forecasts(client, ids, began)
    asked, answer, would = _ask(client, ids, say)
    asked_s = time.monotonic() - began
    states: dict[int, str] = {}
    while True:
        for line in changes(_moved(client, ids, states), states, time.monotonic() - began):
            say(line)
        if all(states.get(job_id) in FINAL for job_id in ids):
            break
        time.sleep(POLL_S)
    ended = [client.job(job_id) for job_id in ids]
    last_lines = {job["id"]: _last_line(client, job) for job in ended}
    by_name = {job["name"]: job for job in ended}
    chosen = by_name.get("train", ended[0])
    started = next((job for job in ended if job["id"] == asked), None)
    waited_s = None
    if started is not None and started["start_time"] is not None:
        waited_s = started["start_time"] - started["submit_time"] - asked_s
    return {
        "jobs": [{**job, "last_line": last_lines[job["id"]]} for job in ended],
        "why": answer,
        "dry_run": would,
        "forecasts": forecasts,
        "prediction": {
            "id": asked,
            "p50_s": answer.get("p50_s"),
            "p90_s": answer.get("p90_s"),
            "actual_s": None if waited_s is None else max(0.0, waited_s),
        },
        "receipt": {**client.receipt(chosen["id"]), "id": chosen["id"]},
    }


FINAL = tuple(str(job_state) for job_state in JobState if job_state.final)


def _forecasts(client: Client, ids: Sequence[int], began: float) -> dict[str, dict[str, float]]:
    """Return predicted starts of waiting jobs, and when after the submission they were made."""
    asked_s = time.monotonic() - began
    starts = client.forecast()["starts"]
    return {
        str(start["id"]): {"p50_s": start["p50_s"], "p90_s": start["p90_s"], "asked_s": asked_s}
        for start in starts
        if start["id"] in ids and start["p90_s"] > 0
    }


def started_in_time(outcome: Mapping[str, Any]) -> tuple[int, int]:
    """Count the jobs with a forecast, and those that started within their p90."""
    kept, judged = 0, 0
    for job in outcome["jobs"]:
        forecast = outcome["forecasts"].get(str(job["id"]))
        if forecast is not None and job["start_time"] is not None:
            judged += 1
            wait_s = job["start_time"] - job["submit_time"]
            kept += wait_s <= forecast["asked_s"] + forecast["p90_s"]
    return judged, kept


def _ask(
    client: Client, ids: Sequence[int], say: Callable[[str], None]
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Ask why the last job in the queue waits, and when one more job would start."""
    waiting = [job for job in client.queue() if job["id"] in ids and job["state"] == "PENDING"]
    asked = waiting[-1] if waiting else client.job(ids[-1])
    answer = client.why(asked["id"])
    say(f"$ flyball why {asked['label']}")
    for line in why.lines(answer):
        say(line)
    would = client.dry_run({"argv": [sys.executable, "-V"], "estimate_s": 5.0})
    if would.get("p50_s") is not None:
        say(f"One more such job of one core would start {soon_text(would['p50_s'])}.")
    return int(asked["id"]), answer, would


def _moved(client: Client, ids: Sequence[int], states: Mapping[int, str]) -> list[Job]:
    """Return the unfinished jobs; those that just ended come first, since they made room."""
    active: dict[int, Job] = {job["id"]: job for job in client.queue()}
    left = [job_id for job_id in ids if states.get(job_id) not in FINAL]
    ended: list[Job] = [client.job(job_id) for job_id in left if job_id not in active]
    return ended + [active[job_id] for job_id in left if job_id in active]


def changes(jobs: Sequence[Job], states: dict[int, str], at_s: float) -> Iterator[str]:
    """Yield a line for each job whose state changed, and update `states`."""
    for job in jobs:
        before, states[job["id"]] = states.get(job["id"]), job["state"]
        if job["state"] != (before or JobState.PENDING):
            counts = counts_by_state([{"state": job_state} for job_state in states.values()])
            now = ", ".join(f"{count} {state.lower()}" for state, count in counts.items())
            head = f"{at_s:6.1f} s  {job['label']:>6} {job['name']:10}"
            yield f"{head} {job['state']:10} {now}"


def _last_line(client: Client, job: Job) -> str:
    if not job["attempts"]:
        return ""
    from flyball.sdk.errors import ApiError

    try:
        text = b"".join(client.logs(job["id"], tail=1)).decode("utf-8", "replace")
    except ApiError:  # it printed nothing
        return ""
    return clean(text)


def _cancel(client: Client, ids: Sequence[int]) -> None:
    """Cancel all jobs if the server still answers."""
    from flyball.sdk.errors import ApiError

    note("cancelling the jobs of the demonstration")
    with suppress(ApiError):
        for job_id in ids:
            client.cancel(job_id)


def _print_end(outcome: Mapping[str, Any]) -> None:
    rows = [
        (
            str(job["label"]), clean(job["name"]), clean(job["spec"].get("kind", "")),
            str(job["state"]), job["last_line"], _span(job, "submit_time", "start_time"),
            _span(job, "start_time", "end_time"),
        )
        for job in outcome["jobs"]
    ]  # fmt: skip
    print_table("", COLUMNS, rows, 5)
    prediction = outcome["prediction"]
    if prediction["p50_s"] is not None and prediction["actual_s"] is not None:
        typer.echo(
            f"Job {prediction['id']} was expected to start {start_text(prediction)}; "
            f"it took {duration_text(prediction['actual_s'])}."
        )
    judged, kept = started_in_time(outcome)
    if judged:
        typer.echo(f"{kept} of {count_text(judged, 'job')} that waited started within their p90.")
    typer.echo(f"$ flyball receipt {outcome['receipt']['label']}")
    for line in receipt.lines(outcome["receipt"]):
        typer.echo(line)
    typer.echo(f"All done in {duration_text(outcome['seconds'])}.")


def _span(job: Job, first: str, last: str) -> str:
    if job[first] is None or job[last] is None:
        return "-"
    return duration_text(job[last] - job[first])
