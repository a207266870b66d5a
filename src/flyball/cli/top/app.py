"""The application of `flyball top`: nodes and devices as bars, the queue, and the way to a job."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.widgets import DataTable, Footer, Input, Static

from flyball.cli.formats import Job
from flyball.cli.top.frame import head, letters_of, rates_text, sensors_text
from flyball.cli.top.job_screen import JobScreen, ask_and_cancel
from flyball.cli.top.poll import Moment, Poll
from flyball.cli.top.rows import (
    HEADS,
    MOST_NODES,
    Row,
    cells,
    cut,
    device_bars,
    matches,
    node_lines,
    pool_lines,
    row_of,
    widths,
)
from flyball.core.jobs import JobState
from flyball.sdk.errors import ApiError

if TYPE_CHECKING:
    from flyball.sdk.client import Client

OF_THE_QUEUE = frozenset({"cancel", "filter", "states", "nodes", "clear", "move", "quit"})
"""Actions that mean nothing while a job is shown."""
STATES = ("", "run", "wait")
"""What `s` goes through: all jobs, those that run, those that wait."""
RIGHT = ("label", "time", "start")
"""Columns of numbers."""
STYLES = {"run": "green", "wait": "yellow", "ending": "magenta"}


class QueueTable(DataTable[Text]):
    """The table of jobs."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "show")]


class TopApp(App[None]):
    """Shows the cluster until it is ended.

    Args:
        client: whose server is shown.
        every_s: time between two refreshes.
    """

    TITLE = "flyball top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: auto; padding: 0 1; }
    #nodes { height: auto; max-height: 40%; padding: 0 1; border-top: solid $primary; }
    #filter { display: none; height: 3; }
    #queue { height: 1fr; border-top: solid $primary; }
    #job-head, #job-facts { height: auto; padding: 0 1; }
    #job-progress, #job-loss { height: 1; width: 100%; padding: 0 1; }
    #job-progress Bar { width: 1fr; }
    #job-log { height: 1fr; border-top: solid $primary; }
    ConfirmScreen { align: center middle; }
    #question { width: 60; height: auto; padding: 1 2; border: thick $error; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "cancel", "cancel"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("s", "states", "run/wait"),
        Binding("n", "nodes", "nodes"),
        Binding("escape", "clear", "clear", show=False),
        Binding("j", "move(1)", "down", show=False),
        Binding("k", "move(-1)", "up", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, client: Client, every_s: float) -> None:
        super().__init__()
        self._poll, self._every_s = Poll(client), every_s
        self._asking = threading.Lock()
        self._moment: Moment | None = None
        self._words: list[str] = []
        self._states = ""
        self._list_nodes: bool | None = None
        self._jobs: dict[int, Job] = {}
        self._shown: list[list[str]] = []
        self._ids: list[int] = []
        self._columns: dict[str, int] = {}

    def compose(self) -> ComposeResult:
        yield Static("asking the server ...", id="head")
        with VerticalScroll(id="nodes", can_focus=False):
            yield Static(id="node-lines")
        yield Input(
            placeholder="job, name, user, reason; several words must all match", id="filter"
        )
        yield QueueTable(id="queue", cursor_type="row", cell_padding=0)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#queue", DataTable).focus()
        self._refresh()
        self.set_interval(self._every_s, self._refresh)

    # Data -----------------------------------------------------------------------------

    @work(thread=True, group="poll", exit_on_error=False)
    def _refresh(self) -> None:
        """Ask the server, unless an earlier question is still open."""
        if not self._asking.acquire(blocking=False):
            return
        try:
            moment = self._poll.moment()
        except ApiError as error:
            self.call_from_thread(self._unanswered, error.detail)
        else:
            self.call_from_thread(self._answered, moment)
        finally:
            self._asking.release()

    def _unanswered(self, why: str) -> None:
        """Say that what is shown is old; the next refresh tries again."""
        since = ""
        if self._moment is not None:
            since = time.strftime(" since %H:%M:%S", time.localtime(self._moment.snapshot.now))
        line = Text(f"no answer{since}, trying again: {why}", "bold red")
        self.screen_stack[0].query_one("#head", Static).update(line)

    def _answered(self, moment: Moment) -> None:
        self._moment = moment
        self._draw()

    # Drawing --------------------------------------------------------------------------

    def _draw(self) -> None:
        if self._moment is None:
            return
        snapshot, base = self._moment.snapshot, self.screen_stack[0]
        lines = [Text(head(snapshot), "bold"), Text(rates_text(snapshot.rates))]
        if sensors := sensors_text(snapshot.sensors):
            lines.append(Text(sensors))
        for line in lines:
            line.truncate(self.size.width - 2, overflow="ellipsis")
        base.query_one("#head", Static).update(Text("\n").join(lines))
        base.query_one("#node-lines", Static).update(Text("\n").join(self._node_lines()))
        self._draw_queue()

    def _node_lines(self) -> list[Text]:
        assert self._moment is not None
        snapshot = self._moment.snapshot
        listed = self._list_nodes
        if listed is None:
            listed = len(snapshot.nodes) <= MOST_NODES
        if not listed:
            lines = list(pool_lines(snapshot.nodes))
        else:
            running = [job["id"] for job in snapshot.queue if job["state"] != JobState.PENDING]
            lines = list(node_lines(snapshot.nodes, letters_of(running)))
        lines += device_bars(snapshot.sensors)
        for line in lines:
            line.no_wrap = True
            line.truncate(self.size.width - 2, overflow="ellipsis")
        return lines

    def _rows(self) -> list[Row]:
        """Return the rows of jobs that pass the filters."""
        assert self._moment is not None
        snapshot, starts = self._moment.snapshot, self._moment.starts
        self._jobs = {job["id"]: job for job in snapshot.queue}
        rows = [row_of(job, snapshot.now, starts) for job in snapshot.queue]
        return [row for row in rows if matches(row, self._words, self._states)]

    def _draw_queue(self) -> None:
        """Change the cells that changed; build the table again only if its rows are others."""
        assert self._moment is not None
        table: DataTable[Text] = self.screen_stack[0].query_one("#queue", DataTable)
        rows, columns = self._rows(), widths(self.size.width)
        ids, texts = [row.id for row in rows], [cells(row, columns) for row in rows]
        if columns != self._columns:
            table.clear(columns=True)
            self._ids = []
            for name, width in columns.items():
                title = cut(HEADS[name], width)
                title = title.rjust(width) if name in RIGHT else title
                table.add_column(title, width=width + 1, key=name)
            self._columns = columns
        if ids == self._ids:
            for at, (before, after) in enumerate(zip(self._shown, texts, strict=True)):
                if before != after:
                    self._change(table, str(ids[at]), before, after)
        else:
            self._rebuild(table, ids, texts)
        self._ids, self._shown = ids, texts
        snapshot = self._moment.snapshot
        table.border_title = self._title(len(rows), snapshot.total)

    def _change(
        self, table: DataTable[Text], key: str, before: list[str], after: list[str]
    ) -> None:
        for name, old, new, cell in zip(
            self._columns, before, after, self._styled(after), strict=True
        ):
            if old != new:
                table.update_cell(key, name, cell)

    def _rebuild(self, table: DataTable[Text], ids: list[int], texts: list[list[str]]) -> None:
        """Fill the table; the cursor stays on its job, or on its line if that has gone."""
        line, chosen, top = table.cursor_row, self._chosen_id(), table.scroll_y
        table.clear()
        for job_id, texts_ in zip(ids, texts, strict=True):
            table.add_row(*self._styled(texts_), key=str(job_id))
        if ids:
            at = ids.index(chosen) if chosen in ids else min(line, len(ids) - 1)
            table.move_cursor(row=at, animate=False, scroll=False)
            table.scroll_to(y=top, animate=False)

    def _styled(self, texts: list[str]) -> list[Text]:
        """Return the cells of a row, coloured by the job's state; numbers are right-aligned."""
        state = dict(zip(self._columns, texts, strict=True))["state"]
        styled = []
        for (name, width), text in zip(self._columns.items(), texts, strict=True):
            style = STYLES.get(state, "") if name in ("label", "state") else ""
            shown = text.rjust(width) if name in RIGHT else text
            styled.append(Text(shown, style, no_wrap=True))
        return styled

    def _title(self, shown: int, total: int) -> str:
        parts = [f"{shown:,} of {total:,} jobs" if shown != total else f"{total:,} jobs"]
        parts += [{"run": "running", "wait": "waiting"}[self._states]] if self._states else []
        parts += [f"with {' '.join(self._words)}"] if self._words else []
        return ", ".join(parts).replace("[", "(")

    def on_resize(self, event: Resize) -> None:
        self._draw()

    # Keys -----------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out the keys of the queue while a job is shown."""
        return len(self.screen_stack) == 1 or action not in OF_THE_QUEUE

    def _chosen_id(self) -> int | None:
        table = self.screen_stack[0].query_one("#queue", DataTable)
        return self._ids[table.cursor_row] if 0 <= table.cursor_row < len(self._ids) else None

    @on(DataTable.RowSelected)
    def _show_job(self) -> None:
        """Show the chosen job."""
        chosen = self._chosen_id()
        if chosen is not None and len(self.screen_stack) == 1:
            self.push_screen(JobScreen(self._poll, chosen, self._every_s))

    @work
    async def action_cancel(self) -> None:
        """Cancel the chosen job, after a question."""
        chosen = self._chosen_id()
        if chosen is not None and len(self.screen_stack) == 1:
            await ask_and_cancel(self.screen, self._poll, self._jobs[chosen])

    def action_filter(self) -> None:
        """Open the line of the filter."""
        if len(self.screen_stack) == 1:
            line = self.query_one("#filter", Input)
            line.display = True
            line.focus()

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self._words = event.value.lower().split()
        self._draw()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.query_one("#filter", Input).display = bool(self._words)
        self.query_one("#queue", DataTable).focus()

    def action_clear(self) -> None:
        """Drop all filters."""
        if len(self.screen_stack) == 1:
            line = self.query_one("#filter", Input)
            line.value, line.display = "", False
            self._words, self._states = [], ""
            self.query_one("#queue", DataTable).focus()
            self._draw()

    def action_states(self) -> None:
        """Show all jobs, those that run, those that wait, in turn."""
        if len(self.screen_stack) == 1:
            self._states = STATES[(STATES.index(self._states) + 1) % len(STATES)]
            self._draw()

    def action_nodes(self) -> None:
        """List nodes one by one, or by kind."""
        if self._moment is not None:
            few = len(self._moment.snapshot.nodes) <= MOST_NODES
            self._list_nodes = not (few if self._list_nodes is None else self._list_nodes)
            self._draw()

    def action_move(self, step: int) -> None:
        """Move the cursor of the queue."""
        table = self.query_one("#queue", DataTable)
        table.move_cursor(row=table.cursor_row + step)
