"""`flyball watch slurm`: start times, reasons and what-ifs for a site's own Slurm queue."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import check_writable, note, print_json, whole_number
from flyball.core.errors import BadInput, DataAbsent, UnknownName

if TYPE_CHECKING:
    from flyball.engines.slurm.poll import Poller, Reading, Site
    from flyball.watch.adviser import Advice, Adviser

EXAMPLES = """\b
Examples:
  flyball watch slurm                                  a table, until interrupted
  flyball watch slurm --once
  flyball watch slurm --once --json
  flyball watch slurm --why 1234
  flyball watch slurm --why 1234 --if gpus=4
  flyball watch slurm --metrics 9273
  flyball watch slurm --write-cluster site.yaml
\b
It runs squeue, scontrol show and sacct as you, and changes nothing: see docs/guide/slurm.md.
"""
NEXT_POLL_S = 1.0
"""Time after which a frame is drawn again even if no poll has ended, so that its age is true."""


def slurm(
    once: Annotated[bool, typer.Option("--once", help="Read the queue once and exit.")] = False,
    every_s: Annotated[
        float, typer.Option("--every", help="Minimum number of seconds between two polls.")
    ] = 10.0,
    why: Annotated[
        str, typer.Option("--why", metavar="JOBID", help="Explain why this job waits, and exit.")
    ] = "",
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--if", metavar="NAME=VALUE", help="With --why: its start with gpus=, cpus= or time=."
        ),
    ] = None,
    partition: Annotated[
        str, typer.Option("--partition", "-p", help="Show only the jobs of this partition.")
    ] = "",
    user: Annotated[str, typer.Option("--user", "-u", help="Show only this user's jobs.")] = "",
    history_days: Annotated[
        float, typer.Option(help="Days of sacct's history to learn run times from; 0 = none.")
    ] = 14.0,
    metrics: Annotated[
        int, typer.Option(metavar="PORT", help="Serve Prometheus metrics on 127.0.0.1:PORT.")
    ] = 0,
    write_cluster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the site as a cluster file (YAML) and exit."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast when pending Slurm jobs start, and explain why they wait; changes nothing."""
    if not 0.2 <= every_s <= 86_400:
        raise BadInput(f"--every {every_s:g} is out of range", "use 0.2 to 86400 seconds")
    if not 0 <= history_days <= 3650:
        raise BadInput(f"--history-days {history_days:g} is out of range", "use 0 to 3650")
    if as_json and not (once or why):
        raise BadInput("--json needs --once or --why", "use flyball watch slurm --once --json")
    if what_if and not why:
        raise BadInput("--if needs --why JOBID", "e.g. --why 1234 --if gpus=4")
    whole_number(metrics, "--metrics", 0, 65_535)
    check_writable(write_cluster, (".yaml", ".yml"))
    from flyball.engines.slurm.commands import Commands
    from flyball.engines.slurm.poll import Site

    site = Site(Commands())
    if write_cluster is not None:
        _write_cluster(site, write_cluster)
    elif why:
        _explain(site, why, what_if or [], history_days, as_json)
    elif once:
        reading = site.read()
        _check_partition(reading, partition)
        _print_once(_adviser(site, history_days).observe(reading), partition, user, as_json)
    else:
        _follow(site, every_s, history_days, metrics, partition, user)


def _adviser(site: Site, history_days: float) -> Adviser:
    """Return an adviser that has learnt from the site's accounts, if they can be read."""
    from flyball.watch.adviser import Adviser

    adviser = Adviser()
    if history_days:
        try:
            learnt = adviser.learn(site.ended(history_days), time.time())
            note(f"run times learnt from {learnt:,} jobs of the last {history_days:g} days")
        except DataAbsent as error:
            note(str(error))
    return adviser


def _check_partition(reading: Reading, partition: str) -> None:
    names = [row.name for row in reading.partitions]
    if partition and partition not in names:
        raise UnknownName("partition", partition, names)


def _write_cluster(site: Site, path: Path) -> None:
    from flyball.watch.report import cluster_text

    reading = site.read()
    path.write_text(cluster_text(reading.settings.get("clustername", ""), reading.nodes), "utf-8")
    note(
        f"wrote {path}; replay your accounts on it: sacct -a -X -P -S now-14days -o JobID,User,"
        "Account,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,State,ReqTRES,AllocTRES "
        f"> jobs.txt; flyball replay jobs.txt --cluster {path}"
    )


def _explain(
    site: Site, label: str, settings: list[str], history_days: float, as_json: bool
) -> None:
    from flyball.cli.watch.text import why_lines
    from flyball.watch.why import changes_of, explain_slurm_job

    changes = changes_of(settings)
    reading = site.read()
    adviser = _adviser(site, history_days)
    answer = explain_slurm_job(adviser, adviser.observe(reading), label, changes)
    if as_json:
        print_json(answer)
    else:
        typer.echo("\n".join(why_lines(answer)))


def _print_once(advice: Advice, partition: str, user: str, as_json: bool) -> None:
    from flyball.cli.output import print_table
    from flyball.cli.watch.text import HEADER, chosen, heading, table_rows
    from flyball.watch.report import as_json as advice_as_json

    advice = chosen(advice, partition, user)
    if as_json:
        print_json(advice_as_json(advice))
        return
    typer.echo(heading(advice))
    print_table("", HEADER, table_rows(advice), left=6)
    for line in advice.notes:
        note(line)


# Until interrupted ---------------------------------------------------------------------


def _follow(
    site: Site, every_s: float, history_days: float, metrics: int, partition: str, user: str
) -> None:
    """Show a table that follows the queue; a blocked or failing poll is shown, and retried."""
    from rich.live import Live
    from rich.text import Text

    from flyball.cli.watch.metrics import serve_metrics
    from flyball.cli.watch.text import chosen, frame_lines
    from flyball.engines.slurm.poll import Poller

    _check_partition(site.read(), partition)  # a site that cannot be read at all is an error
    adviser = _adviser(site, history_days)
    poller = Poller(site, every_s)
    state = Followed()
    server = serve_metrics(metrics, state.rows) if metrics else None
    if server is not None:
        note(f"metrics on http://127.0.0.1:{metrics}/metrics")
    poller.start()
    screen = sys.stdout.isatty()
    try:
        with Live(screen=screen, auto_refresh=False) as live:
            for advice, error in _advices(poller, adviser, state):
                shown = chosen(advice, partition, user) if advice is not None else None
                lines = frame_lines(shown, error, time.time(), live.console.height)
                live.update(Text("\n".join(lines)), refresh=True)
    finally:
        poller.stop()
        if server is not None:
            server.shutdown()


class Followed:
    """Holds the latest advice and counts for the metrics."""

    def __init__(self) -> None:
        self.advice: Advice | None = None
        self.polls = self.failures = 0

    def rows(self) -> list[tuple[str, dict[str, str], float]]:
        """Return the metrics as they are now."""
        from flyball.watch.report import metric_rows

        return metric_rows(self.advice, self.polls, self.failures)


def _advices(
    poller: Poller, adviser: Adviser, state: Followed
) -> Iterator[tuple[Advice | None, str]]:
    """Yield the latest advice, and why the last poll failed, about once a second."""
    seen, read_s = 0, 0.0
    while True:
        seen_before = seen
        seen, reading, error = poller.latest(seen, NEXT_POLL_S)
        state.polls = seen
        if seen > seen_before and error:
            state.failures += seen - seen_before
        if reading is not None and reading.time_s > read_s:
            read_s = reading.time_s
            state.advice = adviser.observe(reading)
        yield state.advice, error
