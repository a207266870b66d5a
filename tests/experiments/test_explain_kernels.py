"""`flyball compile` reaches every compiled query of `explain`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flyball.experiments.explain import warm_explain
from flyball.schedule import diagnose


def queries() -> list[str]:
    """Return the names of the entries that `diagnose` defines."""
    return [
        name
        for name, value in vars(diagnose).items()
        if callable(value) and getattr(value, "__module__", "") == diagnose.__name__
    ]


def test_every_query_is_put_once(monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()

    def noting(name: str, query: Callable[..., Any]) -> Callable[..., Any]:
        def put(*arguments: Any) -> Any:
            called.add(name)
            return query(*arguments)

        return put

    names = queries()
    assert {"find_now", "most_devices", "figures", "list_levels", "bring_up"} <= set(names)
    for name in names:
        monkeypatch.setattr(diagnose, name, noting(name, getattr(diagnose, name)))
    warm_explain()
    assert called == set(names)
