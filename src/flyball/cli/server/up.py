"""`flyball up`: runs the control plane and its monitoring agent, in the foreground."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from flyball.cli.kernels import ensure_compiled
from flyball.cli.live import State
from flyball.cli.output import note
from flyball.cli.replay.tuned import Goals, goal_settings
from flyball.cli.server.up_agent import AgentKeeper, agent_command, trim
from flyball.cli.server.up_detached import LOG, Ready, detach
from flyball.cli.server.up_greeting import greeting
from flyball.cli.server.up_port import serve_on_kept_port
from flyball.cli.server.up_prices import live_prices
from flyball.cli.server.up_slurm import give_access, slurm_settings
from flyball.core.errors import BadInput, Unavailable
from flyball.sdk.endpoint import start_of

EXAMPLES = """\b
Examples:
  flyball up
  flyball up -d                            (in the background; flyball down stops it)
  flyball up --tune elastic,power --tune-set elastic.gap_s=120
  flyball up --tune elastic --weights completion=1
  flyball up --pathways jobs               (every job follows the pathway of its class)
  flyball up --policy srtf --set round_s=120 --state ~/queue
  flyball up --engine slurm --shared /home/ada/flyball --partition gpu
  flyball up --engine twin --cluster five-mixed --port 8700
  flyball up --rate compute=50ms --rate network=1s --keep-days 30 --keep-mib 2048
  flyball up --max-processes 2000          (for jobs that state no limit)
  flyball up --energy-price 0.3 --money-per-day 40 --power-kw 2
  flyball up --host-watts 60:200           (power idle and at full load, if not measured)
  flyball submit -- python train.py        (in another terminal)
"""

GC_THRESHOLDS = 100_000, 20, 20
"""Thresholds of the garbage collector. With the defaults it scanned the long-lived queue after
every few hundred new objects, which took a quarter of the time of a batch of submits."""

TEND_S = 2.0
"""Interval at which the endpoint file is restored if needed, and the log trimmed."""


def up(
    state: State = None,
    detached: Annotated[
        bool,
        typer.Option(
            "--detach", "-d", help="Return once it is up; it keeps running in the background."
        ),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Port of the API, kept for the next start; 0 = any free port. "
            "[default: that of the last start]",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; all but loopback need TLS.")
    ] = "127.0.0.1",
    tls_cert: Annotated[Path | None, typer.Option(help="TLS certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")] = None,
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="Scheduling policy; see `policies`.")
    ] = "easy",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KNOB=VALUE", help="Set a knob; may be repeated."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="local: run on this machine; slurm: run on a Slurm site; twin: simulate nodes."
        ),
    ] = "local",
    shared: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --engine slurm: folder that all nodes see under this path. [default: in "
            "the state folder]",
        ),
    ] = None,
    partition: Annotated[
        str, typer.Option(help="With --engine slurm: partition of all jobs. [default: Slurm's]")
    ] = "",
    account: Annotated[str, typer.Option(help="With --engine slurm: account of all jobs.")] = "",
    sbatch_options: Annotated[
        list[str] | None,
        typer.Option(
            "--sbatch",
            metavar="OPTION",
            help="With --engine slurm: a further option of sbatch, such as --sbatch=--qos=high; "
            "may be repeated.",
        ),
    ] = None,
    queue_s: Annotated[
        float,
        typer.Option(
            help="With --engine slurm: seconds that Slurm may let a job wait before it is placed "
            "anew."
        ),
    ] = 60.0,
    cluster: Annotated[
        str, typer.Option(help="With --engine twin: a preset or a cluster file.")
    ] = "five-mixed",
    agent: Annotated[bool, typer.Option(help="Start the monitoring agent.")] = True,
    rate: Annotated[
        list[str] | None,
        typer.Option(
            "--rate",
            metavar="FAMILY=PERIOD",
            help="Sampling interval of compute, memory, network, power or application: "
            "compute=50ms.",
        ),
    ] = None,
    host_watts: Annotated[
        str,
        typer.Option(
            metavar="IDLE:PEAK",
            help="Power of the host in W, where it is not measured. [default: from the catalogue]",
        ),
    ] = "",
    keep_days: Annotated[float, typer.Option(help="Days to keep measurements.")] = 7.0,
    keep_mib: Annotated[float, typer.Option(help="MiB of measurements to keep.")] = 512.0,
    max_processes: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Limit of processes and threads for jobs that state none; 0 = no limit. "
            "[default: a quarter of the kernel's, at most 16384]",
        ),
    ] = None,
    features: Annotated[
        str,
        typer.Option(
            metavar="LIST", help="Features of this machine that jobs may require: nvme,ib."
        ),
    ] = "",
    health_check: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Checks this machine once a minute; while it fails, no new jobs start. Its first "
            "line is the reason that `flyball nodes` shows.",
        ),
    ] = "",
    foresight: Annotated[
        bool, typer.Option(help="Learn run times and loads, in a separate process.")
    ] = True,
    tune: Annotated[
        str, typer.Option(help="Tuners, separated by commas: elastic, power, ...; none = off.")
    ] = "",
    tune_set: Annotated[
        list[str] | None,
        typer.Option(
            "--tune-set", metavar="TUNER.SETTING=VALUE", help="Change a setting; see `tuners`."
        ),
    ] = None,
    weights: Goals = None,
    tune_s: Annotated[float, typer.Option(help="Seconds between two rounds of tuners.")] = 60.0,
    forecast: Annotated[
        bool | None,
        typer.Option(
            "--forecast/--no-forecast",
            help="Give the tuners the load forecast. [default: if one of them gains by it]",
        ),
    ] = None,
    pathways: Annotated[
        str,
        typer.Option(
            metavar="SCOPE",
            help="How far the pathways of workload classes are followed: off; named = what "
            "belongs to jobs whose user named a class; jobs = the same for all, classified; "
            "cluster = also knobs and tuners of the leading class.",
        ),
    ] = "named",
    price: Annotated[
        float, typer.Option(help="Price of a core-hour or GPU-hour, for receipts.")
    ] = 0.0,
    energy_price: Annotated[
        float | None, typer.Option(help="Price of a kWh, if it is constant; else see --signals.")
    ] = None,
    carbon: Annotated[
        float | None, typer.Option(help="Grams of CO2 per kWh, if it is constant; likewise.")
    ] = None,
    currency: Annotated[
        str | None, typer.Option(help="Currency of the prices. [default: as the file has it, USD]")
    ] = None,
    signals: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML with `price`, `carbon` and `currency` as in a cluster file: constants, "
            "profiles or series. [default: with --engine twin, those of --cluster]",
        ),
    ] = None,
    money_per_day: Annotated[
        float | None,
        typer.Option(help="Most that the energy of a day (UTC) may cost; starts beyond it wait."),
    ] = None,
    carbon_per_day: Annotated[
        float | None, typer.Option(help="Most kg of CO2 that it may emit; likewise.")
    ] = None,
    power_kw: Annotated[
        float | None, typer.Option(help="Most that all nodes may draw; likewise.")
    ] = None,
) -> None:
    """Queue and run jobs on this machine, or on a Slurm site. Ctrl-C stops the server; running jobs
    keep running."""
    if engine not in ("local", "slurm", "twin"):
        raise BadInput(f"--engine {engine} is unknown", "use local, slurm or twin")
    ready = _in_background(state) if detached else None
    from flyball.api.entrance import OPEN_PATH
    from flyball.api.serve import check_exposure, serve
    from flyball.api.settings import ApiSettings
    from flyball.api.state_folder import default_state, locked, open_state
    from flyball.api.token import make_token
    from flyball.app import policy_settings
    from flyball.control.decide.tuning_rounds import Tuning
    from flyball.core.job_fields import FEATURES
    from flyball.live import WORKER_COMMAND, build_live, make_tuners
    from flyball.tune.pathway_scope import scope_of
    from flyball.tune.registry import gains_by_forecast
    from flyball.twin.inputs.cluster_file import load_cluster
    from flyball.web.entry import load_pages

    # 1. Check the options.
    check_exposure(host, tls_cert or "", tls_key or "")
    chosen = policy_settings(policy, settings or [])
    if len(chosen) != 1:
        raise BadInput(f"--policy {policy} names {len(chosen)} policies", "name one")
    if not 1.0 <= tune_s <= 86_400.0:
        raise BadInput(f"--tune-s {tune_s:g}", "use 1 to 86400 seconds")
    changed = goal_settings(weights, tune, tune_set)
    tuners = make_tuners(_tuner_names(tune), changed)
    if forecast is None:
        forecast = any(map(gains_by_forecast, tuners))
    tuning = Tuning(tuners, tune_s, changed, forecast)
    scope = scope_of(pathways)
    declared = FEATURES.read(features) if features else ()
    simulated = load_cluster(cluster) if engine == "twin" else None
    prices = live_prices(
        price, energy_price, carbon, currency, signals, simulated,
        money_per_day, carbon_per_day, power_kw,
    )  # fmt: skip
    folder = state or default_state()
    command = agent_command(folder, rate or [], host_watts, keep_days, keep_mib)
    folder = open_state(folder)
    with locked(folder):
        # 2. Compile, recover, serve.
        token = make_token(folder)
        ensure_compiled()
        gc.set_threshold(*GC_THRESHOLDS)
        live = build_live(
            folder, chosen[0], prices, simulated, tuning=tuning, max_processes=max_processes,
            features=declared, pathways=scope, shared=shared, health=shlex.split(health_check),
            slurm=slurm_settings(partition, account, sbatch_options or (), queue_s)
            if engine == "slurm"
            else None,
        )  # fmt: skip
        if live.recovered:
            note(f"recovered: {live.recovered} attempts had ended in the meantime")
        api, certificate = ApiSettings(token, folder), (tls_cert or "", tls_key or "")
        server = serve_on_kept_port(
            folder,
            port,
            lambda at: serve(live.plane, api, host, at, *certificate, pages=load_pages),
        )
        if engine == "slurm":
            give_access(live, server.url, tls_cert)
        live.driver.start()  # only now that the port is ours
        # 3. Publish the endpoint, start the agent and the worker, and wait for a signal.
        stopped = _stop_event()
        with (
            _endpoint(folder, server.url, tls_cert) as publish,
            _agent(command, folder / "agent.log", agent and engine == "local"),
            _worker(live.plane, WORKER_COMMAND, foresight),
        ):
            if ready is not None:
                ready(server.url)
            # The token is a secret: show it on a terminal, but do not write it to a file or pipe.
            secret = token if sys.stdout.isatty() else ""
            nodes = live.plane.nodes_
            link = ""
            if secret:
                link = f"{server.url}{OPEN_PATH}?code={server.app.state.sessions.issue()[0]}"

            def tend() -> None:
                publish()
                server.app.state.bridge.secret.refresh()
                if detached:
                    trim(folder / LOG)

            for line in greeting(
                server.url, folder, state, chosen[0].name, nodes, secret, tls_cert, link
            ):
                typer.echo(line)
            sys.stdout.flush()
            _until_stopped(server, stopped, tend)
        note("stopping; running jobs keep running")
        server.stop()
        live.close()


def _in_background(state: Path | None) -> Ready:
    """Continue in a background process; called before heavy imports, which start threads."""
    from flyball.api.state_folder import default_state, open_state

    return detach(open_state(state or default_state()), named=state is not None)


@contextlib.contextmanager
def _endpoint(folder: Path, url: str, tls_cert: Path | None) -> Iterator[Callable[[], None]]:
    """Publish the endpoint file while the server runs; the yielded function restores it."""
    path = folder / "endpoint.json"
    process = {"pid": os.getpid(), "start": start_of(os.getpid())}
    text = json.dumps({"url": url, **process, "ca": str(tls_cert.resolve()) if tls_cert else ""})

    def publish() -> None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if path.read_text(encoding="utf-8") == text:
                return
        draft = (
            folder / "endpoint.json.new"
        )  # a fixed name, so that killed starts leave at most one file
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        os.replace(draft, path)

    publish()
    try:
        yield publish
    finally:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _agent(command: Sequence[str], log: Path, enabled: bool) -> Iterator[None]:
    """Run the monitoring agent, restarted if it ends."""
    if not enabled:
        yield
        return
    keeper = AgentKeeper(command, log)
    keeper.start()
    try:
        yield
    finally:
        keeper.stop()


@contextlib.contextmanager
def _worker(plane: Any, command: Sequence[str], enabled: bool) -> Iterator[None]:
    """Run the process that learns from the journal; it is restarted if it ends."""
    if not enabled:
        yield
        return
    process = plane.worker_process(command)
    process.start()
    try:
        yield
    finally:
        process.stop()


def _tuner_names(text: str) -> list[str]:
    """Split names at commas; `none` alone means no tuner."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [] if names == ["none"] else names


def _stop_event() -> int:
    """Return an eventfd that becomes readable on Ctrl-C, SIGTERM or a hang-up of the terminal."""
    stopped = os.eventfd(0, os.EFD_CLOEXEC)
    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # started with nohup
        signals.remove(signal.SIGHUP)
    for number in signals:
        signal.signal(number, lambda _number, _frame: os.eventfd_write(stopped, 1))
    return stopped


def _until_stopped(server: Any, stopped: int, tend: Callable[[], None]) -> None:
    """Wait for a signal or the server's end; meanwhile call `tend` every `TEND_S` seconds."""

    def watch() -> None:
        server.join()
        os.eventfd_write(stopped, 1)

    threading.Thread(target=watch, name="api-watch", daemon=True).start()
    while not select.select([stopped], [], [], TEND_S)[0]:
        with contextlib.suppress(OSError):  # the disk may be full for a while
            tend()
    if not server.alive:
        raise Unavailable("the API server has stopped unexpectedly", "see the messages above")
