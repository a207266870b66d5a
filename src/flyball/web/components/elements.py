"""Elements of the pages that are drawn in the browser; each has a file of JavaScript."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import nicegui.elements.aggrid
import nicegui.elements.echart  # noqa: F401  # both register their libraries
from nicegui.element import Element

from flyball.web.devices import DeviceTable


class Chart(Element, component="chart.js"):
    """A chart of ECharts in the colours of the page.

    Args:
        options: of ECharts; strings such as `--accent` stand for the page's colours.
        label: what it shows, for people who do not see it.
    """

    def __init__(self, options: Mapping[str, Any], label: str) -> None:
        super().__init__()
        self._props["options"] = dict(options)
        self._props["label"] = label

    def set(self, options: Mapping[str, Any]) -> None:
        """Draw other options."""
        self.run_method("set", dict(options))


class DeviceMap(Element, component="device_map.js"):
    """Every device of the cluster as a cell, in colours by job, use, power or temperature."""

    def __init__(self, table: DeviceTable) -> None:
        super().__init__()
        self._table = table
        self._props["data"] = _whole(table)

    def show(self, table: DeviceTable) -> None:
        """Draw another table; only what changed is sent."""
        before, self._table = self._table, table
        if table is before:
            return
        if table.nodes != before.nodes:
            self.run_method("set", _whole(table))
            return
        columns = {
            name: _changes(values, before.columns()[name])
            for name, values in table.columns().items()
        }
        jobs = {key: value for key, value in table.jobs.items() if before.jobs.get(key) != value}
        gone = [key for key in before.jobs if key not in table.jobs]
        columns = {name: changes for name, changes in columns.items() if changes}
        if columns or jobs or gone:
            self.run_method("change", {"columns": columns, "jobs": jobs, "gone": gone})


def _whole(table: DeviceTable) -> dict[str, Any]:
    return {"nodes": table.nodes, "columns": table.columns(), "jobs": table.jobs}


def _changes(values: list[int], before: list[int]) -> list[int]:
    """Return index and value of each entry that changed, one after the other."""
    if values == before:
        return []
    return [
        number
        for at, (value, old) in enumerate(zip(values, before, strict=True))
        if value != old
        for number in (at, value)
    ]


class QueueGrid(Element, component="queue_grid.js"):
    """The queue as a grid that reads its rows from the API itself.

    Args:
        search: text that rows must contain.
        on_selected: called with the ids of the selected jobs.
    """

    def __init__(self, search: str, on_selected: Callable[[list[int]], None]) -> None:
        super().__init__()
        self._props["search"] = search
        self.on("selected", lambda event: on_selected([int(number) for number in event.args]))

    def changed(self) -> None:
        """Have it read the queue again."""
        self.run_method("load")

    def set_starts(self, rows: Sequence[Sequence[float]]) -> None:
        """Show expected starts: id, p50 and p90 in seconds from now."""
        self.run_method("set_starts", rows)

    def select_none(self) -> None:
        """Drop the selection."""
        self.run_method("select_none")


class JobLog(Element, component="job_log.js"):
    """The log of an attempt of a job, followed while it runs.

    Args:
        attempt: 0 = all that are still to come as well.
    """

    def __init__(self, job: int, attempt: int = 0, stream: str = "stdout") -> None:
        super().__init__()
        self._props["job"], self._props["attempt"] = job, attempt
        self._props["stream"] = stream


class Gantt(Element, component="gantt.js"):
    """What ran where; it reads the history from the API itself."""

    def load(self, since_s: float, until_s: float) -> None:
        """Show a span of the past; `until_s` 0 = until now."""
        self.run_method("load", since_s, until_s)


class LoopPicture(Element, component="loop_picture.js"):
    """The four layers as one picture, with what flows between them now."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__()
        self._props["start"] = dict(values)

    def set(self, values: Mapping[str, Any]) -> None:
        """Show other values."""
        self.run_method("set", dict(values))
