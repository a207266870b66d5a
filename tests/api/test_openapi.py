"""The schema is correct: valid requests get the documented responses, and never a server error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.api.world import ANSWER_S, SLEEP, World, give_sensors

from flyball.api.app import create_app
from flyball.api.problems import CLIENT_ERRORS
from flyball.api.serve import Server
from flyball.api.settings import ApiSettings
from flyball.control.plane import Plane

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Server]]:
    """A control plane with jobs of every state; streams end at once."""
    from flyball.core.jobs import JobSpec

    world = World(tmp_path_factory.mktemp("openapi") / "state")
    world.plane.submit([JobSpec(("true",), estimate_s=1.0)] * 3)
    world.step()
    world.log(1, b"hello\n")
    world.step(5)
    world.plane.submit([JobSpec(("true",), cpus=4, estimate_s=1e6)] * 4)
    world.step()
    world.log(4, b"hello\n")
    give_sensors(world)
    with world.server(stream_s=0.02, poll_s=0.01, burst=1e9, failure_burst=1e9) as server:
        yield world, server
    world.plane.close()


def document() -> dict[str, Any]:
    """Return the schema, which does not depend on the plane."""
    return create_app(cast(Plane, None), ApiSettings("x" * 40)).openapi()


def without_large_bounds(value: Any) -> Any:
    """Drop large bounds: generating megabytes for each takes minutes; `test_jobs` tests them."""
    if isinstance(value, dict):
        return {
            name: without_large_bounds(item)
            for name, item in value.items()
            if not (name in ("maxItems", "maxLength", "maxProperties") and item > 300)
        }
    return [without_large_bounds(item) for item in value] if isinstance(value, list) else value


REFUSED = [400, 401, 404, 413, 415, 422]
CONFIG = {"checks": {"negative_data_rejection": {"expected-statuses": REFUSED}}}
schema = schemathesis.openapi.from_dict(
    without_large_bounds(document()), config=schemathesis.Config.from_dict(CONFIG)
)


@schema.parametrize()
@settings(
    max_examples=10, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_answers_are_as_documented(
    case: schemathesis.Case[Any], busy: tuple[World, Server]
) -> None:
    world, server = busy
    is_attempts = str(case.operation.path).startswith("/api/v1/attempt/")
    token = world.plane.attempt_tokens.token(4, 1) if is_attempts else world.token
    headers = {"Authorization": f"Bearer {token}"}
    case.call_and_validate(
        base_url=server.url, headers=headers, checks=CHECKS, timeout=ANSWER_S
    )  # fmt: skip


def test_every_problem_is_documented() -> None:
    for path, operations in document()["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            assert {str(status_code) for status_code in (*CLIENT_ERRORS, 422, 500)} <= set(
                answers
            ), (
                method,
                path,
            )
            for status, answer in answers.items():
                if status >= "400":
                    assert "application/problem+json" in answer["content"], (method, path, status)


def test_the_schema_names_every_field_of_a_job() -> None:
    from dataclasses import fields

    from flyball.core.job_fields import SYNONYMS
    from flyball.core.jobs import JobSpec

    properties = document()["components"]["schemas"]["OneIn"]["properties"]
    names = {field.name for field in fields(JobSpec)} - {"array_index", "array_limit"}
    assert set(properties) == names | set(SYNONYMS)
    assert set(SLEEP) <= names
