"""The application of `flyball top`, by Textual's pilot, on a real control plane."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.api.world import SLEEP, World, stepping
from tests.until import WAIT_S
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, RichLog, Static

from flyball.cli.top.app import TopApp
from flyball.cli.top.job_screen import ConfirmScreen, JobScreen
from flyball.control.access.roles import Role
from flyball.control.access.user_tokens import add_token
from flyball.sdk.client import Client

JOB = {**SLEEP, "estimate_s": 500.0, "limit_s": 1000.0}
Script = Callable[[TopApp, Pilot[None]], Coroutine[Any, Any, None]]


class Stage:
    """A served control plane with a running array, waiting jobs, and a log."""

    def __init__(self, world: World, client: Client) -> None:
        self.world, self.client = world, client
        self.running = client.submit_job({**JOB, "cpus": 3, "name": "train", "user": "ada"})
        self.second = client.submit_job({**JOB, "cpus": 4, "name": "[b]eval", "user": "bob"})
        world.step(10)
        self.waiting = client.submit_job({**JOB, "cpus": 4, "name": "big", "user": "ada"})
        for number in range(5):
            client.submit_job({**JOB, "cpus": 2, "name": f"sweep-{number}", "user": "bob"})
        world.step(10)
        world.log(self.running, b"epoch 1\n\x1b[31mred\x1b[0m [bold]text\x07\n")
        world.plane.report(self.running, 1, {"step": 40.0, "steps": 100.0, "loss": 0.5})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "state", int((time.time() - 600) * 1e6))
    yield world
    world.plane.close()


@pytest.fixture
def stage(world: World) -> Iterator[Stage]:
    with ExitStack() as stack:
        stack.enter_context(world.server(token_folder=world.folder))
        yield Stage(world, stack.enter_context(Client(world.folder)))


def play(script: Script, client: Client, size: tuple[int, int] = (80, 24)) -> None:
    """Run the application with a script of keys."""

    async def run() -> None:
        app = TopApp(client, 0.1)
        async with app.run_test(size=size) as pilot:
            await wait_for(pilot, lambda: table_of(app).row_count > 0 or app._moment is not None)
            await script(app, pilot)

    asyncio.run(run())


async def wait_for(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await pilot.pause(0.02)


def table_of(app: TopApp) -> DataTable[Any]:
    return app.screen_stack[0].query_one("#queue", DataTable)


def rows(app: TopApp) -> list[list[str]]:
    """Return the cells of the queue as text."""
    table = table_of(app)
    return [[str(cell).strip() for cell in table.get_row_at(at)] for at in range(table.row_count)]


def names(app: TopApp) -> list[str]:
    return [row[1] for row in rows(app)]


def text_of(app: TopApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).render())


def log_of(app: TopApp) -> str:
    return "\n".join(strip.text for strip in app.screen.query_one(RichLog).lines)


def screen_lines(app: TopApp) -> list[str]:
    """Return the screen as lines of text."""
    width, height = app.size
    strips = app.screen._compositor.render_strips()
    return [strip.text[:width] for strip in strips[:height]]


def test_the_queue_and_the_nodes(stage: Stage) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda: len(rows(app)) == 8 and bool(rows(app)[2][6]))
        table = rows(app)
        assert table[0][:5] == [str(stage.running), "train", "ada", "3 cpu", "run"]
        assert table[0][7].startswith("step 40")
        assert table[1][1] == "[b]eval"  # markup of a user is text
        assert (table[2][1], table[2][4]) == ("big", "wait")
        assert table[2][7] != ""  # why it waits
        assert "7 of 8 cores busy, 2 running, 6 waiting" in text_of(app, "#head")
        shown = screen_lines(app)
        assert any("BBB" in line and "3/4" in line for line in shown)
        assert all(len(line) <= 80 for line in shown)
        for head in ("job", "name", "start", "why"):
            assert any(head in line for line in shown)

    play(script, stage.client)


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (160, 50)])
def test_every_width_shows_the_reason(stage: Stage, size: tuple[int, int]) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda: len(rows(app)) == 8)
        line = next(line for line in screen_lines(app) if "train" in line)
        assert "step" in line
        assert table_of(app).virtual_size.width <= size[0]

    play(script, stage.client, size)


def test_filters(stage: Stage) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda: len(rows(app)) == 8)
        await pilot.press("s")
        assert names(app) == ["train", "[b]eval"]
        await pilot.press("s")
        assert len(rows(app)) == 6
        await pilot.press("s", "slash", *"bob sweep", "enter")
        assert names(app) == [f"sweep-{number}" for number in range(5)]
        assert "5 of 8 jobs, with bob sweep" in str(table_of(app).border_title)
        await pilot.press("escape")
        assert len(rows(app)) == 8
        assert not app.query_one("#filter", Input).display

    play(script, stage.client)


def test_a_job_its_progress_and_its_log(stage: Stage) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda: len(rows(app)) == 8)
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, JobScreen))
        await wait_for(pilot, lambda: "epoch 1" in log_of(app))
        assert "red [bold]text" in log_of(app)  # neither colour codes nor bells get through
        await wait_for(pilot, lambda: "step 40" in text_of(app, "#job-facts"))
        assert f"{stage.running} train: RUNNING" in text_of(app, "#job-head")
        assert app.screen.query_one("#job-progress").display
        assert any("40%" in line for line in screen_lines(app))
        for number, loss in enumerate((0.4, 0.3)):
            values = {"step": 50.0 + number, "loss": loss}
            stage.world.plane.report(stage.running, 1, values)
            await wait_for(pilot, lambda: f"loss {loss}" in text_of(app, "#job-facts"))  # noqa: B023
        assert app.screen.query_one("#job-loss").display
        stage.world.log(stage.running, b"epoch 2\n")
        await wait_for(pilot, lambda: "epoch 2" in log_of(app))
        await pilot.press("escape")
        assert len(app.screen_stack) == 1

    play(script, stage.client)


def test_why_a_job_waits(stage: Stage) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda: len(rows(app)) == 8)
        await pilot.press("j", "j", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, JobScreen))
        await wait_for(pilot, lambda: "cores" in text_of(app, "#job-facts"))
        assert "PENDING" in text_of(app, "#job-head")
        assert ":" in text_of(app, "#job-facts")
        assert not app.screen.query_one("#job-progress").display

    play(script, stage.client)


def test_cancel_asks_first(stage: Stage) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda: len(rows(app)) == 8)
        await pilot.press("c")
        await wait_for(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        assert any("Cancel job 1 (train) of ada" in line for line in screen_lines(app))
        await pilot.press("enter")  # no is the default
        await wait_for(pilot, lambda: len(app.screen_stack) == 1)
        assert stage.client.job(stage.running)["state"] == "RUNNING"
        await pilot.press("c")
        await wait_for(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        with stepping(stage.world):
            await wait_for(pilot, lambda: stage.client.job(stage.running)["state"] == "CANCELLED")
            await wait_for(pilot, lambda: "train" not in names(app))

    play(script, stage.client)


def test_a_role_that_may_not_cancel(stage: Stage) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda: len(rows(app)) == 8)
        await pilot.press("c")
        await wait_for(pilot, lambda: len(app._notifications) == 1)
        message = next(iter(app._notifications)).message
        assert message == "eve has the role viewer, which may change nothing"
        assert len(app.screen_stack) == 1

    token = add_token(stage.world.folder, "eve", Role.VIEWER, 1.7e9)
    with Client(url=stage.client._transport._endpoint.url, token=token) as viewer:
        play(script, viewer)


def test_the_cursor_stays_on_its_job(stage: Stage) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda: len(rows(app)) == 8)
        await pilot.press("j", "j")
        stage.client.cancel(stage.second)
        stage.world.step(10)
        await wait_for(pilot, lambda: "[b]eval" not in names(app))
        assert names(app)[table_of(app).cursor_row] == "big"

    play(script, stage.client)


def test_a_server_that_stops_and_comes_back(world: World) -> None:
    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        await wait_for(pilot, lambda: "cores busy" in text_of(app, "#head"))
        await asyncio.to_thread(first.close)
        await wait_for(pilot, lambda: "trying again" in text_of(app, "#head"))
        with world.server():
            await wait_for(pilot, lambda: "cores busy" in text_of(app, "#head"))

    with ExitStack() as first:
        first.enter_context(world.server())
        with Client(world.folder) as client:
            play(script, client)


@pytest.mark.skipif("FLYBALL_SCREENSHOTS" not in os.environ, reason="makes pictures to look at")
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_screenshots(stage: Stage, size: tuple[int, int]) -> None:
    folder = Path(os.environ["FLYBALL_SCREENSHOTS"])

    async def script(app: TopApp, pilot: Pilot[None]) -> None:
        async def shot(name: str, ready: Awaitable[None]) -> None:
            await ready
            await pilot.pause(0.3)
            path = folder / f"{name}-{size[0]}.svg"
            path.write_text(app.export_screenshot(), encoding="utf-8")

        await shot("queue", wait_for(pilot, lambda: bool(rows(app)[2][6])))
        await pilot.press("enter")
        await shot("job", wait_for(pilot, lambda: "epoch" in log_of(app)))
        await pilot.press("escape", "j", "j", "enter")
        await shot("why", wait_for(pilot, lambda: "PENDING" in text_of(app, "#job-head")))
        await pilot.press("escape", "c")
        await shot("cancel", wait_for(pilot, lambda: isinstance(app.screen, ConfirmScreen)))

    play(script, stage.client, size)
