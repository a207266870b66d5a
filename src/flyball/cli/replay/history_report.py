"""`flyball report`: writes what a live cluster did, and what else could have been, as one file."""

from __future__ import annotations

import math
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.live import State
from flyball.cli.options import CLUSTER_HELP
from flyball.cli.output import check_writable, note, whole_number
from flyball.core.errors import BadInput
from flyball.core.units import S_PER_DAY, duration_text, parse_duration_s, to_us

if TYPE_CHECKING:
    from flyball.control.ask.bills import Prices
    from flyball.control.journal.history import History
    from flyball.core.cluster import Cluster
    from flyball.core.jobs import Job
    from flyball.core.workload import Workload
    from flyball.experiments.pages.history_page import WhatIf

EXAMPLES = """\b
Examples:
  flyball report --last 7d
  flyball report --last 30d --policy easy,srtf,tuned --out november.html
  flyball report --last 7d --energy-price 0.31 --currency EUR --carbon 350
  flyball report --last 7d --other-cluster bigger.yaml
  flyball report --last 24h --policy none --state /srv/flyball
"""
JOURNAL = "journal.db"
NO_POLICY = "none"
LONGEST_S = 3660 * S_PER_DAY


def report(
    last: Annotated[str, typer.Option("--last", help="Span that ends now: 7d, 24h.")] = "7d",
    out: Annotated[Path, typer.Option(help="The .html file to write.")] = Path("report.html"),
    policy: Annotated[
        str,
        typer.Option("--policy", "-p", help="Policies to replay the same jobs with, or `none`."),
    ] = "fifo,easy,srtf",
    other_cluster: Annotated[
        str | None,
        typer.Option(help=f"Replay them on other hardware as well. {CLUSTER_HELP}"),
    ] = None,
    price: Annotated[float, typer.Option(help="Price of a device-hour.")] = 0.0,
    energy_price: Annotated[float | None, typer.Option(help="Price of a kWh.")] = None,
    carbon: Annotated[float | None, typer.Option(help="Grams of CO2 per kWh.")] = None,
    currency: Annotated[str | None, typer.Option(help="Currency. [default: USD]")] = None,
    signals: Annotated[
        Path | None, typer.Option(help="YAML with `price`, `carbon`, `currency`, as for `up`.")
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Maximum number of processes; 0 = one per core.")
    ] = 0,
    state: State = None,
) -> None:
    """Write a report on the last days: use, waits, cost, and what else could have been."""
    seconds = parse_duration_s(last)
    if not 60 <= seconds <= LONGEST_S:
        raise BadInput(f"--last {last} is not a span of a minute to ten years", "e.g. --last 7d")
    check_writable(out, (".html",))
    whole_number(workers, "--workers", 0, 1024)
    for name, value in (("price", price), ("energy-price", energy_price), ("carbon", carbon)):
        if value is not None and not 0 <= value < math.inf:
            raise BadInput(f"--{name} {value:g} is not a price", "use 0 or more")
    from flyball.cli.server.up_prices import live_prices
    from flyball.control.journal.history import History
    from flyball.sdk.endpoint import state_folder

    prices = live_prices(price, energy_price, carbon, currency, signals, None)
    until_us = to_us(time.time())
    window = (until_us - to_us(seconds), until_us)
    with History(state_folder(state) / JOURNAL) as history:
        text = _page(history, window, prices, policy, other_cluster, workers)
    from flyball.twin.inputs.traces.files import replacing

    with replacing(out) as file:
        file.write(text)
    note(f"wrote {out}: the last {duration_text(seconds)}, {out.stat().st_size / 1024:,.0f} KiB")


def _page(
    history: History,
    window_us: tuple[int, int],
    prices: Prices,
    policies: str,
    other_cluster: str | None,
    workers: int,
) -> str:
    from flyball.control.jobs.request import cluster_of
    from flyball.experiments.pages.history_page import history_page, moment
    from flyball.experiments.pages.own_history import account

    cluster = cluster_of(history.nodes(), "this cluster")
    since_us, until_us = window_us
    notes: list[str] = []
    first = history.events(0, 1)
    if first and first[0][1].time_us > since_us:  # before it there was nothing to be used
        since_us = first[0][1].time_us
        notes.append(f"The span begins with the record, at {moment(since_us)}.")
    account_ = account(history.every_job(), cluster, prices, since_us, until_us)
    if not account_.jobs:
        raise BadInput("the journal has no job in this span", "give a longer --last")
    what_ifs = []
    if policies != NO_POLICY:
        workload = _workload(history, account_.jobs, notes)
        if workload is not None:
            what_ifs = _what_ifs(workload, cluster, prices, policies, other_cluster, workers, notes)
    command = shlex.join(["flyball", *sys.argv[1:]])
    return history_page(account_, prices, what_ifs, command, notes)


def _workload(history: History, jobs: list[Job], notes: list[str]) -> Workload | None:
    """Return the jobs of the span as a workload; None if none of them has ended."""
    from flyball.control.journal.export import demand_of, to_workload

    demand = demand_of(history.last_opened()[1])
    try:
        return to_workload(jobs, demand.device, demand.of, notes)
    except BadInput as error:
        notes.append(f"Nothing was replayed: {error}.")
        return None


def _what_ifs(
    workload: Workload,
    cluster: Cluster,
    prices: Prices,
    policies: str,
    other_cluster: str | None,
    workers: int,
    notes: list[str],
) -> list[WhatIf]:
    """Replay the jobs on the cluster as it is, and on another."""
    from dataclasses import replace

    from flyball.cli.replay.replay import run_with_progress
    from flyball.experiments.own_policy.settings import named_policies
    from flyball.experiments.pages.history_page import WhatIf
    from flyball.experiments.request import ReplayOptions, prepare
    from flyball.twin.inputs.cluster_file import load_cluster

    flat = [signal if signal is not None and signal.is_flat else None for signal in prices.signals]
    here = replace(cluster, price=flat[0], carbon=flat[1], currency=prices.currency)
    cases = [("Other policies", here)]
    if other_cluster is not None:
        other = load_cluster(other_cluster)
        cases.append((f"Other hardware: {other.name}", other))
    chosen = named_policies(policies, [])
    options = ReplayOptions(keep="first", skip_unfit=True)
    what_ifs = []
    for heading, place in cases:
        try:
            case, _arms = prepare(workload, place, chosen, options)
        except BadInput as error:  # none of these jobs fits this hardware
            notes.append(f"{heading}: not replayed: {error}.")
            continue
        runs = run_with_progress(case, workers)
        remark = " ".join([f"Replayed on {place.name}.", *case.notes])
        what_ifs.append(WhatIf(heading, remark, runs, case))
    return what_ifs
