"""Every path with every method: 405 exactly where the path does not have it, and a true `Allow`."""

from __future__ import annotations

from collections import defaultdict

import httpx
import pytest
from tests.api.test_jobs import refused

from flyball.api.app import ROUTERS

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


def methods_by_path() -> dict[str, set[str]]:
    """Return the methods of every path, as the routes declare them."""
    methods: defaultdict[str, set[str]] = defaultdict(set)
    for router in ROUTERS:
        for route in router.routes:
            methods[getattr(route, "path")] |= getattr(route, "methods")  # noqa: B009
    return dict(methods)


@pytest.mark.parametrize("path", sorted(methods_by_path()))
def test_every_method_of_a_path(client: httpx.Client, path: str) -> None:
    allowed = methods_by_path()[path]
    url = path.replace("{job}", "1")
    for method in METHODS:
        if method in allowed:
            # An empty body or a missing job is refused, but never as a wrong method.
            with client.stream(method, url) as answer:
                assert answer.status_code != 405, (method, path)
            continue
        answer = client.request(method, url)
        assert answer.status_code == 405, (method, path)
        assert answer.headers["allow"] == ", ".join(sorted(allowed)), (method, path)
        if method != "HEAD":
            assert ", ".join(sorted(allowed)) in refused(answer, 405)["remedy"]


def test_paths_that_do_not_exist_are_not_found(client: httpx.Client) -> None:
    for path in ("/api/v1/jobs/1/nothing", "/api/v1/nothing", "/nothing"):
        for method in METHODS:
            assert client.request(method, path).status_code == 404, (method, path)
